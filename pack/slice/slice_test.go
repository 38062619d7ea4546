package slice_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/packed"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/pack/slice"
	"diskgnn/presample"
)

var disk = vfs.Unsynced(vfs.OS)

// packs makes a pack of more than one group of batches, with rows that are worth sharing.
func packs(t *testing.T, nodes int, change func(o *pack.Options)) string {
	t.Helper()
	dir := vfstest.TempDir(t)
	ds, samples, out := filepath.Join(dir, "D"), filepath.Join(dir, "S"), filepath.Join(dir, "P")
	p := datasettest.Params{Nodes: nodes, AvgDegree: 4, Dim: 300, Seed: 5}
	if err := dataset.Create(disk, ds, p.Raw()); err != nil {
		t.Fatal(err)
	}
	_, err := presample.Run(t.Context(), disk, presample.Options{
		Dataset: ds, Out: samples, BatchSize: 2, Fanout: []int{3, 2}, Epochs: 3, Seed: 1, Workers: 2, Memory: 1 << 30,
	}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o := pack.Options{Dataset: ds, Samples: samples, Out: out, Workers: 2, Memory: 1 << 30}
	change(&o)
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	return out
}

var kinds = map[string]func(o *pack.Options){
	"static":   func(*pack.Options) {},
	"max-disk": func(o *pack.Options) { o.MaxDisk = &budget.Size{Value: 3_400_000} },
	"s2":       func(o *pack.Options) { o.DType, o.Compress = "int8", packfile.CodecS2 },
	"all hot":  func(o *pack.Options) { o.Cache = &budget.Size{Value: 100, Unit: budget.UnitPercent} },
}

func run(t *testing.T, fsys vfs.FS, dir string, s packfile.Slice) (slice.Options, slice.Result, error) {
	t.Helper()
	o := slice.Options{Pack: dir, Out: filepath.Join(vfstest.TempDir(t), "slice"), Slice: s}
	r, err := slice.Run(t.Context(), fsys, o, progress.Discard)
	return o, r, err
}

// sums returns, of the training batches that are wanted, checksums of input nodes and feature
// matrix, read with a cache of so many percent of the rows.
func sums(t *testing.T, dir string, cache float64, wanted func(i int) bool) map[int][2]uint32 {
	t.Helper()
	c, err := packed.Find(disk, dir)
	if err != nil {
		t.Fatal(err)
	}
	stack, _, err := all.Open("pread", iostack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer stack.Close()
	l, err := c.Plan(featurestore.PlanOptions{Cache: &budget.Size{Value: cache, Unit: budget.UnitPercent}, Memory: 1 << 30, Slots: 1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Open(stack, l)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Fill(t.Context(), 0, progress.Discard); err != nil {
		t.Fatal(err)
	}
	sl, err := s.View(0).NewSlot(false)
	if err != nil {
		t.Fatal(err)
	}
	defer sl.Free()
	of := map[int][2]uint32{}
	for i := range c.Facts().Train {
		if !wanted(i) {
			continue
		}
		if err := storetest.Load(t.Context(), sl, featurestore.Ref{Index: i}); err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
		of[i] = [2]uint32{binio.CRC(binio.Bytes(sl.Batch().Input)), binio.CRC(binio.Bytes(sl.X()))}
	}
	return of
}

// TestSlices slices packs of every kind: the ranks have each batch once, with the bytes that
// the pack has of it, at every cache that the pack was cut for; all of evaluation; and the
// fingerprint.
func TestSlices(t *testing.T) {
	for name, change := range kinds {
		t.Run(name, func(t *testing.T) {
			dir := packs(t, 200, change)
			r, err := packfile.Open(disk, dir)
			if err != nil {
				t.Fatal(err)
			}
			f := r.Facts()
			if name == "max-disk" && f.SSDRows == 0 || f.Groups() < 2 {
				t.Fatalf("no rows are shared, or there is one group: %+v", f)
			}
			for _, w := range []struct{ world, accumulate int }{{1, 1}, {2, 2}, {3, 6}} {
				seen := map[int]bool{}
				for rank := range w.world {
					s := packfile.Slice{Rank: rank, World: w.world, Accumulate: w.accumulate}
					o, res, err := run(t, disk, dir, s)
					if err != nil || res.Fingerprint != r.Meta().Fingerprint || res.State != "new" {
						t.Fatalf("%v: %+v, %v", s, res, err)
					}
					part, err := packfile.OpenSlice(disk, o.Out)
					if err != nil || *part.Slice() != s {
						t.Fatalf("%v: %v", s, err)
					}
					if err := part.Verify(t.Context(), disk, progress.Discard); err != nil {
						t.Errorf("%v: %v", s, err)
					}
					mine := func(i int) bool { return s.Has(&f, i) }
					for i := range f.Train {
						if mine(i) {
							if seen[i] {
								t.Errorf("%v: batch %d is another rank's", s, i)
							}
							seen[i] = true
						}
					}
					for _, cache := range []float64{5, 30, 100} {
						if name == "all hot" {
							cache = 100
						}
						want := sums(t, dir, cache, mine)
						if got := sums(t, o.Out, cache, mine); !maps.Equal(got, want) || len(got) != res.Batches {
							t.Errorf("%v, cache of %v %%: %v, want %v", s, cache, got, want)
						}
					}
					if again, err := slice.Run(t.Context(), disk, o, progress.Discard); err != nil || again.State != "done" {
						t.Errorf("%v, again: %+v, %v", s, again, err)
					}
				}
				if len(seen) != f.Train {
					t.Errorf("%d ranks have %d of %d batches", w.world, len(seen), f.Train)
				}
			}
		})
	}
}

// TestSliceIsSmall: a rank's slice has its batches' chunks, and no others: elsewhere are zeros.
func TestSliceIsSmall(t *testing.T) {
	dir := packs(t, 200, kinds["static"])
	r, err := packfile.Open(disk, dir)
	if err != nil {
		t.Fatal(err)
	}
	o, res, err := run(t, disk, dir, packfile.Slice{Rank: 1, World: 2, Accumulate: 2})
	if err != nil {
		t.Fatal(err)
	}
	name := packfile.ColdFile(0)
	whole, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	part, err := os.ReadFile(filepath.Join(o.Out, name))
	if err != nil || len(part) != len(whole) {
		t.Fatalf("%d bytes, want %d (%v)", len(part), len(whole), err)
	}
	f := r.Facts()
	copied := int64(0)
	for i := range packfile.GroupBatches(1) {
		c := &r.Index().Train[i]
		got, want := part[c.ChunkOffset:c.ChunkOffset+c.ChunkBytes], whole[c.ChunkOffset:c.ChunkOffset+c.ChunkBytes]
		if i%f.BatchesPerEpoch%2 == 0 {
			want = make([]byte, len(want))
		} else {
			copied += c.ChunkBytes
		}
		if !bytes.Equal(got, want) {
			t.Errorf("chunk of batch %d is another", i)
		}
	}
	if copied == 0 || res.SliceBytes >= res.PackBytes || res.Copied != res.SliceBytes {
		t.Errorf("%+v", res)
	}
}

// TestEveryFailure fails each write in turn, alone and with all later ones: nothing passes for
// finished, and the next run ends with the same bytes.
func TestEveryFailure(t *testing.T) {
	dir := packs(t, 40, func(o *pack.Options) { o.MaxDisk = &budget.Size{Value: 9.5, Unit: budget.UnitTimes} })
	s := packfile.Slice{Rank: 1, World: 2, Accumulate: 2}
	ref, _, err := run(t, disk, dir, s)
	if err != nil {
		t.Fatal(err)
	}
	want := contents(t, ref.Out)
	resumed := 0
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			in := &vfs.FailAt{N: n, After: after, Err: errors.New("boom")}
			o, _, err := run(t, vfs.Inject(disk, in), dir, s)
			if !in.Fired() {
				break
			}
			if err == nil {
				t.Errorf("operation %d failed unnoticed (later ones too: %t)", n, after)
			}
			res, err := slice.Run(t.Context(), disk, o, progress.Discard)
			if err != nil {
				t.Fatalf("after failing operation %d (later ones too: %t): %v", n, after, err)
			}
			if res.State == "resumed" && res.Copied < res.SliceBytes {
				resumed++
			}
			if d := cmp.Diff(want, contents(t, o.Out)); d != "" {
				t.Fatalf("operation %d: %.300s", n, d)
			}
		}
	}
	if resumed == 0 {
		t.Error("no run was resumed")
	}
}

// contents returns the checksum of every file of a directory but run.json.
func contents(t *testing.T, dir string) map[string]uint32 {
	t.Helper()
	all := map[string]uint32{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() != stage.RunFile {
			all[e.Name()] = binio.CRC(b)
		}
	}
	return all
}

// TestFlippedBytes changes a byte in every file of a slice, also where it has a hole, and finds
// the file named.
func TestFlippedBytes(t *testing.T) {
	for _, kind := range []string{"static", "max-disk", "s2"} {
		dir := packs(t, 200, kinds[kind])
		o, _, err := run(t, disk, dir, packfile.Slice{Rank: 0, World: 2, Accumulate: 2})
		if err != nil {
			t.Fatal(err)
		}
		for name := range contents(t, o.Out) {
			path := filepath.Join(o.Out, name)
			b, err := os.ReadFile(path)
			if err != nil || len(b) == 0 {
				continue
			}
			for at := 0; at < len(b); at += len(b)/7 + 1 {
				b[at] ^= 4
				if err := os.WriteFile(path, b, 0o666); err != nil {
					t.Fatal(err)
				}
				err := verify(t, o.Out)
				if !errors.Is(err, fault.ErrCorrupt) && name != stage.MetaFile || err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(name, ".sums")[:3]) {
					t.Errorf("%s: byte %d of %s: %v", kind, at, name, err)
				}
				b[at] ^= 4
			}
			if err := os.WriteFile(path, b, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := verify(t, o.Out); err != nil {
			t.Error(err)
		}
	}
}

func verify(t *testing.T, dir string) error {
	r, err := packfile.OpenSlice(disk, dir)
	if err != nil {
		return err
	}
	return r.Verify(t.Context(), disk, progress.Discard)
}

// TestDamagedPack: bytes are checked on the way. The pack is named, and how it is made again; a
// byte that the slice does not have does not matter.
func TestDamagedPack(t *testing.T) {
	dir := packs(t, 200, kinds["static"])
	r, err := packfile.Open(disk, dir)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, packfile.ColdFile(0))
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[r.Index().Train[1].ChunkOffset] ^= 1
	if err := os.WriteFile(path, b, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, disk, dir, packfile.Slice{Rank: 0, World: 2, Accumulate: 2}); err != nil {
		t.Errorf("rank 0: %v", err)
	}
	o, _, err := run(t, disk, dir, packfile.Slice{Rank: 1, World: 2, Accumulate: 2})
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), dir+" is damaged: make it again, by its diskgnn pack") {
		t.Errorf("rank 1: %v", err)
	}
	if _, err := os.Stat(o.Out); err == nil {
		t.Error("published")
	}
}

