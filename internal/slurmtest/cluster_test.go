package slurmtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// config is what the tests sample, pack and train: enough of it that a job lasts a second or
// more, in the form of examples/slurm/pipeline.yaml.
const config = `
presample:
  dataset: graph
  out: samples
  fanout: [5, 5]
  batch-size: 64
  epochs: 2
pack:
  dataset: graph
  samples: samples
  out: pack
train:
  pack: pack
  out: run
  epochs: 4
  hidden: 16
  accumulate: 2
  checkpoint-every: 20
`

// TestOnSlurm is what TestSlurm runs on the cluster.
func TestOnSlurm(t *testing.T) {
	dir := os.Getenv(work)
	if dir == "" {
		t.Skip("TestSlurm runs it, on a cluster")
	}
	scripts, err := filepath.Abs(filepath.Join("..", "..", "examples", "slurm"))
	if err != nil {
		t.Fatal(err)
	}
	// What one process makes by itself.
	alone := filepath.Join(dir, "alone")
	c := &cluster{scripts: scripts, alone: alone}
	inside(t, alone)
	shell(t, "diskgnn generate --out graph --nodes 40000 --dim 64 --classes 4 --train-ratio 0.3 --quiet")
	for _, stage := range []string{"presample", "pack", "train"} {
		shell(t, "diskgnn "+stage+" --config pipeline.yaml --quiet")
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *cluster)
	}{
		{"pipeline", pipeline},
		{"places", places},
		{"requeued", requeued},
		{"late", late},
		{"ranks", ranks},
		{"cancelled", cancelled},
		{"failed", failed},
	} {
		t.Run(test.name, func(t *testing.T) {
			inside(t, filepath.Join(dir, test.name))
			if err := os.Symlink(filepath.Join(alone, "graph"), "graph"); err != nil {
				t.Fatal(err)
			}
			test.run(t, c)
		})
	}
}

// cluster is what the tests have in common.
type cluster struct {
	scripts string // examples/slurm
	alone   string // where one process did everything
}

// inside makes a directory of a user's, and goes there.
func inside(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := os.WriteFile("pipeline.yaml", []byte(config), 0o666); err != nil {
		t.Fatal(err)
	}
}

// shell runs a command and returns what it printed.
func shell(t *testing.T, command string) string {
	t.Helper()
	out, err := exec.Command("bash", "-c", command).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

// until waits for something that Slurm or the program is to do.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			logs, _ := exec.Command("bash", "-c", "squeue; tail -n 20 *.log").CombinedOutput()
			t.Fatalf("waited in vain: %s\n%s", what, logs)
		}
	}
}

// submit submits job.sh with options of sbatch's, and returns its number.
func (c *cluster) submit(t *testing.T, arguments string, options ...string) string {
	t.Helper()
	return shell(t, fmt.Sprintf("sbatch --parsable --job-name=it %s %s/job.sh %s", strings.Join(options, " "), c.scripts, arguments))
}

// job returns a field of a job.
func job(t *testing.T, id, field string) string {
	t.Helper()
	for word := range strings.FieldsSeq(shell(t, "scontrol show job --oneliner "+id)) {
		if value, ok := strings.CutPrefix(word, field+"="); ok {
			return value
		}
	}
	t.Fatalf("job %s has no %s", id, field)
	return ""
}

// finish waits for the end of a job and returns its state.
func finish(t *testing.T, id string) string {
	t.Helper()
	until(t, "job "+id+" ends", func() bool {
		switch job(t, id, "JobState") {
		case "PENDING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED":
			return false
		}
		return true
	})
	return job(t, id, "JobState")
}

// again waits until a job that was requeued is done. Slurm would let it wait for two minutes. A node
// refuses a job that begins in the second in which it was ended ("already killed"), so that it is
// to begin two seconds later.
func again(t *testing.T, id string) {
	t.Helper()
	var asked time.Time
	until(t, "job "+id+" begins again and is done", func() bool {
		state := job(t, id, "JobState")
		switch {
		case state == "PENDING" && time.Since(asked) > 10*time.Second:
			// Where the job is not yet pending in every respect, this is tried again.
			if exec.Command("scontrol", "update", "JobId="+id, "StartTime=now+2seconds").Run() == nil {
				asked = time.Now()
			}
		case state == "FAILED" || state == "CANCELLED":
			t.Fatalf("job %s has not gone on: %s\n%s", id, state, shell(t, "tail -n 20 *-"+id+".log"))
		}
		return state == "COMPLETED"
	})
	if n := job(t, id, "Restarts"); n != "1" {
		t.Errorf("%s restarts", n)
	}
}

// suspend stops the program in the middle, when a file is there and it has not finished,
// and returns its process: any of them, if there are several.
func suspend(t *testing.T, file, unfinished string) int {
	t.Helper()
	pid := 0
	until(t, file, func() bool {
		matches, err := filepath.Glob(file)
		return err == nil && len(matches) > 0
	})
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		if exe, err := os.Readlink(filepath.Join(p, "exe")); err == nil && filepath.Base(exe) == "diskgnn" {
			pid, _ = strconv.Atoi(filepath.Base(p))
		}
	}
	if pid == 0 {
		t.Fatalf("%s is there, and no program runs", file)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(unfinished); err == nil {
		t.Fatalf("%s is there already: nothing would be interrupted", unfinished)
	}
	return pid
}

