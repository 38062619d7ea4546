// Package deps has the rules of this repository: the permitted imports between packages, the packages that
// may use foreign modules, and the packages that may write files. Its tests read every source file, with
// any build tags, and check the rules.
//
//	L5  cmd/diskgnn                     the program: its list of stores
//	L4  commands                        flags, config file, exit codes; no logic
//	L3  train                           a run: probe, decide, open, train, finish. Its rooms, from below:
//	                                    rundir (RUN), decide (by values alone), ranks (their
//	                                    messages), epoch (loop, evaluation, checkpoints)
//	    simulate                        predictions for other machines; imports formats alone
//	    doctor                          capabilities of this machine
//	L2  presample  pack  featurestore  pipeline  train/cpu  train/gpu  train/collective
//	L1  dataset  presample/mbfile  pack/packfile  iostack  train/safetensors  train/checkpoint
//	    train/prepare  train/recipe  train/score  train/engine
//	    featurestore/residency  simulate/trace
//	L0  graph  device  train/model  presample/walk  internal/...
//
// Imports go strictly down. Packages of one layer do not import each other, with these exceptions:
// packages of one tree (iostack and its backends, graph and its codec), packages below internal, the
// recipe, which every package about training embeds, and the sampler, with which the stage and the stores
// draw. Tests may also import packages of their own layer, never of a higher one.
package deps

import (
	"slices"
	"strings"
)

// A Tree is a package with all packages below it, except the packages of a Tree with a longer path.
type Tree struct {
	Path  string // relative to the module, "" for the module's root
	Layer int
}

// Layers lists every tree of the repository. A package outside all trees fails the test, so a new tree
// must be added here.
var Layers = []Tree{
	{"internal", 0},
	{"graph", 0},
	{"device", 0},
	{"train/model", 0},
	{"presample/walk", 0},

	{"dataset", 1},
	{"presample/mbfile", 1},
	{"pack/packfile", 1},
	{"iostack", 1},
	{"train/safetensors", 1},
	{"train/checkpoint", 1},
	{"train/prepare", 1},
	{"train/recipe", 1},
	{"train/score", 1},
	{"train/engine", 1},
	{"featurestore/residency", 1},
	{"simulate/trace", 1},

	{"presample", 2},
	{"presample/sampler", 2},
	{"pack", 2},
	{"featurestore", 2},
	{"pipeline", 2},
	{"inspection", 2},
	{"train/collective", 2},
	{"train/cpu", 2},
	{"train/gpu", 2},

	{"train", 3},
	{"simulate", 3},
	{"doctor", 3},

	{"commands", 4},
	{"internal/demo", 4},
	{"bench", 4},

	{"cmd/diskgnn", 5},
}

// formatsOnly lists trees that must not import stages, stores or engines, although these are in lower
// layers: their predictions must not depend on the implementation.
var formatsOnly = []string{"simulate"}

// reserved lists trees that only some others may import, except in tests: libraries that read other
// formats belong to the command line, not to the stages, and only the program has a list of stores.
var reserved = map[string][]string{
	"dataset/importer": {"dataset/importer", "commands", "bench"},
	"featurestore/all": {"cmd/diskgnn"},
}

// onGPU lists the packages beside device's that may import device/cuda and its kernels, except in tests: they have
// kernels, or open a GPU. All others have a device.GPU, its streams and its buffers.
var onGPU = []string{
	"bench", "commands", "doctor",
	"featurestore/gids", "featurestore/internal/gpureads", "featurestore/internal/gpurows", "featurestore/packed", "featurestore/storetest",
	"iostack/cufile", "iostack/iostacktest", "iostack/nvme/gpuqueue", "iostack/nvme/gpuread", "iostack/nvme/rate",
	"presample/sampler/gpusampler",
	"train", "train/exact", "train/exact/grid", "train/gpu", "train/ranks",
}

// embedded lists trees that other trees of their layer may import.
var embedded = []string{"train/recipe", "presample/sampler"}

// Find returns the tree of a package, false if there is none.
func Find(pkg string) (Tree, bool) {
	best := Tree{Layer: -1}
	for _, t := range Layers {
		if within(pkg, t.Path) && len(t.Path) >= len(best.Path) {
			best = t
		}
	}
	return best, best.Layer >= 0
}

func within(pkg, tree string) bool { return pkg == tree || strings.HasPrefix(pkg, tree+"/") }

// MayImport reports whether the package from may import the package to of this repository. test means that
// the importing file is a test.
func MayImport(from, to string, test bool) bool {
	f, ok := Find(from)
	t, ok2 := Find(to)
	for tree, importers := range reserved {
		if within(to, tree) && !test && !slices.ContainsFunc(importers, func(t string) bool { return within(from, t) }) {
			return false
		}
	}
	switch {
	case !ok || !ok2:
		return false
	case within(to, "device/cuda") && !within(from, "device") && !slices.Contains(onGPU, from) && !test:
		return false
	case slices.Contains(formatsOnly, f.Path) && t.Layer > 1 && t.Path != f.Path && !test:
		return false
	case t.Layer != f.Layer:
		return t.Layer < f.Layer
	}
	// graph and device may import internal, but not the other way round.
	if f.Layer == 0 && t.Path == "internal" {
		return true
	}
	return test || f.Path == t.Path || slices.Contains(embedded, t.Path)
}

// confined lists foreign modules that only some trees may import, by prefix of the import path.
var confined = []struct {
	path  string
	trees []string
	why   string
}{
	{"gorgonia.org/cu", []string{"device/cuda", "train/gpu"}, "the CUDA driver stays in tagged leaf packages"},
	{"gorgonia.org/", []string{"train/cpu"}, "Gorgonia is one engine, the others must not notice it"},
	{"github.com/urfave/cli", []string{"commands"}, "stages have options, not flags"},
	{"github.com/goccy/go-yaml/ast", []string{"commands", "internal/yaml"}, "the configuration is read as it is written, for the lines of messages"},
	{"github.com/goccy/go-yaml", []string{"internal/yaml"}, "the expansion of YAML is limited in one place"},
	{"github.com/vbauerster/mpb", []string{"internal/progress/render"}, "stages report, one package renders"},
	{"github.com/ebitengine/purego", []string{"train/cpu/blas", "device/nccl"}, "libraries are opened at run time in leaf packages only"},
	{"github.com/gofrs/flock", []string{"internal/vfs"}, "locks are part of the file system seam"},
	{"golang.org/x/sync/errgroup", []string{"internal/errgroup"}, "a panic in its goroutines ends the process: internal/errgroup returns it"},
	{"github.com/rogpeppe/go-internal", []string{"commands"}, "scripts test the command line"},
}

// MayImportForeign reports whether a package may import a path outside the repository and the standard
// library. If not, it returns the reason.
func MayImportForeign(from, path string) (bool, string) {
	for _, c := range confined {
		if !strings.HasPrefix(path, c.path) {
			continue
		}
		ok := slices.ContainsFunc(c.trees, func(t string) bool { return within(from, t) })
		return ok, c.why
	}
	return true, ""
}
