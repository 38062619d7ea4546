package commands

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"diskgnn/train/traintest"
)

// TestKill kills training at random moments, resumes it, and compares what it ends with
// with a run that was never killed: make test-kill. DISKGNN_KILLS says how often it
// kills; without it nothing is done, for it takes minutes.
func TestKill(t *testing.T) {
	kills, err := strconv.Atoi(os.Getenv("DISKGNN_KILLS"))
	if err != nil {
		t.Skip("DISKGNN_KILLS is not set")
	}
	t.Chdir(t.TempDir())
	diskgnn(t, "generate --out g --nodes 20000 --dim 32 --classes 4 --train-ratio 0.5")
	diskgnn(t, "presample --dataset g --out s --batch-size 128 --fanout 4,4 --epochs 2")
	diskgnn(t, "pack --dataset g --samples s --out static --cache 10%")
	diskgnn(t, "pack --dataset g --samples s --out min --cache 10% --policy min")
	ways := []string{
		"--pack static --threads 1",
		"--pack static --threads 2 --shuffle-batches --ram-cache 10%",
		"--pack min --threads 2",
		"--pack min --threads 4 --checkpoint-every 100ms",
	}
	for i, way := range ways {
		n := kills*(i+1)/len(ways) - kills*i/len(ways)
		t.Run(way, func(t *testing.T) { killed(t, "train "+way+" --epochs 6 --hidden 16 --seed "+strconv.Itoa(i), n) })
	}
}

// killed runs a command to its end, and again with so many kills, as often as that
// takes.
func killed(t *testing.T, command string, kills int) {
	whole := filepath.Join(t.TempDir(), "whole")
	began := time.Now()
	diskgnn(t, command+" --out "+whole)
	takes := time.Since(began)
	early := 0 // runs that ended before the blow
	for round := 0; kills > 0; round++ {
		out := filepath.Join(t.TempDir(), "run")
		for done := false; !done; {
			if kills == 0 {
				diskgnn(t, command+" --resume --out "+out)
				break
			}
			args := strings.Fields(command + " --resume --quiet --checkpoint-every 3 --keep 2 --out " + out)
			if strings.Contains(command, "--checkpoint-every") {
				args = strings.Fields(command + " --resume --quiet --out " + out)
			}
			var stderr bytes.Buffer
			cmd := exec.Command("diskgnn", args...)
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			// Soon enough that it takes several, late enough that they get somewhere.
			time.Sleep(time.Duration(rand.Float64() * float64(takes) * 0.7))
			_ = cmd.Process.Kill()
			err := cmd.Wait()
			switch {
			case err == nil:
				done = true
				early++
			case cmd.ProcessState.ExitCode() >= 0:
				t.Fatalf("%v: %s", err, &stderr)
			default:
				kills--
			}
		}
		compareRuns(t, whole, out)
	}
	t.Logf("%d runs ended before they were killed", early)
}

// compareRuns compares all that a run's directory promises, times left out.
func compareRuns(t *testing.T, want, got string) {
	t.Helper()
	for _, name := range []string{"final.safetensors", "weights.safetensors", "metrics.jsonl"} {
		a, b := read(t, want, name), read(t, got, name)
		if name == "metrics.jsonl" {
			a, b = []byte(traintest.WithoutTimes(t, a)), []byte(traintest.WithoutTimes(t, b))
		}
		if !bytes.Equal(a, b) {
			t.Fatalf("%s differs from that of the run which was not killed", name)
		}
	}
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// diskgnn runs a command that must succeed.
func diskgnn(t *testing.T, command string) {
	t.Helper()
	if out, err := exec.Command("diskgnn", append(strings.Fields(command), "--quiet")...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}
