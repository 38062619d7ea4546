package commands

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	stdflag "flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"diskgnn/train/rundir"
)

// Flags of TestGolden, to run it with another program than this one or on another engine:
//
//	go test ./commands -run TestGolden -golden.update
//	bin/diskgnn.test -test.run TestGolden -golden.program OLD -golden.train "--blas openblas" -golden.sums old.txt
var (
	goldenUpdate  = stdflag.Bool("golden.update", false, "write testdata/golden/sums.txt anew")
	goldenProgram = stdflag.String("golden.program", "diskgnn", "the program to run")
	goldenTrain   = stdflag.String("golden.train", "--blas gonum --engine cpu", "flags that every training gets")
	goldenSums    = stdflag.String("golden.sums", "", "write the sums there and compare nothing")
	goldenScript  = stdflag.String("golden.commands", "testdata/golden/commands.txt", "the commands")
)

// TestGolden runs the commands of testdata/golden/commands.txt and compares the SHA-256 of
// every file that they make with testdata/golden/sums.txt: datasets, samples, packs and
// weights stay what they are, bit for bit, whatever is rebuilt inside. What depends on the
// time, the machine or the process is left out.
func TestGolden(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the sums are of amd64: elsewhere gonum's products may round otherwise")
	}
	commands, err := os.ReadFile(*goldenScript)
	if err != nil {
		t.Fatal(err)
	}
	golden, err := filepath.Abs("testdata/golden/sums.txt")
	if err != nil {
		t.Fatal(err)
	}
	sums, _ := filepath.Abs(*goldenSums)
	t.Chdir(t.TempDir())
	for line := range strings.Lines(string(commands)) {
		if args := strings.Fields(line); len(args) > 0 && args[0] != "#" {
			runGolden(t, args)
		}
	}
	got := goldenText(t)
	switch {
	case *goldenSums != "":
		if err := os.WriteFile(sums, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	case *goldenUpdate:
		if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	have := make(map[string]bool)
	for line := range strings.Lines(got) {
		have[line] = true
	}
	for line := range strings.Lines(string(want)) {
		if !have[line] {
			t.Errorf("is another now: %s", strings.TrimSpace(line))
		}
		delete(have, line)
	}
	for _, line := range slices.Sorted(maps.Keys(have)) {
		t.Errorf("is new: %s", strings.TrimSpace(line))
	}
}

// runGolden runs one line.
func runGolden(t *testing.T, args []string) {
	t.Helper()
	interrupt := args[0] == "interrupt"
	if interrupt {
		args = args[1:]
	}
	switch args[0] {
	case "train":
		args = append(slices.Clone(args), strings.Fields(*goldenTrain)...)
	case "predict": // auto would take OpenBLAS, where there is one
		args = append(slices.Clone(args), "--blas", "gonum")
	}
	cmd := exec.CommandContext(t.Context(), *goldenProgram, append(args, "--quiet")...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if interrupt {
		stopAtCheckpoint(t, cmd, args[slices.Index(args, "--out")+1])
	}
	err := cmd.Wait()
	// A run that the signal came too late for is finished, and resuming it does nothing.
	if interrupt && cmd.ProcessState.ExitCode() == exitInterrupted {
		return
	}
	if err != nil {
		t.Fatalf("diskgnn %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
}

// stopAtCheckpoint sends the signal once the run has a checkpoint, or is over.
func stopAtCheckpoint(t *testing.T, cmd *exec.Cmd, run string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		names, _ := filepath.Glob(filepath.Join(run, "checkpoints", "*"))
		state, _ := os.ReadFile(filepath.Join(run, "run.json"))
		if len(names) > 0 || strings.Contains(string(state), `"finished"`) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has no checkpoint", run)
		}
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
}

// goldenText lists the sum of every file below the working directory, and what the runs
// say of their epochs.
func goldenText(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == rundir.CheckpointsDir { // which hold times
			return filepath.SkipDir
		}
		if err != nil || d.IsDir() {
			return err
		}
		switch d.Name() {
		case "run.json", "report.html", "lock":
			return nil
		case "metrics.jsonl":
			return epochsOf(&text, path)
		}
		b, err := os.ReadFile(path)
		if err == nil {
			fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(b), filepath.ToSlash(path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// epochsOf writes a line for every epoch of a run: what neither the time nor the number of
// slots decides.
func epochsOf(w *strings.Builder, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e map[string]json.RawMessage
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return err
		}
		fmt.Fprintf(w, "%s", filepath.ToSlash(path))
		for _, key := range []string{"epoch", "loss", "train_accuracy", "valid_accuracy", "useful_bytes", "ram_bytes"} {
			fmt.Fprintf(w, " %s=%s", key, e[key])
		}
		fmt.Fprintln(w)
	}
	return lines.Err()
}
