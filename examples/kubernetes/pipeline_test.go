package kubernetes

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	batch "k8s.io/api/batch/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// TestMain builds the program, for containers to find it in their PATH.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, "diskgnn"), "./cmd/diskgnn")
		build.Dir, build.Stderr = filepath.Join("..", ".."), os.Stderr
		if err := build.Run(); err != nil {
			panic(err)
		}
		os.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		return m.Run()
	}())
}

// diskgnn runs the program in a directory.
func diskgnn(t *testing.T, dir, arguments string) {
	t.Helper()
	cmd := exec.Command("diskgnn", strings.Fields(arguments+" --quiet")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("diskgnn %s: %v: %s", arguments, err, out)
	}
}

const generate = "generate --out graph --nodes 20000 --dim 32 --classes 4 --train-ratio 0.3"

// alone makes everything by one process, and returns where.
func alone(t *testing.T) string {
	t.Helper()
	c := newController(t, 0)
	diskgnn(t, c.data, generate)
	for _, stage := range []string{"presample", "pack", "train"} {
		diskgnn(t, c.data, stage+" --config "+filepath.Join(c.config, "pipeline.yaml"))
	}
	return c.data
}

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

// same compares what pods made with what one process made.
func same(t *testing.T, got, want string, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if g, w := fingerprint(t, filepath.Join(got, dir)), fingerprint(t, filepath.Join(want, dir)); g != w {
			t.Errorf("%s has the fingerprint %s, one process makes %s", dir, g, w)
		}
	}
}

func sameWeights(t *testing.T, got, want string) {
	t.Helper()
	for _, file := range []string{"weights.safetensors", "final.safetensors"} {
		g, err := os.ReadFile(filepath.Join(got, "run", file))
		if err != nil {
			t.Fatal(err)
		}
		w, err := os.ReadFile(filepath.Join(want, "run", file))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(g, w) {
			t.Errorf("run/%s is not what one process trains", file)
		}
	}
}

// inOrder returns the Jobs of a JobSet, each after those that it depends on.
func inOrder(t *testing.T, set *jobset.JobSet) []jobset.ReplicatedJob {
	t.Helper()
	var order []jobset.ReplicatedJob
	done := make(map[string]bool)
	for len(order) < len(set.Spec.ReplicatedJobs) {
		before := len(order)
		for _, r := range set.Spec.ReplicatedJobs {
			ready := !done[r.Name]
			for _, d := range r.DependsOn {
				if d.Status != jobset.DependencyComplete {
					t.Fatalf("%s begins when %s is %s", r.Name, d.Name, d.Status)
				}
				ready = ready && done[d.Name]
			}
			if ready {
				done[r.Name] = true
				order = append(order, r)
			}
		}
		if len(order) == before {
			t.Fatal("Jobs wait for each other")
		}
	}
	return order
}

// TestPipeline runs the JobSet, with pods that are killed, evicted and stopped; then nothing of
// it has to be done again.
func TestPipeline(t *testing.T) {
	want := alone(t)
	set := inOrder(t, load[jobset.JobSet](t, "pipeline.yaml"))
	struck := 0
	for seed := range uint64(3) {
		c := newController(t, seed, killed, killed, evicted, evicted, evicted, stopped, stopped)
		diskgnn(t, c.data, generate)
		for range 2 {
			for _, r := range set {
				if err := c.run(t.Context(), r.Name, r.Template.Spec); err != nil {
					t.Fatal(err)
				}
			}
		}
		same(t, c.data, want, "samples", "pack")
		sameWeights(t, c.data, want)
		t.Logf("%d pods; killed %d, evicted %d, stopped %d", c.pods, c.struck[killed], c.struck[evicted], c.struck[stopped])
		struck += c.struck[killed] + c.struck[evicted] + c.struck[stopped]
	}
	if struck < 3 {
		t.Error("hardly anything happened to the pods")
	}
}

// TestJobs runs the Jobs one by one, with the merges between them, and the TrainJob.
func TestJobs(t *testing.T) {
	want := alone(t)
	c := newController(t, 7, killed, evicted, stopped)
	diskgnn(t, c.data, generate)
	shards := func(of string) string {
		return "merge --out " + of + " " + of + ".shard-0-of-4 " + of + ".shard-1-of-4 " + of + ".shard-2-of-4 " + of + ".shard-3-of-4"
	}
	for _, step := range []struct{ job, made string }{{"presample.yaml", "samples"}, {"pack.yaml", "pack"}} {
		if err := c.run(t.Context(), step.job, load[batch.Job](t, step.job).Spec); err != nil {
			t.Fatal(err)
		}
		diskgnn(t, c.data, shards(step.made))
	}
	c.troubles = append(c.troubles, killed, evicted, stopped) // to the pods that train, too
	if err := c.together(t.Context(), "train.yaml", ofTrainJob(t)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pods; killed %d, evicted %d, stopped %d", c.pods, c.struck[killed], c.struck[evicted], c.struck[stopped])
	same(t, c.data, want, "samples", "pack")
	sameWeights(t, c.data, want)
}

// TestHopeless: wrong input ends a Job at once, and what may pass does not until it was tried
// often enough.
func TestHopeless(t *testing.T) {
	spec := load[batch.Job](t, "presample.yaml").Spec
	c := newController(t, 1)
	err := c.run(t.Context(), "presample", spec) // there is no graph
	if !errors.Is(err, errFailed) || c.pods != 1 {
		t.Errorf("after %d pods: %v", c.pods, err)
	}

	c = newController(t, 1)
	diskgnn(t, c.data, generate)
	// Every shard is locked by somebody who does not go away.
	for _, i := range []string{"0", "1", "2", "3"} {
		hold(t, filepath.Join(c.data, "samples.shard-"+i+"-of-4.partial"))
	}
	err = c.run(t.Context(), "presample", spec)
	if !errors.Is(err, errFailed) || !strings.Contains(err.Error(), "after 4 failures") {
		t.Errorf("after %d pods: %v", c.pods, err)
	}
}
