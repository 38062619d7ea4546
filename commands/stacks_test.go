package commands

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestStacksOnQuit: a SIGQUIT appends all stacks to a file beside the output, and the work goes on.
func TestStacksOnQuit(t *testing.T) {
	t.Chdir(t.TempDir())
	diskgnn(t, "generate --out g --nodes 3000 --dim 8 --classes 4 --train-ratio 0.5")
	if err := os.Mkdir("big", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ command, shows, file, has string }{
		{"presample --dataset g --out OUT --shard 1/2 --batch-size 16 --fanout 5,5,5 --epochs 1000 --workers 1", "OUT.shard-1-of-2.partial/journal.json", "OUT.shard-1-of-2.stacks", "presample.Run"},
		{"train --dataset g --fanout 5,5 --batch-size 32 --out OUT --epochs 100000 --hidden 8 --threads 1", "OUT/metrics.jsonl", "OUT.stacks", "train.Run"},
	} {
		out := strings.Fields(c.command)[0]
		named := strings.NewReplacer("OUT", out)
		p := begin(t, named.Replace(c.command))
		p.await(t, named.Replace(c.shows))
		file := named.Replace(c.file)
		p.send(t, syscall.SIGQUIT)
		p.await(t, file)
		p.send(t, syscall.SIGQUIT)
		var text []byte
		for deadline := time.Now().Add(time.Minute); bytes.Count(text, []byte("\n=== ")) < 1 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
			text, _ = os.ReadFile(file)
		}
		p.send(t, syscall.SIGTERM)
		if code := p.end(); code != exitInterrupted {
			t.Errorf("%s: exit code %d, %s", c.command, code, &p.stderr)
		}
		if !bytes.HasPrefix(text, []byte("=== 20")) || !bytes.Contains(text, []byte(": "+p.cmd.Args[0]+" "+named.Replace(c.command)+"\n\ngoroutine ")) ||
			bytes.Count(text, []byte(c.has)) < 2 || bytes.Count(text, []byte("\n=== ")) != 1 {
			t.Errorf("%s: the file has %s", c.command, text)
		}
	}
}

func TestWriteStacks(t *testing.T) {
	dir := t.TempDir()
	var stderr bytes.Buffer
	g := &globals{stores: builtin, stderr: &stderr, args: []string{"diskgnn", "eval\n"}}
	newApp(g)
	at := time.Unix(0, 0)
	const head = "=== 1970-01-01T00:00:00Z, process "
	g.writeStacks(at) // a command without an output
	if text := stderr.String(); !strings.HasPrefix(text, head) || !strings.Contains(text, ": diskgnn eval; \n\ngoroutine ") && !strings.Contains(text, ": diskgnn eval\n\ngoroutine ") {
		t.Errorf("stderr has %s", text)
	}
	stderr.Reset()
	out := filepath.Join(dir, "run")
	g.making.set(out)
	g.writeStacks(at)
	g.making.part(func(out string) string { return out + ".rank-1" })
	g.writeStacks(at)
	g.writeStacks(at)
	for name, want := range map[string]int{"run.stacks": 1, "run.rank-1.stacks": 2} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || bytes.Count(b, []byte(head)) != want || bytes.Count(b, []byte("TestWriteStacks")) != want {
			t.Errorf("%s has %s %v", name, b, err)
		}
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr has %s", &stderr)
	}
	g.making.set(filepath.Join(dir, "absent", "run"))
	g.writeStacks(at)
	if text := stderr.String(); !strings.Contains(text, "no such file") || !strings.Contains(text, "\ngoroutine ") {
		t.Errorf("stderr has %s", text)
	}
}

// TestOutputThatGoesAway: a command goes on to its end, and has its exit code, when nobody reads
// its output.
func TestOutputThatGoesAway(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		command string
		code    int
	}{
		{"generate --out g --nodes 600 --dim 8 --classes 4", exitDone},
		{"presample --dataset g --out s --batch-size 16 --fanout 3,3", exitDone},
		{"pack --dataset g --samples s --out p --json", exitDone},
		{"train --pack p --out r --hidden 8 --epochs 3 --progress json", exitDone},
		{"eval --run r --dataset g --exact", exitDone},
		{"predict --run r --dataset g --out x.npy", exitDone},
		{"inspect p", exitDone},
		{"verify p --json", exitDone},
		{"report r", exitDone},
		{"man", exitDone},
		{"--help", exitDone},
		{"train --help", exitDone},
		{"train --pack p --out r", exitUsage},
		{"train --pack absent --out r2 --json", exitInput},
	} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		reader.Close()
		cmd := exec.Command("diskgnn", strings.Fields(c.command)...)
		cmd.Stdout, cmd.Stderr = writer, writer
		_ = cmd.Run()
		writer.Close()
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%s: %v, want %d", c.command, cmd.ProcessState, c.code)
		}
	}
	if text := read(t, "r", "run.json"); !bytes.Contains(text, []byte(`"state": "finished"`)) {
		t.Errorf("run.json says %s", text[:min(len(text), 120)])
	}
}
