package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"diskgnn/pipeline"
)

// program is the program under measurement.
type program struct {
	binary  string
	loud    bool          // show its progress
	every   time.Duration // interval of reading its memory; 0: never
	watched watched       // of the last run
}

// run calls a subcommand with --json and decodes the last line of its output.
func (p *program) run(ctx context.Context, result any, args ...string) error {
	cmd := exec.CommandContext(ctx, p.binary, append(args, "--json")...)
	var out bytes.Buffer
	cmd.Stdout = &out
	if p.loud {
		cmd.Stderr = os.Stderr
	}
	p.watched = watched{}
	if out := flagOf(args, "--out"); out != "" {
		p.watched.metrics = filepath.Join(out, "metrics.jsonl")
	}
	if err := p.watched.over(cmd, p.every); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", p.binary, args, err, out.Bytes())
	}
	if err := lastLine(out.Bytes(), result); err != nil {
		return fmt.Errorf("%s %v: %w", p.binary, args, err)
	}
	return nil
}

// flagOf returns a flag's value.
func flagOf(args []string, name string) string {
	if i := slices.Index(args, name); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// lastLine decodes the last line of a program's output.
func lastLine(out []byte, result any) error {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], result); err != nil {
		return fmt.Errorf("last line is no JSON: %w", err)
	}
	return nil
}

// do runs commands of the program, one after the other, and discards their results.
func (p *program) do(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if err := p.run(ctx, new(any), args...); err != nil {
			return err
		}
	}
	return nil
}

// epoch is a training run's report of one epoch.
type epoch struct {
	Seconds      float64             `json:"seconds"`
	ValidSeconds float64             `json:"valid_seconds"`
	Loss         float64             `json:"loss"`
	BytesRead    int64               `json:"bytes_read"`
	UsefulBytes  int64               `json:"useful_bytes"`
	BoundLink    string              `json:"bound_stage"`
	BoundSeconds float64             `json:"bound_seconds"`
	Links        []pipeline.LinkTime `json:"stages"`
}

// training is a training run's report.
type training struct {
	Device       string  `json:"device"`
	Epochs       []epoch `json:"epochs"`
	BestEpoch    int     `json:"best_epoch"`
	TestAccuracy float64 `json:"test_accuracy"`
	CacheRows    int64   `json:"cache_rows"`
	GPUCacheRows int64   `json:"gpu_cache_rows"`
	GPUBytes     int64   `json:"gpu_bytes"`
	Memory       int64   `json:"memory_bytes"`
	Planned      int64   `json:"planned_bytes"`
	PeakAnon     int64   `json:"peak_anon_bytes"`
	PeakRSS      int64   `json:"peak_rss_bytes"`

	weights string // hash of the weights of the last epoch; empty without a model
}

func (t *training) last() *epoch { return &t.Epochs[len(t.Epochs)-1] }

// epochSeconds returns the median over the epochs, without the first if there are others: it fills
// the caches.
func (t *training) epochSeconds() float64 {
	return median(secondsOf(t.Epochs[min(1, len(t.Epochs)-1):]))
}

func secondsOf(epochs []epoch) (s []float64) {
	for _, e := range epochs {
		s = append(s, e.Seconds)
	}
	return s
}

// train trains once. It removes the run, unless --out names its directory.
func (h *harness) train(ctx context.Context, args ...string) (training, error) {
	t, _, err := h.made(ctx, append([]string{"train"}, args...)...)
	if err == nil && len(t.Epochs) == 0 {
		err = fmt.Errorf("%v: no epoch was trained", args)
	}
	return t, err
}

// made runs a command that makes a directory, and removes the directory unless --out names it. It
// returns the command's report twice: decoded as a training, and in full.
func (h *harness) made(ctx context.Context, args ...string) (t training, raw json.RawMessage, err error) {
	out := flagOf(args, "--out")
	if out == "" {
		dir, err := h.place()
		if err != nil {
			return t, nil, err
		}
		if dir, err = os.MkdirTemp(dir, "run"); err != nil {
			return t, nil, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
		out = filepath.Join(dir, "out")
		args = append(slices.Clone(args), "--out", out)
	}
	if err := h.run(ctx, &raw, args...); err != nil || args[0] != "train" {
		return t, raw, err
	}
	if err := json.Unmarshal(raw, &t); err != nil {
		return t, nil, err
	}
	final, err := os.ReadFile(filepath.Join(out, "final.safetensors"))
	if err == nil {
		t.weights = fmt.Sprintf("%x", sha256.Sum256(final))
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return t, raw, err
}

// watched is the kernel's figures about a process while it runs.
type watched struct {
	metrics                     string // file that has a line after the first epoch of a training
	looks                       int
	processors                  float64 // mean number of busy processors
	seconds                     float64 // from the start to the end
	usage                       syscall.Rusage
	anon, locked, resident, gpu level
}

// level is a quantity of memory over time.
type level struct {
	most  int64
	first int64 // maximum until the end of the first epoch
	later int64 // maximum after it
}

func (l *level) see(n int64, later bool) {
	l.most = max(l.most, n)
	if later {
		l.later = max(l.later, n)
	} else {
		l.first = max(l.first, n)
	}
}

func (l *level) growth() int64 { return max(0, l.later-l.first) }

func (w *watched) fields() row {
	return row{{"kernel_anonymous_bytes", w.anon.most}, {"kernel_locked_bytes", w.locked.most}, {"kernel_resident_bytes", w.resident.most}, {"samples", w.looks}}
}

// over runs a command, and reads its memory at intervals of every.
func (w *watched) over(cmd *exec.Cmd, every time.Duration) error {
	began := time.Now()
	defer func() {
		w.seconds = time.Since(began).Seconds()
		if s := cmd.ProcessState; s != nil {
			w.usage = *s.SysUsage().(*syscall.Rusage)
		}
	}()
	if every == 0 {
		return cmd.Run()
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			if s := cmd.ProcessState; s != nil {
				w.processors = (s.UserTime() + s.SystemTime()).Seconds() / time.Since(began).Seconds()
			}
			return err
		case <-time.After(every):
			w.look(cmd.Process.Pid)
		}
	}
}

// look reads the present figures of the kernel, and of nvidia-smi if it is installed.
func (w *watched) look(pid int) {
	info, err := os.Stat(w.metrics)
	later := err == nil && info.Size() > 0
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return
	}
	w.looks++
	w.anon.see(kibibytes(rollup, "Anonymous:"), later)
	w.resident.see(kibibytes(rollup, "Rss:"), later)
	w.locked.see(kibibytes(status, "VmLck:")+kibibytes(status, "VmPin:"), later)
	b, err := exec.Command("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits").Output()
	if err != nil {
		return
	}
	if n, err := strconv.ParseInt(strings.TrimSpace(string(bytes.Split(b, []byte("\n"))[0])), 10, 64); err == nil {
		w.gpu.see(n<<20, later)
	}
}

// kibibytes returns a quantity from a file of /proc, in bytes.
func kibibytes(status []byte, name string) int64 {
	for line := range bytes.Lines(status) {
		f := strings.Fields(string(line))
		if len(f) > 1 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}
