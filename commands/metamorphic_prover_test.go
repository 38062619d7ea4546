package commands

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	kernels "diskgnn/device/cuda/kernels/plain"
	"diskgnn/internal/metamorphic"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack/nvme/gpuqueue/plain"
)

// emulator computes the kernels of the emulated GPU.
var emulator = plain.Emulator{Others: kernels.Emulate}

// patience is the time that a program may take. The longest take seconds.
const patience = 5 * time.Minute

// onRealGPU reports whether DISKGNN_GPU names the machine's GPU as the GPU of random programs: in the variant of
// the tests with GPU support, DISKGNN_GPU=real.
func onRealGPU() bool { return os.Getenv("DISKGNN_GPU") == "real" }

// A prover runs programs, one after the other, with emulated GPUs, or the machine's. It receives the process's
// signals beside the commands.
type prover struct {
	old        string // directories of older programs
	program    string // the name of the program that runs
	interrupts chan os.Signal
}

func newProver(t *testing.T) *prover {
	t.Helper()
	old, err := filepath.Abs(filepath.Join("..", "testdata", "old"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MASTER_ADDR", "localhost")
	t.Setenv("MASTER_PORT", rankPort(t))
	on := &prover{old: old, interrupts: make(chan os.Signal, 1)}
	signal.Notify(on.interrupts, os.Interrupt)
	// A command takes SIGTERM for its own, and the test would go on.
	ended, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		select {
		case <-ended:
			on.leave("SIGTERM")
		case <-over:
		}
	}()
	t.Cleanup(func() {
		signal.Stop(on.interrupts)
		signal.Stop(ended)
		close(over)
	})
	return on
}

// interrupt sends SIGINT to this process. It returns when all commands that run have it, so that no later
// command gets it.
func (on *prover) interrupt() error {
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		return err
	}
	<-on.interrupts
	return nil
}

// leave ends the process, with the stacks of all goroutines.
func (on *prover) leave(why string) {
	fmt.Fprintf(os.Stderr, "%s\n%s\n", why, stacks())
	os.Exit(1)
}

// report counts the outcomes of programs.
type metamorphicReport struct {
	programs, variants, typed int // typed: variants of typed graphs that ran to their ends
	refusals, faults          map[string]int
	ran                       *metamorphic.Coverage
}

func newReport() *metamorphicReport {
	return &metamorphicReport{refusals: make(map[string]int), faults: make(map[string]int), ran: metamorphic.NewCoverage()}
}

// test runs a program in dir, counts its outcomes in r, and returns the first relation that does not hold.
func (on *prover) test(dir string, p *metamorphic.Program, r *metamorphicReport) (err error) {
	alarm := time.AfterFunc(patience, func() { on.leave(fmt.Sprintf("%s: no end within %v\n%s", on.program, patience, p)) })
	defer alarm.Stop()
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r.programs++
	for v := range p.Variants {
		l := &variantRun{prover: on, dir: dir, p: p, variant: v, faults: r.faults}
		r.variants++
		err := l.execute()
		var no *refusedCommand
		if errors.As(err, &no) && (no.code == exitUsage || no.code == exitSpace) {
			r.refusals[metamorphic.Kind(strings.ReplaceAll(lastLine(no.message), dir, "DIR"))]++
			r.ran.Add(p, v, false)
			if v == metamorphic.Reference {
				return nil
			}
			continue
		}
		if err != nil {
			return err
		}
		r.ran.Add(p, v, true)
		if p.Typed() {
			r.typed++
		}
	}
	return nil
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// TestKeptPrograms runs the programs of testdata/metamorphic again: each once found a defect, or has a
// fault of another kind.
func TestKeptPrograms(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "metamorphic", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d programs are kept (%v)", len(files), err)
	}
	on := newProver(t)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := metamorphic.Parse(string(text))
		if err == nil {
			on.program = name
			err = on.test(filepath.Join(vfstest.TempDir(t), "p"), p, newReport())
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMetamorphic runs random programs: see package metamorphic. DISKGNN_PROGRAMS is the number of
// programs, DISKGNN_SEED their seed: make metamorphic; DISKGNN_GPU=real takes the machine's GPU. With DISKGNN_PART of the form I/N, it runs every N-th
// of them, from program I on.
func TestMetamorphic(t *testing.T) {
	programs, seed := 12, 1
	if n, err := strconv.Atoi(os.Getenv("DISKGNN_PROGRAMS")); err == nil {
		programs = n
	}
	if n, err := strconv.Atoi(os.Getenv("DISKGNN_SEED")); err == nil {
		seed = n
	}
	part, parts := 0, 1
	if text := os.Getenv("DISKGNN_PART"); text != "" {
		if n, err := fmt.Sscanf(text, "%d/%d", &part, &parts); n != 2 || part < 0 || part >= parts {
			t.Fatalf("DISKGNN_PART is %q (%v)", text, err)
		}
	}
	on := newProver(t)
	r := newReport()
	d := metamorphic.NewDrawer(uint64(seed))
	root := vfstest.TempDir(t)
	for i := range programs {
		p := d.Next()
		if i%parts != part {
			continue
		}
		if only := os.Getenv("DISKGNN_PROGRAM"); only != "" && only != strconv.Itoa(i) {
			continue
		}
		if name := os.Getenv("DISKGNN_PROGRAM_FILE"); name != "" { // stays if the process ends in it
			if err := os.WriteFile(name, []byte(p.String()), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		on.program = fmt.Sprintf("program %d of seed %d", i, seed)
		err := on.test(filepath.Join(root, "p"), p, r)
		if err == nil {
			continue
		}
		kind := metamorphic.Kind(lastLine(err.Error()))
		small := metamorphic.Shrink(p, 60, func(q *metamorphic.Program) bool {
			again := on.test(filepath.Join(root, "q"), q, newReport())
			return again != nil && metamorphic.Kind(lastLine(again.Error())) == kind
		})
		t.Errorf("%s: %v\nits simplest form:\n%s", on.program, err, small)
		if t.Failed() && os.Getenv("DISKGNN_ALL") == "" {
			break
		}
	}
	t.Logf("%d programs, %d variants, of typed graphs %d ran; %s", r.programs, r.variants, r.typed, r.ran.Summary())
	for _, pair := range r.ran.Missing(20) {
		t.Logf("only refused: %s", pair)
	}
	for _, m := range []map[string]int{r.faults, r.refusals} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			t.Logf("%5d %s", m[k], k)
		}
	}
}
