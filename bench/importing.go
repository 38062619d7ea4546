package main

import (
	"archive/zip"
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/klauspost/compress/flate"
)

// importingCommand generates a set in OGB's binary format, compressed NumPy archives, and measures
// the memory and time of importing it. It compares with the time to inflate the set, and with the
// time to write the bytes of the import:
//
//	go run ./bench importing -dir DIR [-nodes N -edges E -dim D] [-memory 1GiB]
//
// A set from an earlier run in the directory is reused if it has the same shape. -generate stops
// after generating; -numpy PYTHON also measures how long NumPy and SciPy take to make the same
// compressed sparse columns. -cgroup DIR runs both in an existing control group, with its memory
// limit.
func importingCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	r := importing{harness: h}
	var s shape
	f.Int64Var(&s.Nodes, "nodes", 20_000_000, "nodes")
	f.Int64Var(&s.Edges, "edges", 300_000_000, "edges")
	f.Int64Var(&s.Dim, "dim", 64, "elements of a feature row, float32")
	f.StringVar(&r.memory, "memory", "1GiB", "--memory of the import")
	only := f.Bool("generate", false, "stop after generating")
	python := f.String("numpy", "", "a Python with numpy and scipy, which is measured too")
	f.StringVar(&r.group, "cgroup", "", "directory of the control group for the import and NumPy")
	return func(ctx context.Context, _ []string) error {
		if _, err := h.place(); err != nil {
			return err
		}
		r.source = h.path("ogbn_generated")
		if err := generateOGB(r.source, s); err != nil || *only {
			return err
		}
		inflated, inflating, err := r.inflate()
		if err != nil {
			return err
		}
		found, written, err := r.convert(ctx)
		if err != nil {
			return err
		}
		writing, err := write(h.path("written"), written)
		if err != nil {
			return err
		}
		seconds, _ := found.number("import_seconds")
		out := append(row{{"nodes", s.Nodes}, {"edges", s.Edges}, {"dim", s.Dim}, {"workers", runtime.GOMAXPROCS(0)}}, inflated...)
		out = append(append(out, found...), field{"write_seconds", writing}, field{"share", max(inflating, writing) / seconds}) // in the rate of the slower
		if *python != "" {
			numpy, err := r.numpy(ctx, *python)
			if err != nil {
				return err
			}
			out = append(out, numpy...)
		}
		return h.report(out)
	}
}

type importing struct {
	*harness
	memory, group, source string
}

// confined returns a command that joins the control group before it begins.
func (r *importing) confined(ctx context.Context, name string, args ...string) *exec.Cmd {
	if r.group == "" {
		return exec.CommandContext(ctx, name, args...)
	}
	return exec.CommandContext(ctx, "sh", append([]string{"-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, r.group, name}, args...)...)
}

// inflate reads all members of the archives once, one after the other, as the importer unpacks them.
func (r *importing) inflate() (_ row, seconds float64, err error) {
	began := time.Now()
	var bytes, inflated int64
	for _, name := range []string{"data.npz", "node-label.npz"} {
		path := filepath.Join(r.source, "raw", name)
		st, err := os.Stat(path)
		if err != nil {
			return nil, 0, err
		}
		bytes += st.Size()
		n, err := inflate(path)
		if err != nil {
			return nil, 0, err
		}
		inflated += n
	}
	seconds = time.Since(began).Seconds()
	return row{{"source_bytes", bytes}, {"inflated_bytes", inflated}, {"inflate_seconds", seconds}}, seconds, nil
}

func inflate(path string) (inflated int64, err error) {
	z, err := zip.OpenReader(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, z.Close()) }()
	z.RegisterDecompressor(zip.Deflate, func(r io.Reader) io.ReadCloser {
		return flate.NewReader(bufio.NewReaderSize(r, 64<<10))
	})
	for _, f := range z.File {
		m, err := f.Open()
		if err != nil {
			return 0, err
		}
		n, err := io.CopyBuffer(onlyWriter{io.Discard}, m, make([]byte, 64<<10))
		inflated += n
		if err := errors.Join(err, m.Close()); err != nil {
			return 0, err
		}
	}
	return inflated, nil
}

// onlyWriter hides the ReadFrom method of a writer.
type onlyWriter struct{ io.Writer }

// convert imports the source, and returns the number of bytes written: the dataset, and the edges
// while they are sorted.
func (r *importing) convert(ctx context.Context) (_ row, written int64, err error) {
	out := r.path("dataset")
	if err := os.RemoveAll(out); err != nil {
		return nil, 0, err
	}
	cmd := r.confined(ctx, r.binary, "import", "--out", out, "--memory", r.memory, "--json", r.source)
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return nil, 0, fmt.Errorf("%v: %w", cmd, err)
	}
	var res struct {
		Seconds   float64 `json:"seconds"`
		Label     float64 `json:"label_seconds"`
		Topology  float64 `json:"topology_seconds"`
		Feature   float64 `json:"feature_seconds"`
		Edges     int64   `json:"edges"`
		PeakAnon  int64   `json:"peak_anon_bytes"`
		DiskBytes int64   `json:"disk_bytes"`
	}
	err = lastLine(b, &res)
	written = res.DiskBytes + 8*res.Edges
	return row{{"import_seconds", res.Seconds}, {"label_seconds", res.Label}, {"topology_seconds", res.Topology}, {"feature_seconds", res.Feature},
		{"peak_anon_bytes", res.PeakAnon}, {"written_bytes", written}}, written, err
}

// write writes bytes bytes in sequence, durably, and returns the seconds.
func write(name string, bytes int64) (seconds float64, err error) {
	buf := make([]byte, 1<<20)
	for i := range buf {
		buf[i] = byte(i * 7)
	}
	began := time.Now()
	f, err := os.Create(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(name)) }()
	for left := bytes; left > 0; left -= int64(len(buf)) {
		if _, err := f.Write(buf[:min(left, int64(len(buf)))]); err != nil {
			return 0, err
		}
	}
	err = f.Sync()
	return time.Since(began).Seconds(), err
}

//go:embed importing/numpy_csc.py
var numpyScript string

// numpy measures a program that converts the archive to compressed sparse columns.
func (r *importing) numpy(ctx context.Context, python string) (_ row, err error) {
	tmp, err := os.MkdirTemp(filepath.Dir(r.source), "numpy")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	cmd := r.confined(ctx, python, "-c", numpyScript, r.source, tmp)
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if r.group != "" && cmd.ProcessState != nil {
		if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() && w.Signal() == syscall.SIGKILL {
			return row{{"numpy_killed", true}}, nil // for lack of memory
		}
	}
	if err != nil {
		return nil, fmt.Errorf("numpy: %w", err)
	}
	var res struct {
		Seconds, Load float64
		RSS           int64
	}
	err = json.Unmarshal(b, &res)
	return row{{"numpy_seconds", res.Seconds}, {"numpy_load_seconds", res.Load}, {"numpy_peak_rss_bytes", res.RSS}}, err
}
