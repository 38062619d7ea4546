package dataset

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"

	"diskgnn/internal/fault"
)

// No two nodes may have equal names. Names with equal hashes are read again and compared. If not all
// hashes fit in memory, the names are read once for each part of the hashes.

const (
	hashesHeld  = 1 << 25 // 256 MiB
	hashShelves = 64      // which are sorted one after the other
	mostEqual   = 1 << 12 // hashes that several names have: more than these are not looked for
)

// distinct looks for two equal names among n. each passes the names of all nodes in order to see,
// valid during the call, and may be called several times.
type distinct struct {
	n    int64
	each func(ctx context.Context, see func(v int64, name []byte) error) error
	hash func(name []byte) uint64
	held int64 // hashes
}

// verifyNames checks the form of all names, and that no two are equal.
func (d *Dataset) verifyNames(ctx context.Context) error {
	seed := maphash.MakeSeed()
	u := distinct{d.facts.Nodes, d.eachName, func(name []byte) uint64 { return maphash.Bytes(seed, name) }, hashesHeld}
	v, w, name, err := u.find(ctx)
	if err == nil && w > 0 {
		err = fault.New(fault.ErrCorrupt, "%s: nodes %d and %d are both called %.40q", d.path(NamesFile), v, w, name)
	}
	return err
}

func (d *Dataset) eachName(ctx context.Context, see func(v int64, name []byte) error) (err error) {
	s, err := d.IDs()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	for v := range d.facts.Nodes {
		if v%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.To(v); err != nil {
			return err
		}
		if err := see(v, s.name); err != nil {
			return err
		}
	}
	return nil
}

// find returns two nodes of equal names, and the name; 0 and 0 if there are none.
func (u *distinct) find(ctx context.Context) (earlier, later int64, name string, err error) {
	parts := uint64(max(1, (u.n+u.held-1)/u.held))
	for part := range parts {
		equal, err := u.equal(ctx, part, parts)
		if err != nil {
			return 0, 0, "", err
		}
		if len(equal) == 0 {
			continue
		}
		if earlier, later, name, err = u.compare(ctx, equal); err != nil || later > 0 {
			return earlier, later, name, err
		}
		if len(equal) == mostEqual {
			return 0, 0, "", fmt.Errorf("cannot find equal names: %d hashes are each shared by several different names", mostEqual)
		}
	}
	return 0, 0, "", nil
}

// equal returns the hashes of a part that several names have, mostEqual of them at most.
func (u *distinct) equal(ctx context.Context, part, parts uint64) (map[uint64]bool, error) {
	equal := map[uint64]bool{}
	// settle leaves each hash of a shelf once.
	settle := func(shelf []uint64) []uint64 {
		slices.Sort(shelf)
		for i := 1; i < len(shelf) && len(equal) < mostEqual; i++ {
			if shelf[i] == shelf[i-1] {
				equal[shelf[i]] = true
			}
		}
		return slices.Compact(shelf)
	}
	var shelves [hashShelves][]uint64
	room := min(u.n, u.held) / hashShelves
	for i := range shelves {
		shelves[i] = make([]uint64, 0, room+room/8+64) // few have more by chance
	}
	err := u.each(ctx, func(_ int64, name []byte) error {
		h := u.hash(name)
		of, rest := bits.Mul64(h, parts)
		if of != part {
			return nil
		}
		at, _ := bits.Mul64(rest, hashShelves)
		if len(shelves[at]) == cap(shelves[at]) { // of many equal names one hash is left
			shelves[at] = settle(shelves[at])
		}
		shelves[at] = append(shelves[at], h)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range shelves {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		settle(shelves[i])
	}
	return equal, nil
}

// compare finds equal names among those that have one of the hashes.
func (u *distinct) compare(ctx context.Context, hashes map[uint64]bool) (earlier, later int64, name string, err error) {
	found := errors.New("found")
	seen := make(map[string]int64)
	err = u.each(ctx, func(v int64, text []byte) error {
		if !hashes[u.hash(text)] {
			return nil
		}
		if w, ok := seen[string(text)]; ok {
			earlier, later, name = w, v, string(text)
			return found
		}
		seen[string(text)] = v
		return nil
	})
	if errors.Is(err, found) {
		err = nil
	}
	return earlier, later, name, err
}
