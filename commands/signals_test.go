package commands

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"diskgnn/internal/fault"
)

// TestSecondSignal sends the process several signals: the first cancels; of the others
// those that come by themselves, such as the second SIGHUP of a session that ends, do
// nothing, and a SIGINT ends it.
func TestSecondSignal(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("the tests were started with SIGHUP ignored, as by nohup")
	}
	seen := make(chan os.Signal, 8) // also after stop: one that came late would end the tests
	signal.Notify(seen, interrupting()...)
	defer signal.Stop(seen)
	left := make(chan string, 1)
	ctx, stop := interruptible(context.Background(), func(message string) { left <- message })
	defer stop()
	send := func(s syscall.Signal) {
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range interrupting() {
		if insists(s) != (s == syscall.SIGINT || s == syscall.SIGTERM) {
			t.Errorf("%v insists: %t", s, insists(s))
		}
	}
	send(syscall.SIGHUP)
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), fault.ErrInterrupted) {
		t.Errorf("cancelled because of %v", context.Cause(ctx))
	}
	send(syscall.SIGHUP)
	send(syscall.SIGUSR1)
	send(syscall.SIGINT)
	select {
	case message := <-left:
		var stdout, stderr bytes.Buffer
		code := report(&stdout, &stderr, "diskgnn", failure{Error: message, ExitCode: exitInterrupted}, true)
		if code != exitInterrupted || !strings.Contains(stderr.String(), "left at once") || !strings.HasSuffix(stdout.String(), "\"exit_code\":5}\n") {
			t.Errorf("exit code %d, %q, %q", code, &stdout, &stderr)
		}
	case <-time.After(time.Minute):
		t.Fatal("still running")
	}
	for range 4 {
		<-seen
	}
}

// takeHangups makes processes that the test starts take SIGHUP, which they would ignore under nohup: a
// process that handles a signal starts others that do not ignore it.
func takeHangups(t *testing.T) {
	taken := make(chan os.Signal, 1)
	signal.Notify(taken, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(taken) })
}

// The signals of a session that ends and of a scheduler interrupt every stage that
// writes: it ends with exit code 5 and leaves what the next one goes on with, and train a
// checkpoint.
func TestEverySignalInEveryStage(t *testing.T) {
	t.Chdir(t.TempDir())
	takeHangups(t)
	diskgnn(t, "generate --out g --nodes 60000 --dim 64 --classes 4 --train-ratio 0.4")
	diskgnn(t, "presample --dataset g --out s --batch-size 256 --fanout 4,4")
	diskgnn(t, "pack --dataset g --samples s --out p")
	diskgnn(t, "train --pack p --out trained --epochs 1 --hidden 96")
	for _, c := range []struct {
		command, shows string // which is there once the command is under way
		again          string // of a run; others go on by the same command
		says           string
	}{
		{"generate --out OUT --nodes 100000 --dim 128", "OUT.partial/journal.json", "", "run the same command again to resume"},
		{"presample --dataset g --out OUT --batch-size 64 --fanout 10,10,10 --epochs 8", "OUT.partial/journal.json", "", "run the same command again to resume"},
		{"pack --dataset g --samples s --out OUT --workers 1", "OUT.partial/journal.json", "", "run the same command again to resume"},
		{"train --pack p --out OUT --epochs 3 --hidden 32", "OUT/weights.safetensors", "train --out OUT --resume", "go on with: diskgnn train --out OUT --resume"},
		{"eval --run trained --dataset g --exact --scratch . --threads 1", "trained.scratch/lock", "", "nothing was kept"},
		{"predict --run trained --dataset g --out OUT.npy --scratch . --threads 1", "trained.scratch/lock", "", "nothing was kept"},
	} {
		for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1} {
			out := fmt.Sprintf("%s-%d", strings.Fields(c.command)[0], s)
			named := strings.NewReplacer("OUT", out)
			p := begin(t, named.Replace(c.command)+" --json")
			p.await(t, named.Replace(c.shows))
			p.send(t, s)
			if code := p.end(); code != exitInterrupted || !strings.HasSuffix(p.stdout.String(), "\"exit_code\":5}\n") || !strings.Contains(p.stderr.String(), named.Replace(c.says)) {
				t.Errorf("%s, %v: exit code %d, %s%s", c.command, s, code, &p.stdout, &p.stderr)
			}
			if _, err := os.Stat("trained.scratch"); err == nil {
				t.Errorf("%s, %v: trained.scratch was left", c.command, s)
			}
			if partial, _, ok := strings.Cut(named.Replace(c.shows), "/journal"); ok {
				if _, err := os.Stat(partial); err != nil {
					t.Errorf("%s, %v: %v", c.command, s, err)
				}
			}
			if c.again != "" {
				if text := read(t, out, "run.json"); !bytes.Contains(text, []byte(`"state": "interrupted"`)) {
					t.Errorf("%v: run.json says %s", s, text[:min(len(text), 120)])
				}
				if names, err := os.ReadDir(filepath.Join(out, "checkpoints")); err != nil || len(names) == 0 {
					t.Errorf("%v: no checkpoint: %v", s, err)
				}
				diskgnn(t, named.Replace(c.again))
			}
		}
	}
}

