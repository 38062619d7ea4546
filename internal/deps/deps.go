// Package deps is the shape of this repository: which package may import which,
// where foreign code may be used, and where files may be written. Its tests read
// every source file, whatever its build tags, and hold the repository to it.
//
//	L4  cmd/diskgnn                     flags, config file, exit codes; no logic
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
// Imports go strictly down. Packages of one layer don't know each other, except inside one tree
// (iostack and its backends, graph and its codec), and but for the recipe, which every package
// about training embeds, and the sampler, by which the stage and stores draw; inside internal
// they may, the compiler forbids cycles. Tests may also import their own layer, never a higher
// one.
package deps

import (
	"slices"
	"strings"
)

// A Tree is a package and everything below it that no longer prefix claims.
type Tree struct {
	Path  string // relative to the module, "" for the module's root
	Layer int
}

// Layers lists every tree of the repository. A package that no tree claims fails
// the test: a new package is listed here.
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

	{"cmd/diskgnn", 4},
	{"internal/demo", 4},
	{"bench", 4},
}

// formatsOnly are trees that may not import stages, stores or engines, though their layer is above
// them: their figures about a run must not depend on how it is made.
var formatsOnly = []string{"simulate"}

// reserved are trees that only some others may import, tests aside: libraries that read other
// formats come with the command line, not with the stages.
var reserved = map[string][]string{
	"dataset/importer": {"dataset/importer", "cmd/diskgnn", "bench"},
}

// embedded are trees that others of their layer are made around.
var embedded = []string{"train/recipe", "presample/sampler"}

// Find returns the tree that claims a package.
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

// MayImport reports whether a package may import another of this repository;
// test says that the importing file is a test.
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
	case slices.Contains(formatsOnly, f.Path) && t.Layer > 1 && t.Path != f.Path && !test:
		return false
	case t.Layer != f.Layer:
		return t.Layer < f.Layer
	}
	// graph and device stand on internal, never the other way round.
	if f.Layer == 0 && t.Path == "internal" {
		return true
	}
	return test || f.Path == t.Path || slices.Contains(embedded, t.Path)
}

// Foreign modules that only some trees may import, by import path prefix.
var confined = []struct {
	path  string
	trees []string
	why   string
}{
	{"gorgonia.org/cu", []string{"device/cuda", "train/gpu"}, "the CUDA driver stays in tagged leaf packages"},
	{"gorgonia.org/", []string{"train/cpu"}, "Gorgonia is one engine, the others must not notice it"},
	{"github.com/urfave/cli", []string{"cmd"}, "stages know options, not flags"},
	{"github.com/goccy/go-yaml/ast", []string{"cmd", "internal/yaml"}, "the configuration is read as it is written, for the lines of messages"},
	{"github.com/goccy/go-yaml", []string{"internal/yaml"}, "what a few bytes of YAML stand for is bounded in one place"},
	{"github.com/vbauerster/mpb", []string{"internal/progress/render"}, "stages report, one package renders"},
	{"github.com/ebitengine/purego", []string{"train/cpu/blas", "device/nccl"}, "libraries are opened at run time in leaf packages only"},
	{"github.com/gofrs/flock", []string{"internal/vfs"}, "locks are part of the file system seam"},
	{"golang.org/x/sync/errgroup", []string{"internal/errgroup"}, "what panics in its goroutines ends the process: internal/errgroup returns it"},
	{"github.com/rogpeppe/go-internal", []string{"cmd"}, "scripts test the command line"},
}

// MayImportForeign reports whether a package may import a path outside the
// repository and the standard library, and why not.
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
