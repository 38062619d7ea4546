// Command importing generates a set as OGB writes its binary ones, compressed NumPy archives,
// and measures what importing it takes: memory, and time beside that of inflating it alone and
// of writing what an import writes.
//
//	go run ./bench/importing -dir DIR -bin bin/diskgnn [-nodes N -edges E -dim D] [-memory 1GiB]
//
// What is in DIR from an earlier run is used again if it has the same shape. -generate stops
// after generating; -numpy PYTHON measures beside it what NumPy and SciPy take to make the same
// compressed sparse columns. -cgroup DIR runs both in a control group that exists, with the limit
// on memory that it has.
package main

import (
	"archive/zip"
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/klauspost/compress/flate"

	"diskgnn/bench/internal/tool"
)

func main() {
	log.SetFlags(0)
	s := shape{}
	dir := flag.String("dir", "", "directory for the source and the dataset")
	bin := flag.String("bin", "bin/diskgnn", "the program")
	flag.Int64Var(&s.Nodes, "nodes", 20_000_000, "nodes")
	flag.Int64Var(&s.Edges, "edges", 300_000_000, "edges")
	flag.Int64Var(&s.Dim, "dim", 64, "elements of a feature row, float32")
	memory := flag.String("memory", "1GiB", "--memory of the import")
	only := flag.Bool("generate", false, "stop after generating")
	python := flag.String("numpy", "", "a Python with numpy and scipy, to be measured too")
	group := flag.String("cgroup", "", "directory of the control group that the import and NumPy run in")
	flag.Parse()
	if *dir == "" {
		log.Fatal("-dir is missing")
	}
	if err := run(*dir, *bin, *memory, *python, confined(*group), s, *only); err != nil {
		log.Fatal(err)
	}
}

// report is what is measured.
type report struct {
	shape
	SourceBytes      int64   `json:"source_bytes"`
	InflatedBytes    int64   `json:"inflated_bytes"`
	InflateSeconds   float64 `json:"inflate_seconds"` // all members once, one after the other
	WrittenBytes     int64   `json:"written_bytes"`   // the dataset, and the edges while they are sorted
	WriteSeconds     float64 `json:"write_seconds"`   // as many bytes in sequence, durable
	ImportSeconds    float64 `json:"import_seconds"`
	LabelSeconds     float64 `json:"label_seconds"`
	TopologySeconds  float64 `json:"topology_seconds"`
	FeatureSeconds   float64 `json:"feature_seconds"`
	PeakAnon         int64   `json:"peak_anon_bytes"`
	Share            float64 `json:"share"` // of the import's rate in that of the slower of inflating and writing
	Workers          int     `json:"workers"`
	NumPySeconds     float64 `json:"numpy_seconds,omitempty"`
	NumPyPeakRSS     int64   `json:"numpy_peak_rss_bytes,omitempty"`
	NumPyLoadSeconds float64 `json:"numpy_load_seconds,omitempty"`
	NumPyKilled      bool    `json:"numpy_killed,omitempty"` // for want of memory
}

// confined is the control group that commands run in; "" is the one that they have.
type confined string

