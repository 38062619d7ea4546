package dataset

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/internal/dtype"
	"diskgnn/internal/vfs"
)

// namesOf hands out a list.
func namesOf(list []string) func(context.Context, func(int64, []byte) error) error {
	return func(_ context.Context, see func(int64, []byte) error) error {
		for v, name := range list {
			if err := see(int64(v), []byte(name)); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestDistinct compares with a list of what came before, for any number of hashes that are held,
// and for hashes that many names share.
func TestDistinct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.StringMatching(`[a-c]{1,4}`), 0, 60).Draw(t, "names")
		if rapid.Bool().Draw(t, "alone") {
			slices.Sort(list)
			list = slices.Compact(list)
		}
		kinds := rapid.Uint64Range(1, 200).Draw(t, "hashes")
		hash := func(name []byte) uint64 {
			h := uint64(1)
			for _, c := range name {
				h = h*31 + uint64(c)
			}
			return h % kinds * (math.MaxUint64 / kinds) // from one end to the other
		}
		u := distinct{int64(len(list)), namesOf(list), hash, rapid.Int64Range(1, 70).Draw(t, "held")}
		earlier, later, name, err := u.find(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		is := later > 0
		repeated := slices.ContainsFunc(list, func(s string) bool { return slices.Index(list, s) != len(list)-1-slices.Index(reversed(list), s) })
		if is != repeated {
			t.Fatalf("nodes %d and %d, %q", earlier, later, name)
		}
		if !is && (earlier != 0 || later != 0 || name != "") {
			t.Fatalf("nodes %d and %d, %q of names that are not equal", earlier, later, name)
		}
		if is && (earlier >= later || list[earlier] != name || list[later] != name) {
			t.Fatalf("nodes %d and %d are no two called %q", earlier, later, name)
		}
	})
}

func reversed(list []string) []string {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// Of names that are all equal no more hashes are held than of others.
func TestDistinctHoldsLittle(t *testing.T) {
	const n = 100_000
	name := []byte("a")
	u := distinct{n, func(_ context.Context, see func(int64, []byte) error) error {
		for v := range int64(n) {
			if err := see(v, name); err != nil {
				return err
			}
		}
		return nil
	}, func([]byte) uint64 { return 1 << 60 }, 1 << 20}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	equal, err := u.equal(t.Context(), 0, 1)
	runtime.ReadMemStats(&after)
	if err != nil || len(equal) != 1 {
		t.Error(equal, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 8*n*3/2 {
		t.Errorf("%d bytes for the hashes of %d names", took, n)
	}
}

// What ends the reading ends the search.
func TestDistinctFails(t *testing.T) {
	gone := errors.New("gone")
	for after := range 3 {
		calls := 0
		u := distinct{2, func(ctx context.Context, see func(int64, []byte) error) error {
			if calls++; calls > after {
				return gone
			}
			return namesOf([]string{"a", "b"})(ctx, see)
		}, func(name []byte) uint64 { return uint64(name[0]&1) << 63 }, 1}
		if earlier, later, name, err := u.find(t.Context()); (after < 2) != errors.Is(err, gone) || earlier != 0 || later != 0 || name != "" {
			t.Errorf("after %d: nodes %d and %d, %q, %v", after, earlier, later, name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	u := distinct{2, namesOf([]string{"a", "b"}), func([]byte) uint64 { return 0 }, 1}
	if _, _, _, err := u.find(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestNotAdjacent has another hash of the same shelf between two equal ones.
func TestNotAdjacent(t *testing.T) {
	u := distinct{3, namesOf([]string{"b", "a", "b"}), func(name []byte) uint64 { return uint64(name[0]) }, 3}
	if earlier, later, name, err := u.find(t.Context()); err != nil || earlier != 0 || later != 2 || name != "b" {
		t.Errorf("nodes %d and %d, %q, %v", earlier, later, name, err)
	}
}

// TestMostEqual gives up on names of which many share a hash with another, but one less is compared.
func TestMostEqual(t *testing.T) {
	for more, gives := range map[int]bool{0: true, -1: false} {
		var list []string
		for i := range 2 * (mostEqual + more) {
			list = append(list, strconv.Itoa(i))
		}
		u := distinct{int64(len(list)), namesOf(list), func(name []byte) uint64 {
			n, _ := strconv.Atoi(string(name))
			return uint64(n/2) << 50
		}, hashesHeld}
		earlier, later, name, err := u.find(t.Context())
		if gives != (err != nil) || err != nil && err.Error() != "cannot find equal names: 4096 hashes are each shared by several different names" || earlier != 0 || later != 0 || name != "" {
			t.Errorf("%d names: nodes %d and %d, %q, %v", len(list), earlier, later, name, err)
		}
	}
}

// TestIDsCancelled looks at the context before the first node.
func TestIDsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, r := range []Raw{{NodeIDs: []int64{1, 0}}, {Names: []string{"a", "b"}}} {
		r.Indptr, r.Features, r.DType, r.Dim = []int64{0, 0, 0}, make([]byte, 8), dtype.Float32, 1
		dir := filepath.Join(t.TempDir(), "D")
		if err := Create(vfs.OS, dir, r); err != nil {
			t.Fatal(err)
		}
		d, err := Open(vfs.OS, dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.verifyIDs(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: verified: %v", r, err)
		}
		if _, err := d.Nodes(ctx, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: looked up: %v", r, err)
		}
		if r.Names == nil {
			continue
		}
		if err := d.eachName(ctx, func(int64, []byte) error {
			t.Error("a name is seen")
			return nil
		}); !errors.Is(err, context.Canceled) {
			t.Errorf("seen: %v", err)
		}
	}
}
