package commands

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/metamorphic"
	"diskgnn/internal/vfs/vfstest"
)

// plainProgram is a program to which a test adds a second variant.
const plainProgram = `generate --nodes 61
generate --avg-degree 4
generate --dim 6
generate --classes 3
generate --train-ratio 0.3
presample --fanout 2,3
presample --batch-size 7
presample --epochs 2
pack --cache 10%
train --hidden 4
train --layer-order aggregate
train --epochs 1
train --accumulate 6
0 pack --io pread
0 train --io pread
0 predict --io pread
`

// variedProgram returns plainProgram with a variant of some settings, and with a fault in it unless it is "".
func variedProgram(t *testing.T, fault string, settings ...string) *metamorphic.Program {
	t.Helper()
	text := plainProgram
	for _, s := range settings {
		text += "1 " + s + "\n"
	}
	if fault != "" {
		text += "fault 1 " + fault + "\n"
	}
	p, err := metamorphic.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestReadsOfStacksAreStruck: faults below package vfs happen in every command that reads by a storage stack, with
// every stack; wrong and failed reads end it, and short and slow ones change nothing.
func TestReadsOfStacksAreStruck(t *testing.T) {
	on := newProver(t)
	for _, c := range []struct{ io, command, kind string }{
		{"pread", "pack", "read-error"}, {"pread", "train", "read-wrong"}, {"pread", "predict", "read-short"},
		{"uring", "pack", "read-wrong"}, {"uring", "train", "read-error"}, {"uring", "train", "read-short"}, {"uring", "predict", "read-slow"},
		{"nvme", "train", "read-wrong"},
	} {
		p := variedProgram(t, c.command+" "+c.kind+" 0", "pack --io pread", "train --io pread", "predict --io pread")
		for i, s := range p.Variants[1] {
			if s.Command == c.command {
				p.Variants[1][i].Value = c.io
			}
		}
		r := newReport()
		if err := on.test(filepath.Join(vfstest.TempDir(t), "p"), p, r); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		lying := c.kind == "read-error" || c.kind == "read-wrong"
		if r.faults[c.kind+" met"] == 0 || (r.faults[c.kind+" exit 3"] > 0) != lying || !lying && r.faults[c.kind+" exit 0"] != r.faults[c.kind+" met"] {
			t.Errorf("%v: %v; refused: %v", c, r.faults, r.refusals)
		}
	}
}

// TestOpenInputsAreStruck: the operations of commands are counted, with the inputs that they have open and mapped.
func TestOpenInputsAreStruck(t *testing.T) {
	p := variedProgram(t, "", "pack --io uring", "train --io uring", "predict --io uring")
	l := &variantRun{prover: newProver(t), dir: filepath.Join(vfstest.TempDir(t), "p"), p: p, faults: map[string]int{}}
	if err := l.execute(); err != nil {
		t.Fatal(err)
	}
	l.variant = 1
	plain := p.Variants[1]
	for _, c := range []struct{ command, store, batches, mapped string }{
		{"presample", "packed", "", "indices.bin indptr.bin"},
		{"pack", "packed", "", ""},
		{"train", "packed", "", ""},
		{"train", "mmap", "", "features.bin"},
		{"train", "rows", "live", "indices.bin indptr.bin"},
		{"predict", "packed", "", "indices.bin indptr.bin"},
	} {
		p.Variants[1] = append(slices.Clip(plain), metamorphic.Setting{Command: "train", Flag: "store", Value: c.store}, metamorphic.Setting{Command: "train", Flag: "batches", Value: c.batches})
		p.Fault = &metamorphic.Fault{Variant: 1, Command: c.command, Kind: "cut"}
		var seen *watch
		enough := errors.New("enough")
		l.looking = func(w *watch) error { seen = w; return enough }
		if err := l.execute(); err != enough {
			t.Fatalf("%v: %v", c, err)
		}
		if err := os.RemoveAll(l.path(".")); err != nil {
			t.Fatal(err)
		}
		var names []string
		for name := range seen.mapped {
			names = append(names, filepath.Base(name))
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != c.mapped {
			t.Errorf("%v maps %q", c, got)
		}
		for name, times := range seen.open {
			if !slices.IsSorted(times) || times[len(times)-1] >= seen.all {
				t.Errorf("%v has %s open before the operations %v of %d", c, name, times, seen.all)
			}
		}
		for name, times := range seen.mapped {
			if i := slices.IndexFunc(times, func(at int) bool { return !slices.Contains(seen.open[name], at) }); i >= 0 {
				t.Errorf("%v reads %s, which is not open, before operation %d", c, name, times[i])
			}
		}
		if len(seen.open) <= len(seen.mapped) || seen.all < seen.onDisk+seen.stack || seen.all == seen.onDisk+seen.stack && c.mapped != "" || seen.onDisk <= seen.changes+seen.onlyReads || seen.changes <= seen.writes || seen.writes == 0 || seen.onlyReads == 0 || (seen.stack > 0) != (c.command != "presample") {
			t.Errorf("%v: %+v", c, seen)
		}
	}
}

// TestStrikes: a fault strikes operations of a command in each third of it, or inputs while they are open, mapped
// ones in every second case.
func TestStrikes(t *testing.T) {
	w := newWatch([]string{"/a", "/b", "/c"})
	w.all, w.onDisk, w.changes, w.writes, w.onlyReads, w.stack = 90, 60, 33, 12, 9, 30
	w.open = map[string][]int{"/a": {3, 4}, "/b": {20, 21, 22}}
	w.mapped = map[string][]int{"/b": {21}}
	for kind, n := range map[string]int{"enospc": 33, "power": 33, "torn": 12, "misread": 9, "eio": 60, "signal": 60, "interrupt": 90, "slow": 90, "read-wrong": 30} {
		for _, at := range []int{0, 7, 1000} {
			list := strikes(&metamorphic.Fault{Kind: kind, At: at}, w, nil)
			for i, s := range list {
				if want := (at + i*n/3) % n; len(list) != 3 || s.At != want || s.Kind != kind || s.input != nil {
					t.Errorf("%s at %d: strike %d of %d is %+v, want operation %d", kind, at, i, len(list), s, want)
				}
			}
		}
	}
	w.stack, w.onlyReads = 0, 2
	for kind, want := range map[string]int{"read-slow": 0, "misread": 2} {
		if list := strikes(&metamorphic.Fault{Kind: kind, At: 5}, w, nil); len(list) != want {
			t.Errorf("%s strikes %d times, want %d", kind, len(list), want)
		}
	}
	files := []string{"/a", "/b", "/c"}
	for i, s := range strikes(&metamorphic.Fault{Kind: "flip", At: 4}, w, files) {
		if want := files[(4+i)%3]; s.input.name != want {
			t.Errorf("change %d at rest is of %s, want %s", i, s.input.name, want)
		}
	}
	met := make(map[string]bool)
	for at := range 100 {
		for _, kind := range []string{"moved", "replace"} {
			for i, s := range strikes(&metamorphic.Fault{Kind: kind, At: at}, w, files) {
				name := s.input.name
				met[fmt.Sprint(kind, name, s.At)] = true
				if i%2 == 0 && (name != "/b" || kind == "moved" && s.At != 21) || name == "/c" || s.At > w.open[name][len(w.open[name])-1] || kind == "moved" && !slices.Contains(w.open[name], s.At) {
					t.Errorf("%s at %d, strike %d: %s before operation %d", kind, at, i, name, s.At)
				}
			}
		}
	}
	if want := 2 + 3 + 5 + 23; len(met) != want {
		t.Errorf("%d places were struck, of %d", len(met), want)
	}
	if list := strikes(&metamorphic.Fault{Kind: "cut"}, newWatch(files), files); len(list) != 0 {
		t.Errorf("%d strikes at files that are never open", len(list))
	}
}

// TestSeveralGPUs: variants train on several GPUs, which divide the hottest rows or hold all, and the bits are as on
// one GPU.
func TestSeveralGPUs(t *testing.T) {
	on := newProver(t)
	for _, c := range []struct{ gpus, setting, fault string }{
		{"2", "keep 1", ""}, {"3", "peers none", ""}, {"3", "interrupt 40", ""}, {"2", "keep 1", "train kill 40"},
	} {
		r := newReport()
		err := on.test(filepath.Join(vfstest.TempDir(t), "p"), variedProgram(t, c.fault, "pack --io pread", "train --engine gpu", "train --gpu-cache 12%",
			"train --io pread", "predict --io pread", "train --gpus "+c.gpus, "train --"+c.setting), r)
		if err != nil || len(r.refusals) > 0 || r.variants != 2 {
			t.Errorf("%v: %v; refused: %v", c, err, r.refusals)
		}
	}
}
