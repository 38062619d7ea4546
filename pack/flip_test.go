package pack_test

import (
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
)

// flips says how much TestFlip tries: every so many operations, and there of so many files
// a bit each. `make test-flips` tries all.
func flips() (step, files int) {
	if os.Getenv("DISKGNN_FLIPS") != "" {
		return 1, 1 << 20
	}
	return 8, 2
}

// TestFlip interrupts packing at its operations, changes a bit of a file that is there,
// whichever it is, and goes on: what is then published is what it would have been, or
// there is an error that says what to do. Over the operations, every file has its turn
// many times.
func TestFlip(t *testing.T) {
	small := graphOf
	small.Nodes, small.Dim = 40, 300
	ds, samples := inputs(t, small)
	ranges := options(ds, samples, "")
	ranges.RangeRows, ranges.Workers = 15, 1
	wide := shared(t, 0.3)
	wide.RangeRows = 25
	compressed := ranges
	compressed.Dataset, compressed.Samples = inputs(t, datasettest.Params{Nodes: 120, AvgDegree: 4, Dim: 300, Seed: 5}) // more than one group
	compressed.RangeRows, compressed.Compress = 50, packfile.CodecS2
	min := minOptions(ds, samples, "")
	min.RangeRows = 15
	ranges.EvalChunks = true
	for what, o := range map[string]pack.Options{"ranges": ranges, "ssd": wide, "compressed": compressed, "min": min} {
		t.Run(what, func(t *testing.T) { flipAll(t, o) })
	}
}

func flipAll(t *testing.T, o pack.Options) {
	dir := vfstest.TempDir(t)
	o.Out = filepath.Join(dir, "ref")
	res, err := pack.Run(t.Context(), disk, o, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	fingerprint := res.Fingerprint
	want := contents(t, o.Out)
	step, most := flips()
	tried, refused := map[string]int{}, 0
	for n := len(want) % step; ; n += step {
		o.Out = filepath.Join(dir, "P")
		in := &vfs.FailAt{N: n, After: true, Err: errors.New("boom")}
		_, err := pack.Run(t.Context(), vfs.Inject(disk, in), o, progress.Discard)
		if !in.Fired() {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		partial := o.Out + ".partial"
		if _, err := os.Stat(partial); err != nil { // it was not made yet, or has its name
			remove(t, o.Out)
			continue
		}
		left := bytesOf(t, partial)
		names := slices.DeleteFunc(names(left), func(name string) bool { return len(left[name]) == 0 || name == stage.RunFile })
		slices.SortFunc(names, func(a, b string) int { return tried[a] - tried[b] })
		for _, name := range names[:min(most, len(names))] {
			tried[name]++
			remove(t, o.Out, partial)
			at, bit := place(n, name, len(left[name]))
			put(t, partial, left, name, at, bit)
			_, err := pack.Run(t.Context(), disk, o, progress.Discard)
			switch {
			case err == nil:
				// Of meta.json the fingerprint counts, which covers what it says: JSON does not
				// tell a key in capitals from one in small letters.
				got := contents(t, o.Out)
				if m, err := stage.ReadMeta(disk, o.Out, "pack"); err != nil || m.Fingerprint != fingerprint {
					t.Errorf("another fingerprint: %v", err)
				}
				got[stage.MetaFile] = want[stage.MetaFile]
				same(t, name, got, want)
			case !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "remove ") && !strings.Contains(err.Error(), "--force"):
				t.Errorf("an error of another kind: %v", err)
			default:
				refused++
				if _, err := os.Stat(o.Out); err == nil {
					t.Error("published all the same")
				}
			}
			if t.Failed() {
				t.Fatalf("%v, bit %d of byte %d of %d of %s", in, bit, at, len(left[name]), name)
			}
		}
		remove(t, o.Out, partial)
	}
	t.Logf("%d refused, of %v", refused, tried)
	if refused == 0 || tried["ranges.tmp"] == 0 || tried["index.tmp"] == 0 {
		t.Errorf("%d refused: no kept file was changed", refused)
	}
}

// place draws a bit of a file.
func place(n int, name string, size int) (at int, bit int) {
	h := fnv.New64a()
	_, _ = h.Write([]byte{byte(n), byte(n >> 8)})
	_, _ = h.Write([]byte(name))
	v := h.Sum64()
	return int(v >> 3 % uint64(size)), int(v & 7)
}

// bytesOf returns all that is in a directory.
func bytesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if all[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

func names(all map[string][]byte) (list []string) {
	for name := range all {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// put makes a directory of what bytesOf returned, with a bit of a file changed.
func put(t *testing.T, dir string, all map[string][]byte, name string, at, bit int) {
	t.Helper()
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for n, b := range all {
		if n == name {
			b = slices.Clone(b)
			b[at] ^= 1 << bit
		}
		if err := os.WriteFile(filepath.Join(dir, n), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func remove(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
}
