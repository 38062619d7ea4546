// Package shard divides a stage's work among machines. A shard is one part of a directory, and is a
// directory itself. Merge combines all shards into the whole directory, with the same bytes that a
// single machine would have made.
//
//	NAME.shard-0-of-3 ─┐
//	NAME.shard-1-of-3 ─┼─ Merge ──► NAME
//	NAME.shard-2-of-3 ─┘
//
// A stage divides its output into groups; the content parameters decide their bounds. Shard i of n makes
// a range of whole groups, which may be empty. Machines differ in speed and memory, so measurements must
// not decide content.
//
// In meta.json, a shard has the format of the whole with the suffix "-shard", the same parents, and the
// same content parameters with one more, "shard", in the form of String.
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

// maxCount is larger than any number of machines, and so small that its product with the number of a
// group fits in 64 bits.
const maxCount = 1 << 16

// Parse reads a shard in the form of String. An error is of kind fault.ErrUsage.
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

// Validate returns an error of kind fault.ErrUsage unless s is the whole or a possible shard.
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

// Whole reports whether s is the whole directory, not a part of it.
func (s Shard) Whole() bool { return s == Shard{} }

// String returns the shard in the form of flags, "2/5", and "" for the whole.
func (s Shard) String() string {
	if s.Whole() {
		return ""
	}
	return fmt.Sprintf("%d/%d", s.Index, s.Count)
}

// DirName returns the directory of this shard of the directory out.
func (s Shard) DirName(out string) string {
	if s.Whole() {
		return out
	}
	return fmt.Sprintf("%s.shard-%d-of-%d", filepath.Clean(out), s.Index, s.Count)
}

// Of returns the shard's range of groups, lo to hi-1, of the given number of groups. Every group belongs
// to exactly one shard, in order; the sizes of the shards differ by at most one group.
func (s Shard) Of(groups int) (lo, hi int) {
	if s.Whole() {
		return 0, groups
	}
	at := func(i int) int { return int(int64(groups) * int64(i) / int64(s.Count)) }
	return at(s.Index), at(s.Index + 1)
}

// paramKey is the content parameter that a shard has and the whole lacks.
const paramKey = "shard"

// Spec returns the specification of this shard of a directory with the specification whole.
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

// specOf returns the specification of the whole directory of a shard, and the shard's place in it.
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
