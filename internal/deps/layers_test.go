package deps

import (
	"strings"
	"testing"
)

func TestImportsGoDown(t *testing.T) {
	for _, s := range load(t) {
		if _, ok := Find(s.Pkg); !ok {
			t.Errorf("%s: no layer claims the package %q: name it in Layers", s.Path, s.Pkg)
			continue
		}
		for _, im := range s.Imports {
			to, ours := strings.CutPrefix(im, Module+"/")
			if !ours {
				continue
			}
			if !MayImport(s.Pkg, to, s.Test) {
				t.Errorf("%s: %s must not import %s", s.Path, s.Pkg, to)
			}
			if isTestPackage(to) && !s.Test && !s.TestOnly() {
				t.Errorf("%s: %s is for tests", s.Path, to)
			}
		}
	}
}

// What a run does is decided without anything that is open: no file, device or engine.
func TestDecidingOpensNothing(t *testing.T) {
	for _, s := range load(t) {
		if s.Test || s.Pkg != "train/decide" {
			continue
		}
		for _, im := range s.Imports {
			for _, tree := range []string{"device", "iostack", "internal/vfs", "train/cpu", "train/gpu"} {
				if within(strings.TrimPrefix(im, Module+"/"), tree) || within(im, "os") || im == "context" {
					t.Errorf("%s: train/decide must not import %s", s.Path, im)
				}
			}
		}
	}
}

func TestForeignCodeIsConfined(t *testing.T) {
	for _, s := range load(t) {
		for _, im := range s.Imports {
			if ok, why := MayImportForeign(s.Pkg, im); !ok {
				t.Errorf("%s: must not import %s: %s", s.Path, im, why)
			}
			if im == "C" && !s.Constrained() {
				t.Errorf("%s: cgo in a file that is always built", s.Path)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	docs := make(map[string]string)
	for _, s := range load(t) {
		if s.Test && docs[s.Pkg] == "" && strings.HasSuffix(s.File.Name.Name, "_test") {
			continue // an external test is no package of its own
		}
		if _, seen := docs[s.Pkg]; !seen {
			docs[s.Pkg] = ""
		}
		if s.File.Doc != nil {
			docs[s.Pkg] = s.File.Doc.Text()
			name := s.File.Name.Name
			if want := "Package " + name + " "; name != "main" && !strings.HasPrefix(docs[s.Pkg], want) {
				t.Errorf("%s: the package comment begins with %q", s.Path, want)
			}
		}
	}
	for pkg, doc := range docs {
		if doc == "" {
			t.Errorf("%s: no package comment", pkg)
		}
	}
}

// TestRules checks the rules themselves on pairs whose answer is known.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		from, to string
		test, ok bool
	}{
		{"train", "train/cpu", false, true},
		{"train/cpu", "train", false, false},
		{"presample", "presample/mbfile", false, true},
		{"presample/mbfile", "presample", false, false},
		{"presample", "presample/sampler", false, true},
		{"presample/sampler", "presample", false, false},
		{"featurestore/onthefly", "presample/sampler", false, true},
		{"featurestore/onthefly", "presample", false, false},
		{"pack", "presample", false, false},
		{"pack", "presample", true, true},
		{"pack", "presample/mbfile", false, true},
		{"iostack/pread", "iostack", false, true},
		{"iostack/all", "iostack/pread", false, true},
		{"dataset", "iostack", false, false},
		{"dataset", "graph", false, true},
		{"dataset", "dataset/importer", false, false},
		{"pack", "dataset/importer/all", false, false},
		{"train", "dataset/importer/all", true, true},
		{"dataset/importer/all", "dataset/importer/graphbolt", false, true},
		{"commands", "dataset/importer/all", false, true},
		{"graph", "dataset", true, false},
		{"internal/stage", "internal/vfs", false, true},
		{"internal/stage", "graph", false, false},
		{"graph", "internal/binio", false, true},
		{"graph", "device", false, false},
		{"commands", "pack", false, true},
		{"train", "commands", false, false},
		{"cmd/diskgnn", "commands", false, true},
		{"cmd/diskgnn", "featurestore/all", false, true},
		{"commands", "featurestore/all", false, false},
		{"commands", "featurestore/all", true, true},
		{"train", "featurestore/all", false, false},
		{"simulate/drives", "simulate/kernel", false, true},
		{"simulate/drives", "presample/mbfile", false, true},
		{"simulate/trace", "presample/mbfile", false, false},
		{"train", "simulate/trace", false, true},
		{"train", "simulate/drives", false, false},
		{"simulate/drives", "train/cpu", false, false},
		{"simulate/drives", "featurestore", false, false},
		{"simulate/drives", "presample", true, true},
		{"simulate/drives", "train", false, false},
		{"commands", "simulate/drives", false, true},
		{"featurestore/packed", "device/cuda", false, true},
		{"featurestore/mmap", "device/cuda", false, false},
		{"featurestore/mmap", "device/cuda", true, true},
		{"featurestore/mmap", "device", false, true},
		{"train/engine", "device/cuda", false, false},
		{"device/nccl", "device/cuda", false, true},
		{"nowhere", "graph", false, false},
	} {
		if got := MayImport(c.from, c.to, c.test); got != c.ok {
			t.Errorf("MayImport(%s, %s, %t) = %t", c.from, c.to, c.test, got)
		}
	}
	for _, c := range []struct {
		from, path string
		ok         bool
	}{
		{"train/cpu", "gorgonia.org/tensor", true},
		{"train", "gorgonia.org/tensor", false},
		{"train/cpu", "gorgonia.org/cu", false},
		{"commands", "github.com/urfave/cli/v2", true},
		{"cmd/diskgnn", "github.com/urfave/cli/v2", false},
		{"pack", "github.com/urfave/cli/v2", false},
		{"pack", "github.com/klauspost/compress/s2", true},
	} {
		if got, _ := MayImportForeign(c.from, c.path); got != c.ok {
			t.Errorf("MayImportForeign(%s, %s) = %t", c.from, c.path, got)
		}
	}
}