// TestRefusals: what is there and is no slice of this rank stays, but for another slice with
// Force.
func TestRefusals(t *testing.T) {
	dir := packs(t, 200, kinds["static"])
	s := packfile.Slice{Rank: 0, World: 2, Accumulate: 2}
	o, _, err := run(t, disk, dir, s)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, o slice.Options, kind error, says string) {
		t.Helper()
		if _, err := slice.Run(t.Context(), disk, o, progress.Discard); !errors.Is(err, kind) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	other := o
	other.Rank = 1
	refused("another rank", other, fault.ErrExists, "is the slice of rank 0 of 2; use --force")
	other.Force = true
	if r, err := slice.Run(t.Context(), disk, other, progress.Discard); err != nil || r.State != "new" || verify(t, o.Out) != nil {
		t.Errorf("with force: %+v, %v", r, err)
	}
	over := o
	over.Out, over.Force = dir, true
	refused("over the pack", over, fault.ErrExists, "is a whole pack, which a slice never replaces")
	of := o
	of.Pack, of.Out = o.Out, o.Out+"2"
	refused("of a slice", of, fault.ErrInput, "the whole pack is needed here")
	for _, bad := range []packfile.Slice{{Rank: 2, World: 2, Accumulate: 2}, {Rank: -1, World: 2, Accumulate: 2}, {World: 2, Accumulate: 3}, {World: 0, Accumulate: 1}} {
		wrong := o
		wrong.Slice = bad
		refused("no slice", wrong, fault.ErrUsage, "rank")
	}
	min := packs(t, 200, func(o *pack.Options) { o.Policy = packfile.PolicyMin })
	of.Pack = min
	refused("min", of, fault.ErrUsage, "has the policy min")
	of.Slice = packfile.Slice{World: 1, Accumulate: 1}
	if _, err := slice.Run(t.Context(), disk, of, progress.Discard); err != nil || verify(t, of.Out) != nil {
		t.Errorf("min, alone: %v", err)
	}
	if _, err := packfile.Open(disk, o.Out); !errors.Is(err, fault.ErrInput) {
		t.Errorf("a slice opened as a pack: %v", err)
	}
	full := o
	full.Out += "full"
	if _, err := slice.Run(t.Context(), small{disk}, full, progress.Discard); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("no room: %v", err)
	}
}

// small is a file system without room.
type small struct{ vfs.FS }

func (small) Free(string) (int64, error) { return 1000, nil }