// Plans keep nothing when they are interrupted, and do not say that they would go on.
func TestSignalInPlan(t *testing.T) {
	t.Chdir(t.TempDir())
	diskgnn(t, "generate --out g --nodes 60000 --dim 64 --classes 4 --train-ratio 0.4")
	for command, task := range map[string]string{
		"presample --dataset g --out out --fanout all,all,all,all --plan":                                  `"draw a few batches"`,
		"train --dataset g --out out --fanout 10,10,10 --dry-epochs 0.1 --hidden 1024 --blas gonum --plan": `"train on a few batches"`,
	} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("diskgnn", append(strings.Fields(command), "--progress", "json")...)
		cmd.Stderr = writer
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		writer.Close()
		lines := bufio.NewScanner(reader)
		for lines.Scan() && !strings.Contains(lines.Text(), task) {
		}
		p := &process{cmd: cmd}
		p.send(t, syscall.SIGINT)
		last := ""
		for lines.Scan() {
			last = lines.Text()
		}
		if code := p.end(); code != exitInterrupted || !strings.Contains(last, "interrupted; nothing was kept") {
			t.Errorf("%s: exit code %d, %s", command, code, last)
		}
		if names, err := os.ReadDir("."); err != nil || len(names) != 1 {
			t.Errorf("%s: %v, %v", command, names, err)
		}
		reader.Close()
	}
}

// A SIGHUP that was ignored when the program began, as nohup has it, stays ignored.
func TestHangupIgnored(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, start := range []string{"trap '' HUP; exec diskgnn", "exec nohup diskgnn"} {
		p := begin(t, "generate --out g --nodes 60000 --dim 64 --json --force --seed 1", "sh", "-c", start+` "$@"`, "sh")
		p.await(t, "g.partial/journal.json")
		p.send(t, syscall.SIGHUP)
		if code := p.end(); code != exitDone {
			t.Errorf("%s: exit code %d: %s", start, code, &p.stderr)
		}
		if err := os.RemoveAll("g"); err != nil {
			t.Fatal(err)
		}
	}
}

// When a session ends, so does whatever read the output: the signal still leaves a
// checkpoint.
func TestHangupOfTheReader(t *testing.T) {
	t.Chdir(t.TempDir())
	diskgnn(t, "generate --out g --nodes 20000 --dim 32 --classes 4 --train-ratio 0.5")
	diskgnn(t, "presample --dataset g --out s --batch-size 128 --fanout 4,4")
	diskgnn(t, "pack --dataset g --samples s --out p")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	takeHangups(t)
	cmd := exec.Command("diskgnn", strings.Fields("train --pack p --out r --epochs 100000 --hidden 32")...)
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	lines := bufio.NewScanner(reader)
	for lines.Scan() && !strings.Contains(lines.Text(), "epoch 2:") {
	}
	// Stopped, it gets the signal before it can write to nobody.
	p := &process{cmd: cmd}
	p.send(t, syscall.SIGSTOP)
	p.send(t, syscall.SIGHUP)
	reader.Close()
	p.send(t, syscall.SIGCONT)
	if code := p.end(); code != exitInterrupted {
		t.Errorf("exit code %d, %v", code, cmd.ProcessState)
	}
	if text := read(t, "r", "run.json"); !bytes.Contains(text, []byte(`"state": "interrupted"`)) {
		t.Errorf("run.json says %s", text[:min(len(text), 120)])
	}
}

// process is a command under way.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
}

// begin starts a command, by way of others if any are given.
func begin(t *testing.T, command string, by ...string) *process {
	t.Helper()
	if by == nil {
		by = []string{"diskgnn"}
	}
	p := &process{cmd: exec.Command(by[0], append(by[1:], strings.Fields(command)...)...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	return p
}

// await waits until a file exists.
func (p *process) await(t *testing.T, name string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(name); err == nil {
			return
		}
		if time.Now().After(deadline) {
			_ = p.cmd.Process.Kill()
			p.end()
			t.Fatalf("%s does not appear: %s%s", name, &p.stdout, &p.stderr)
		}
	}
}

func (p *process) send(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// end waits for the process and returns its exit code.
func (p *process) end() int {
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}
