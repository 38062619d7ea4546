// Package shard divides a stage's work among machines. A shard is one part of a
// directory and is a directory itself; when all parts are in one place, merging
// makes the whole of them, with the bytes that one machine alone would have made.
//
//	NAME.shard-0-of-3 ─┐
//	NAME.shard-1-of-3 ─┼─ Merge ──► NAME
//	NAME.shard-2-of-3 ─┘
//
// A stage cuts its output into groups, at places that its content parameters decide; shard i of n
// makes a run of whole groups, which may be empty. Machines differ in speed and memory, so nothing
// that was measured may decide content.
//
// In meta.json a shard's format is the whole's, with "-shard" after the name. Its content parameters
// are the whole's and one more, "shard", as String spells it; its parents are the whole's.
package shard

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
)

// Shard is part Index, from 0, of Count. The zero value is the whole.
type Shard struct{ Index, Count int }

// maxCount is more than there are machines, and few enough that group numbers
// times it are within 64 bits.
const maxCount = 1 << 16

// Parse reads the format of String.
func Parse(text string) (Shard, error) {
	index, count, ok := strings.Cut(strings.TrimSpace(text), "/")
	i, err := strconv.Atoi(index)
	n, err2 := strconv.Atoi(count)
	if !ok || err != nil || err2 != nil || n == 0 {
		return Shard{}, fault.New(fault.ErrUsage, "%q is no shard: write 0/4 for the first of four", text)
	}
	s := Shard{i, n}
	return s, s.Validate()
}

// Validate refuses shards that there are not.
func (s Shard) Validate() error {
	switch {
	case s.Whole():
		return nil
	case s.Count < 1 || s.Count > maxCount:
		return fault.New(fault.ErrUsage, "shard %d/%d: there may be 1 to %d shards", s.Index, s.Count, maxCount)
	case s.Index < 0 || s.Index >= s.Count:
		return fault.New(fault.ErrUsage, "shard %d/%d: shards are counted from 0, here to %d", s.Index, s.Count, s.Count-1)
	}
	return nil
}

// Whole reports whether s is not a part but everything.
func (s Shard) Whole() bool { return s == Shard{} }

// String returns the shard as flags spell it, "2/5", and "" for the whole.
func (s Shard) String() string {
	if s.Whole() {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Count)
}

// DirName returns where a stage that is to make out writes the shard.
func (s Shard) DirName(out string) string {
	if s.Whole() {
		return out
	}
	return fmt.Sprintf("%s.shard-%d-of-%d", filepath.Clean(out), s.Index, s.Count)
}

// Of returns the range of the shard's groups, lo to hi-1, of the given number. All shards together
// have each group once, in order, and their sizes differ by at most one.
func (s Shard) Of(groups int) (lo, hi int) {
	if s.Whole() {
		return 0, groups
	}
	at := func(i int) int { return int(int64(groups) * int64(i) / int64(s.Count)) }
	return at(s.Index), at(s.Index + 1)
}

// paramKey is the content parameter that a shard has and the whole lacks.
const paramKey = "shard"

// Spec returns the specification of the shard of a directory.
func (s Shard) Spec(whole stage.Spec) (stage.Spec, error) {
	if s.Whole() {
		return whole, nil
	}
	raw, err := json.Marshal(whole.Params)
	if err != nil {
		return stage.Spec{}, err
	}
	params := map[string]json.RawMessage{}
	if err := json.Unmarshal(raw, &params); err != nil {
		return stage.Spec{}, fmt.Errorf("parameters of a shard: %w", err)
	}
	params[paramKey] = json.RawMessage(strconv.Quote(s.String()))
	part := whole
	part.Format, part.Params = whole.Format.Shard(), params
	return part, nil
}

// specOf returns the specification of the whole that a shard is part of, and
// which part it is.
func specOf(m *stage.Meta) (stage.Spec, Shard, error) {
	var s Shard
	format, ok := m.Format.Whole()
	if !ok {
		return stage.Spec{}, s, fault.New(fault.ErrInput, "is a whole directory (%s), no shard", m.Format)
	}
	params := map[string]json.RawMessage{}
	if err := m.DecodeParams(&params); err != nil {
		return stage.Spec{}, s, err
	}
	var text string
	err := json.Unmarshal(params[paramKey], &text)
	if err == nil {
		s, err = Parse(text)
	}
	if err != nil {
		return stage.Spec{}, s, fault.New(fault.ErrCorrupt, "%s does not say which shard it is (%v)", stage.MetaFile, err)
	}
	delete(params, paramKey)
	return stage.Spec{Format: format, Params: params, Parents: m.Parents}, s, nil
}
