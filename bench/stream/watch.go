package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"diskgnn/bench/internal/tool"
)

// every is how often a run is looked at.
const every = 250 * time.Millisecond

// watched runs a training and looks at its memory meanwhile.
type watched struct {
	metrics           string // has a line once the first epoch is over
	processors        float64
	anon, locked, gpu level
}

// level is a quantity over time.
type level struct {
	most  int64
	first int64 // the most until the first epoch was over
	later int64 // and since
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

// run runs the program and decodes the last line of its output.
func (w *watched) run(ctx context.Context, binary string, args []string, result any) error {
	cmd := exec.CommandContext(ctx, binary, append(args, "--quiet", "--json")...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("%s %v: %w", binary, args, err)
			}
			s := cmd.ProcessState
			w.processors = (s.UserTime() + s.SystemTime()).Seconds() / time.Since(began).Seconds()
			return tool.LastLine(out.Bytes(), result)
		case <-time.After(every):
			w.look(cmd.Process.Pid)
		}
	}
}

func (w *watched) look(pid int) {
	info, err := os.Stat(w.metrics)
	later := err == nil && info.Size() > 0
	if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)); err == nil {
		w.anon.see(field(b, "RssAnon:"), later)
		w.locked.see(field(b, "VmLck:")+field(b, "VmPin:"), later)
	}
	b, err := exec.Command("nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits").Output()
	if err != nil {
		return
	}
	if n, err := strconv.ParseInt(strings.TrimSpace(string(bytes.Split(b, []byte("\n"))[0])), 10, 64); err == nil {
		w.gpu.see(n<<20, later)
	}
}

// field returns a quantity of /proc/PID/status, in bytes.
func field(status []byte, name string) int64 {
	for line := range bytes.Lines(status) {
		f := strings.Fields(string(line))
		if len(f) > 1 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}
