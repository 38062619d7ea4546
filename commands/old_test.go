package commands

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/train/safetensors"
)

// TestOldDirectories takes what older programs wrote (testdata/old, a directory for the commit of each)
// through every command that reads it: a format that has landed is read for ever. The old programs'
// runs used the plain kernels and gonum, and so does this.
func TestOldDirectories(t *testing.T) {
	t.Parallel()
	programs := map[string]oldProgram{
		"557d02b": {resumeRefused: "a checkpoint of version '1'; this program reads version '2'", graph: []string{"--nodes", "300"}},
		"185f982": {sameWeights: true, graph: []string{"--nodes", "300"}},
		"50d5c641-typed": {
			sameWeights: true,
			graph:       []string{"--nodes", "600", "--types", "3", "--featureless", "1"},
			relations:   []string{"--relation-fanout", "type1:to:type0=1,4"},
			model:       []string{"--model", "rgcn", "--bases", "2"},
		},
	}
	old := filepath.Join("..", "testdata", "old")
	entries, err := os.ReadDir(old)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		program, ok := programs[e.Name()]
		if !ok {
			t.Errorf("testdata/old has %s, of which nothing is expected", e.Name())
		}
		t.Run(e.Name(), func(t *testing.T) {
			t.Parallel()
			program.test(t, filepath.Join(old, e.Name()))
		})
	}
}

// oldProgram is what this program does otherwise with an older one's directories.
type oldProgram struct {
	sameWeights bool // a run of this program ends with the older one's weights
	// The message where an interrupted run is resumed or verified; a finished one has no checkpoint
	// then. Empty: both go on.
	resumeRefused           string
	graph, relations, model []string // flags of generate, presample and train, beside those that all have
}

func (p oldProgram) test(t *testing.T, from string) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	training := append([]string{"--hidden", "4", "--blas", "gonum", "--threads", "1", "--io", "pread"}, p.model...)
	do := func(args ...string) {
		t.Helper()
		if out, err := oldCommand(t, dir, append(args, "--quiet")...); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	for _, name := range []string{"graph", "samples", "static", "min", "int8", "zstd"} {
		do("verify", name)
		do("inspect", name)
	}
	// Equal parameters: the directories are there, and nothing is made.
	do(append([]string{"generate", "--out", "graph", "--avg-degree", "5", "--dim", "6", "--classes", "3", "--train-ratio", "0.2"}, p.graph...)...)
	do(append([]string{"presample", "--dataset", "graph", "--out", "samples", "--batch-size", "32", "--fanout", "2,3", "--epochs", "2"}, p.relations...)...)
	do("pack", "--dataset", "graph", "--samples", "samples", "--out", "static", "--cache", "10%")
	do("pack", "--dataset", "graph", "--samples", "samples", "--out", "repacked", "--cache", "10%")

	for _, pack := range []string{"static", "min", "int8", "zstd"} {
		do(append([]string{"train", "--pack", pack, "--out", "on-" + pack, "--epochs", "3"}, training...)...)
	}
	do(append([]string{"train", "--dataset", "graph", "--samples", "samples", "--out", "on-samples", "--epochs", "3"}, training...)...)
	if p.sameWeights {
		sameWeights(t, filepath.Join(dir, "on-static"), filepath.Join(dir, "run"))
	}

	do("eval", "--run", "run", "--dataset", "graph", "--exact")
	do("eval", "--run", "run", "--pack", "static")
	do("predict", "--run", "run", "--dataset", "graph", "--out", "logits.npy")
	do("report", "run")
	do("verify", "run")
	do(append([]string{"train", "--pack", "static", "--out", "begun", "--epochs", "1", "--init-from", "run"}, training...)...)

	resuming := []string{"train", "--resume", "--pack", "static", "--blas", "gonum", "--threads", "1", "--io", "pread", "--out"}
	resume := append(slices.Clip(resuming), "interrupted")
	longer := append(slices.Clip(resuming), "run", "--epochs", "5")
	if p.resumeRefused != "" {
		for _, args := range [][]string{resume, {"verify", "interrupted"}} {
			if out := otherVersion(t, dir, args...); !strings.Contains(out, p.resumeRefused) {
				t.Errorf("%v: %s", args, out)
			}
		}
		if out := otherVersion(t, dir, longer...); !strings.Contains(out, "run is finished, and has no checkpoint to make it longer from") {
			t.Errorf("made longer: %s", out)
		}
	} else {
		do(longer...)
		do(append([]string{"train", "--pack", "static", "--out", "on-static-5", "--epochs", "5"}, training...)...)
		sameWeights(t, filepath.Join(dir, "run"), filepath.Join(dir, "on-static-5"))
		do("verify", "interrupted")
		do(resume...)
		do("verify", "interrupted")
		do(append([]string{"train", "--pack", "static", "--out", "uninterrupted", "--epochs", "300"}, training...)...)
		sameWeights(t, filepath.Join(dir, "interrupted"), filepath.Join(dir, "uninterrupted"))
	}

	if _, err := os.Stat(filepath.Join(dir, "drive")); err == nil {
		do("verify", "nvme:soft:drive")
		do("train", "--pack", "static", "--out", "on-drive", "--epochs", "3", "--io", "nvme:soft:drive", "--hidden", "4", "--blas", "gonum", "--threads", "1")
		sameWeights(t, filepath.Join(dir, "on-drive"), filepath.Join(dir, "on-static"))
	}
}

// oldCommand runs a command in dir, with the plain kernels, and returns its output.
func oldCommand(t *testing.T, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(t.Context(), "diskgnn", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "DISKGNN_SIMD=plain")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// sameWeights compares the last weights of two runs.
func sameWeights(t *testing.T, run, other string) {
	t.Helper()
	a, b := lastWeights(t, run), lastWeights(t, other)
	if diff := cmp.Diff(b, a); diff != "" {
		t.Errorf("%s has other weights than %s:\n%s", filepath.Base(run), filepath.Base(other), diff)
	}
}

func lastWeights(t *testing.T, run string) []safetensors.Tensor {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(run, "final.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	tensors, _, err := safetensors.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return tensors
}