// fingerprint returns that of a directory.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "meta.json"))
	if err != nil {
		t.Fatal(err)
	}
	var meta struct{ Fingerprint string }
	if err := json.Unmarshal(b, &meta); err != nil || meta.Fingerprint == "" {
		t.Fatalf("%s has no fingerprint: %v", dir, err)
	}
	return meta.Fingerprint
}

// same compares a directory with that of one process.
func (c *cluster) same(t *testing.T, dir string) {
	t.Helper()
	if got, want := fingerprint(t, dir), fingerprint(t, filepath.Join(c.alone, dir)); got != want {
		t.Errorf("%s has the fingerprint %s, one process makes %s", dir, got, want)
	}
}

// sameRun compares what was trained.
func (c *cluster) sameRun(t *testing.T) {
	t.Helper()
	for _, file := range []string{"weights.safetensors", "final.safetensors"} {
		got, err := os.ReadFile(filepath.Join("run", file))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(c.alone, "run", file))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("run/%s is not what one process trains", file)
		}
	}
}

// pipeline: all stages, in arrays, one after another, and training by a rank on each node.
func pipeline(t *testing.T, c *cluster) {
	out := shell(t, "CONFIG=pipeline.yaml SHARDS=3 "+c.scripts+"/pipeline.sh")
	t.Log(out)
	until(t, "all jobs end", func() bool { return shell(t, "squeue --noheader") == "" })
	c.same(t, "samples")
	c.same(t, "pack")
	c.sameRun(t)
	if logs := shell(t, "cat train-*.log"); !strings.Contains(logs, "rank 0 of 2 by slurm (") || !strings.Contains(logs, "rank 1 of 2 by slurm (") || strings.Count(logs, "only ranks with the secret take part") != 2 {
		t.Errorf("not two ranks trained, or without a secret:\n%s", logs)
	}
	if made := shell(t, "stat -c '%a %s' secret"); made != "600 64" {
		t.Errorf("mode and size of the secret: %s", made)
	}
	// Again: all is there, and every job ends well.
	shell(t, "rm *.log; CONFIG=pipeline.yaml SHARDS=3 "+c.scripts+"/pipeline.sh")
	until(t, "all jobs end", func() bool { return shell(t, "squeue --noheader") == "" })
	if logs := shell(t, "cat *.log"); strings.Count(logs, "nothing had to be done") != 9 {
		t.Errorf("not everything was there:\n%s", logs)
	}
}

// places: whatever starts the processes, together they draw all shards, none of which is empty.
func places(t *testing.T, c *cluster) {
	const presample = "diskgnn presample --dataset graph --batch-size 8 --fanout 2,2 --epochs 9 --workers 1 "
	shell(t, presample+"--out alone --quiet")
	for _, way := range []struct{ name, set, options, command string }{
		// An array that begins at 5 and counts by 2, of jobs that do not call srun.
		{"array", "array", "--array=5-9:2", "%s"},
		// An array whose jobs do.
		{"arrayed-srun", "array", "--array=0-2", "srun %s"},
		// A step of three tasks, on two nodes.
		{"srun", "slurm", "--nodes=2 --ntasks=3", "srun %s"},
		// mpirun within Slurm, which starts a daemon on each node by srun, in a step of two tasks.
		{"mpirun", "openmpi", "--nodes=2 --ntasks=3", "mpirun --allow-run-as-root --oversubscribe --map-by node -np 3 %s"},
	} {
		t.Run(way.name, func(t *testing.T) {
			command := fmt.Sprintf(way.command, presample+"--shard auto --out "+way.name)
			shell(t, fmt.Sprintf("sbatch --output=%s-%%j.log %s --wrap=%q", way.name, way.options, command))
			until(t, "the processes end", func() bool { return shell(t, "squeue --noheader") == "" })
			said := shell(t, "cat "+way.name+"-*.log")
			if strings.Count(said, " of 3 by "+way.set+" (") != 3 || strings.Contains(said, "sample: 0 batches") {
				t.Errorf("not three places by %s, or nothing to draw:\n%s", way.set, said)
			}
			shell(t, fmt.Sprintf("diskgnn merge --quiet --out %s %[1]s.shard-0-of-3 %[1]s.shard-1-of-3 %[1]s.shard-2-of-3", way.name))
			if got, want := fingerprint(t, way.name), fingerprint(t, "alone"); got != want {
				t.Errorf("the samples have the fingerprint %s, one process draws %s", got, want)
			}
		})
	}
	for _, way := range []struct{ options, command, refused string }{
		{"--array=1,2,5", "%s", "the array leaves out tasks"},
		{"--array=0-1 --ntasks=2", "srun %s", "of 2, and slurm (SLURM_PROCID="},
		{"--ntasks=2", "%s", "tasks are started by srun"},
	} {
		t.Run(way.options, func(t *testing.T) {
			command := fmt.Sprintf(way.command, presample+"--shard auto --out refused")
			shell(t, fmt.Sprintf("sbatch --output=refused-%%j.log %s --wrap=%q", way.options, command))
			until(t, "the processes end", func() bool { return shell(t, "squeue --noheader") == "" })
			if said := shell(t, "cat refused-*.log"); !strings.Contains(said, way.refused) {
				t.Errorf("not refused:\n%s", said)
			}
			shell(t, "rm -rf refused*")
		})
	}
}