// command returns a command that joins the group before it begins.
func (c confined) command(name string, args ...string) *exec.Cmd {
	if c == "" {
		return exec.Command(name, args...)
	}
	return exec.Command("sh", append([]string{"-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, string(c), name}, args...)...)
}

func run(dir, bin, memory, python string, group confined, s shape, only bool) error {
	source := filepath.Join(dir, "ogbn_generated")
	if err := generate(source, s); err != nil || only {
		return err
	}
	r := report{shape: s, Workers: runtime.GOMAXPROCS(0)}
	if err := r.inflate(source); err != nil {
		return err
	}
	if err := r.convert(group, bin, source, filepath.Join(dir, "dataset"), memory); err != nil {
		return err
	}
	if err := r.write(filepath.Join(dir, "written")); err != nil {
		return err
	}
	r.Share = max(r.InflateSeconds, r.WriteSeconds) / r.ImportSeconds
	if python != "" {
		if err := r.numpy(group, python, source); err != nil {
			return err
		}
	}
	return tool.Print(r)
}

// inflate reads all members of the archives, as the importer unpacks them.
func (r *report) inflate(source string) error {
	began := time.Now()
	for _, name := range []string{"data.npz", "node-label.npz"} {
		path := filepath.Join(source, "raw", name)
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		r.SourceBytes += st.Size()
		z, err := zip.OpenReader(path)
		if err != nil {
			return err
		}
		z.RegisterDecompressor(zip.Deflate, func(r io.Reader) io.ReadCloser {
			return flate.NewReader(bufio.NewReaderSize(r, 64<<10))
		})
		for _, f := range z.File {
			m, err := f.Open()
			if err != nil {
				return errors.Join(err, z.Close())
			}
			n, err := io.CopyBuffer(onlyWriter{io.Discard}, m, make([]byte, 64<<10))
			r.InflatedBytes += n
			if err := errors.Join(err, m.Close()); err != nil {
				return errors.Join(err, z.Close())
			}
		}
		if err := z.Close(); err != nil {
			return err
		}
	}
	r.InflateSeconds = time.Since(began).Seconds()
	return nil
}

// onlyWriter hides that a writer could read by itself.
type onlyWriter struct{ io.Writer }

// convert imports the source.
func (r *report) convert(group confined, bin, source, out, memory string) error {
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	cmd := group.command(bin, "import", "--out", out, "--memory", memory, "--json", source)
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%v: %w", cmd, err)
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
	if err := tool.LastLine(b, &res); err != nil {
		return err
	}
	r.ImportSeconds, r.LabelSeconds, r.TopologySeconds, r.FeatureSeconds = res.Seconds, res.Label, res.Topology, res.Feature
	r.PeakAnon, r.WrittenBytes = res.PeakAnon, res.DiskBytes+8*res.Edges
	return nil
}

// write writes as many bytes as the import did.
func (r *report) write(name string) (err error) {
	buf := make([]byte, 1<<20)
	for i := range buf {
		buf[i] = byte(i * 7)
	}
	began := time.Now()
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(name)) }()
	for left := r.WrittenBytes; left > 0; left -= int64(len(buf)) {
		if _, err := f.Write(buf[:min(left, int64(len(buf)))]); err != nil {
			return err
		}
	}
	err = f.Sync()
	r.WriteSeconds = time.Since(began).Seconds()
	return err
}

// script makes compressed sparse columns of the archive as a program with NumPy would.
const script = `
import json, resource, sys, time
import numpy as np, scipy.sparse as sp
began = time.time()
d = np.load(sys.argv[1] + "/raw/data.npz")
src, dst = d["edge_index"]
n = int(d["num_nodes_list"][0])
feat = d["node_feat"]
loaded = time.time()
m = sp.coo_matrix((np.ones(len(src), np.int8), (src, dst)), shape=(n, n)).tocsc()
m.indices.astype(np.uint32).tofile(sys.argv[2] + "/indices")
m.indptr.astype(np.int64).tofile(sys.argv[2] + "/indptr")
feat.tofile(sys.argv[2] + "/feat")
print(json.dumps({"seconds": time.time() - began, "load": loaded - began, "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
`

func (r *report) numpy(group confined, python, source string) error {
	tmp, err := os.MkdirTemp(filepath.Dir(source), "numpy")
	if err != nil {
		return err
	}
	cmd := group.command(python, "-c", script, source, tmp)
	cmd.Stderr = os.Stderr
	b, err := cmd.Output()
	if group != "" && cmd.ProcessState != nil {
		if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() && w.Signal() == syscall.SIGKILL {
			r.NumPyKilled = true
			return os.RemoveAll(tmp)
		}
	}
	if err := errors.Join(err, os.RemoveAll(tmp)); err != nil {
		return fmt.Errorf("numpy: %w", err)
	}
	var res struct {
		Seconds, Load float64
		RSS           int64
	}
	if err := json.Unmarshal(b, &res); err != nil {
		return err
	}
	r.NumPySeconds, r.NumPyLoadSeconds, r.NumPyPeakRSS = res.Seconds, res.Load, res.RSS
	return nil
}
