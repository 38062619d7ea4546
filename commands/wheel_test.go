package commands

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// tenLines adds up the rows of every batch by the blocks, as one does who has just installed the package.
const tenLines = `
import numpy as np
from diskgnn import Loader
for batch in Loader("pack", epochs=2, memory="1GiB"):
    h = batch.x
    for block in batch.blocks:
        sources, destinations = block.edge_index
        out = h[block.dst].copy()
        np.add.at(out, destinations, h[sources])
        h = out
    print(batch.number, h.shape == (len(batch.y), batch.x.shape[1]), bool(np.isfinite(h).all()))
`

// otherProtocol is a program of another release.
const otherProtocol = `
import os, stat, sys
from diskgnn import Loader
with open("other", "w") as f:
    f.write("#!" + sys.executable + "\nimport os, sys\nos.write(int(sys.argv[-1]), b'{\"protocol\": 99, \"slots\": []}\\n')\n")
os.chmod("other", 0o755)
try:
    len(Loader("pack", program="./other"))
except Exception as e:
    print(type(e).__name__, e)
`

// TestPythonWheel installs a wheel in a new environment: the one that the environment variable WHEEL names, or one with
// this program. The package finds the program inside, and nothing else in PATH.
func TestPythonWheel(t *testing.T) {
	python := numpy(t)
	site, err := exec.Command(python, "-c", "import numpy, os; print(os.path.dirname(os.path.dirname(numpy.__file__)))").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	wheel := os.Getenv("WHEEL")
	if wheel == "" {
		program, err := exec.LookPath("diskgnn")
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "go", "run", "./internal/wheel", "-o", dir, "python", program, "LICENSE")
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if found, _ := filepath.Glob(filepath.Join(dir, "*.whl")); len(found) == 1 {
			wheel = found[0]
		}
	}
	t.Chdir(dir)
	do(t, "generate --out graph --nodes 300 --dim 5 --classes 3 --train-ratio 0.4")
	do(t, "presample --dataset graph --out samples --batch-size 30 --fanout 3,4 --epochs 2")
	do(t, "pack --dataset graph --samples samples --out pack")

	begun := time.Now()
	if out, err := exec.CommandContext(t.Context(), python, "-m", "venv", "new").CombinedOutput(); err != nil {
		t.Skipf("%s makes no virtual environments: %v\n%s", python, err, out)
	}
	made := time.Now()
	runs := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "new/bin", name), args...)
		// NumPy is the other Python's: a package index may be out of reach.
		cmd.Env = append(os.Environ(), "PATH=/nowhere", "DISKGNN=", "PYTHONPATH="+strings.TrimSpace(string(site)))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		return string(out)
	}
	runs("python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", wheel)
	installed := time.Now()
	var want strings.Builder
	for i := range 8 { // 4 batches of an epoch
		want.WriteString(string(rune('0'+i)) + " True True\n")
	}
	if got := runs("python", "-c", tenLines); got != want.String() {
		t.Errorf("%s, want %s", got, &want)
	}
	t.Logf("environment %.1f s, install %.1f s, two epochs %.1f s", made.Sub(begun).Seconds(), installed.Sub(made).Seconds(), time.Since(installed).Seconds())
	if got := runs("diskgnn", "version"); !strings.HasPrefix(got, "diskgnn ") {
		t.Errorf("the command: %s", got)
	}
	if got, want := runs("python", "-c", otherProtocol), "FeedError ./other speaks version 99 of the feed's protocol, this package version "; !strings.HasPrefix(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestPythonPage runs the examples of docs/python.md in their order, those with torch where it is there.
func TestPythonPage(t *testing.T) {
	python := numpy(t)
	torch := os.Getenv("PYG")
	if torch != "" && exec.Command(torch, "-c", "import importlib.util as u; assert u.find_spec('torch_geometric')").Run() == nil {
		python = torch
	} else {
		torch = ""
	}
	module := absolute(t, "../python")
	pages := readPages(t)
	t.Chdir(t.TempDir())
	do(t, "generate --out graph --nodes 1500 --dim 16 --classes 4 --train-ratio 0.3")
	do(t, "presample --dataset graph --out samples --batch-size 256 --fanout 3,3 --epochs 2")
	do(t, "pack --dataset graph --samples samples --out pack")
	do(t, "train --pack pack --out run --hidden 8 --epochs 2")
	args := []string{"-W", "ignore", "-c", "import sys\nfor text in sys.argv[1:]:\n    exec(text, {})"}
	for _, p := range pages {
		for _, b := range p.blocks {
			text := strings.Join(b.lines, "\n")
			if p.name != "docs/python.md" || b.language != "python" || torch == "" && strings.Contains(text, "import torch\n") {
				continue
			}
			args = append(args, text)
		}
	}
	if n := len(args) - 4; n < 3 {
		t.Errorf("only %d examples", n)
	}
	runPython(t, python, module, args...)
}