// requeued: Slurm begins jobs again in the middle, as when a more urgent one takes the node,
// and each goes on.
func requeued(t *testing.T, c *cluster) {
	shell(t, "cp -r "+c.alone+"/samples .")
	id := c.submit(t, "pack --config pipeline.yaml --workers 1")
	suspend(t, "pack.partial/graph-00000.bin", "pack")
	shell(t, "scontrol requeue "+id)
	again(t, id)
	logs(t, id, "pack: interrupted", "made +pack .*, resumed")
	c.same(t, "pack")

	id = c.submit(t, "train --config pipeline.yaml")
	suspend(t, "run/checkpoints/*", "run/final.safetensors")
	shell(t, "scontrol requeue "+id)
	again(t, id)
	logs(t, id, "SLURM_RESTART_COUNT=1: --resume", "made +run, resumed")
	c.sameRun(t)
}

// late: the warning that Slurm sends before the time is up ends in a job that begins
// itself again.
func late(t *testing.T, c *cluster) {
	shell(t, "cp -r "+c.alone+"/pack .")
	id := c.submit(t, "train --config pipeline.yaml")
	pid := suspend(t, "run/checkpoints/*", "run/final.safetensors")
	shell(t, "scancel --batch --signal=USR1 "+id)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	again(t, id)
	logs(t, id, "train: .*interrupted", "made +run, resumed")
	c.sameRun(t)
}

// ranks: a training on two nodes wants a secret. It goes on after it was requeued, and after the warning that its time
// is almost up, from the step that all ranks stopped at.
func ranks(t *testing.T, c *cluster) {
	shell(t, "cp -r "+c.alone+"/pack .")
	id := c.submit(t, "train --config pipeline.yaml --rank auto", "--ntasks=2", "--ntasks-per-node=1")
	if state := finish(t, id); state != "FAILED" {
		t.Errorf("without a secret: %s", state)
	}
	logs(t, id, "diskgnn train: rank 0 listens at n1, which other hosts can reach: ")
	t.Setenv("DISKGNN_SECRET", "0123456789abcdef0123") // which sbatch and srun pass on
	for _, way := range []struct {
		name  string
		begin func(id string) // again
	}{
		{"requeued", func(id string) { shell(t, "scontrol requeue "+id) }},
		{"late", func(id string) { shell(t, "scancel --batch --signal=USR1 "+id) }},
	} {
		t.Run(way.name, func(t *testing.T) {
			shell(t, "rm -rf run")
			id := c.submit(t, "train --config pipeline.yaml --rank auto", "--ntasks=2", "--ntasks-per-node=1")
			pid := suspend(t, "run/checkpoints/*", "run/final.safetensors")
			way.begin(id)
			// Slurm wakes what it ends, and does not what it warns.
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
				t.Fatal(err)
			}
			again(t, id)
			logs(t, id, "rank 0 of 2 by slurm", "rank 1 of 2 by slurm", "train: .*interrupted", "SLURM_RESTART_COUNT=1: --resume", "made +run, resumed")
			c.sameRun(t)
		})
	}
}

// cancelled: what a user cancels stays so, and can be gone on with.
func cancelled(t *testing.T, c *cluster) {
	shell(t, "cp -r "+c.alone+"/pack .")
	id := c.submit(t, "train --config pipeline.yaml")
	suspend(t, "run/checkpoints/*", "run/final.safetensors")
	shell(t, "scancel "+id)
	if state := finish(t, id); state != "CANCELLED" || job(t, id, "Restarts") != "0" {
		t.Errorf("%s after %s restarts", state, job(t, id, "Restarts"))
	}
	id = c.submit(t, "train --config pipeline.yaml --resume")
	if state := finish(t, id); state != "COMPLETED" {
		t.Error(state)
	}
	c.sameRun(t)
}

// failed: what a job cannot do ends those that wait for it.
func failed(t *testing.T, c *cluster) {
	shell(t, "sed -i 's/fanout: .*/fanout: none/' pipeline.yaml; CONFIG=pipeline.yaml SHARDS=2 "+c.scripts+"/pipeline.sh")
	until(t, "all jobs end", func() bool { return shell(t, "squeue --noheader") == "" })
	for _, name := range []string{"samples", "pack", "run"} {
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// logs looks for lines in the log of a job.
func logs(t *testing.T, id string, patterns ...string) {
	t.Helper()
	file := "it-" + id + ".log"
	for _, p := range patterns {
		if err := exec.Command("grep", "-E", "-q", p, file).Run(); err != nil {
			text, _ := os.ReadFile(file)
			t.Errorf("no %q in the job's log:\n%s", p, text)
		}
	}
}
