package stage

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Spec describes a directory before it is made. Format, Params and Parents decide its bytes; the other
// fields do not.
type Spec struct {
	Format  Format            `json:"format"`
	Params  any               `json:"params"`
	Parents map[string]string `json:"parents,omitempty"`

	// Older is a version of the format, before Format's, in which an earlier program wrote a directory of
	// equal content; 0: there is none. A finished directory of that version is not made again.
	Older int `json:"-"`
	// By names the way to make the directory, if there are several, such as a stage and a merge. A run
	// cannot resume from the leftovers of another way.
	By string `json:"-"`
	// Beside names files that stay in the directory although meta.json does not list them. No
	// fingerprint covers them, so Check must check them.
	Beside []string `json:"-"`
	// Check checks the files of a directory of this specification. The caller has read its meta.json, and
	// has checked the sizes of the files. Damage is an error of kind fault.ErrCorrupt. Without a Check, a
	// finished directory is accepted if the sizes are right, and a complete directory that has not been
	// renamed is made again.
	Check func(dir string, m *Meta, look Look) error `json:"-"`
	// Words returns the flag and the value by which the user gave a content parameter, or a parent by
	// its role. Messages leave out a parameter with an empty flag. Nil stands for Plain.
	Words Words `json:"-"`
}

// Look is the extent of a Check.
type Look int

const (
	// Tables checks the small files alone: indexes and tables of checksums. They must agree with
	// meta.json about themselves and about the other files.
	Tables Look = iota
	// Bytes checks all bytes of all files against the checksums that were made when they were written.
	Bytes
)

// Words returns the user's name of a content parameter, a flag, and its value as on the command line.
type Words func(param string, value json.RawMessage) (name, text string)

// Plain is the Words of parameters with a flag of the same name: batch_size is --batch-size.
func Plain(param string, value json.RawMessage) (name, text string) {
	return "--" + strings.ReplaceAll(param, "_", "-"), plainText(value)
}

// plainText writes a value as a flag takes it.
func plainText(value json.RawMessage) string {
	var list []json.RawMessage
	var text string
	switch {
	case len(value) == 0 || string(value) == "null" || string(value) == "false":
		return "not given"
	case string(value) == "true":
		return "given"
	case json.Unmarshal(value, &text) == nil:
		return text
	case json.Unmarshal(value, &list) == nil:
		parts := make([]string, len(list))
		for i, v := range list {
			parts[i] = plainText(v)
		}
		if len(parts) == 0 {
			return "none"
		}
		return strings.Join(parts, ",")
	}
	return string(value)
}

// upgraded returns the specification of a finished directory, as it would be had this program made it.
func (s *Spec) upgraded(was Spec) Spec {
	if s.Older > 0 && was.Format == (Format{s.Format.Name, s.Older}) {
		was.Format = s.Format
	}
	return was
}

// changed describes, in the user's words, the differences from the specification of a previous run.
func (s *Spec) changed(was Spec) string {
	switch {
	case was.Format.Name != s.Format.Name:
		return fmt.Sprintf("it was to be a %s, now a %s", was.Format.kind(), s.Format.kind())
	case was.Format != s.Format:
		return fmt.Sprintf("it was of version %d, now %d", was.Format.Version, s.Format.Version)
	case was.By != s.By:
		return fmt.Sprintf("it was made by %s, now by %s", way(was.By), way(s.By))
	}
	if diff := s.Changes(was); diff != "" {
		return diff
	}
	return "others"
}

// Changes lists, in the user's words, the content parameters and parents that differ from the previous
// specification. It returns "" if none differs, or only parameters without a word.
func (s *Spec) Changes(was Spec) string {
	words := s.Words
	if words == nil {
		words = Plain
	}
	var diff []string
	err := eachDifference(was, *s, func(param string, a, b json.RawMessage) {
		name, before := words(param, a)
		_, after := words(param, b)
		if name != "" {
			diff = append(diff, fmt.Sprintf("%s was %s, now %s", name, before, after))
		}
	}, func(role, a, b string) {
		name, _ := words(role, nil)
		diff = append(diff, fmt.Sprintf("%s was another (%.12s, now %.12s)", name, a, b))
	})
	if err != nil {
		return "others"
	}
	slices.Sort(diff)
	return strings.Join(diff, "; ")
}

func way(by string) string {
	if by == "" {
		return "its own command"
	}
	return "diskgnn " + by
}

// Difference lists the content parameters and parents that differ in two specifications of one format.
// It returns "" if they are equal.
func Difference(a, b Spec) (string, error) {
	var diff []string
	err := eachDifference(a, b, func(param string, a, b json.RawMessage) {
		name, want := Plain(param, a)
		_, got := Plain(param, b)
		diff = append(diff, fmt.Sprintf("%s is %s, not %s", name, got, want))
	}, func(role, a, b string) {
		diff = append(diff, fmt.Sprintf("its %s is %.12s…, not %.12s…", role, b, a))
	})
	slices.Sort(diff)
	return strings.Join(diff, "; "), err
}

// eachDifference calls param and parent for the differences of two specifications.
func eachDifference(a, b Spec, param func(name string, a, b json.RawMessage), parent func(role, a, b string)) error {
	pa, err := paramsOf(a)
	if err != nil {
		return err
	}
	pb, err := paramsOf(b)
	if err != nil {
		return err
	}
	for k := range union(pa, pb) {
		if string(pa[k]) != string(pb[k]) {
			param(k, pa[k], pb[k])
		}
	}
	for role := range union(a.Parents, b.Parents) {
		if x, y := a.Parents[role], b.Parents[role]; x != y {
			parent(role, x, y)
		}
	}
	return nil
}

// union returns the keys of two maps, as a set.
func union[V any](a, b map[string]V) map[string]V {
	u := maps.Clone(a)
	if u == nil {
		u = map[string]V{}
	}
	maps.Copy(u, b)
	return u
}

// paramsOf returns the content parameters by name, each in canonical form.
func paramsOf(s Spec) (params map[string]json.RawMessage, err error) {
	b, err := canonical(s.Params)
	if err != nil {
		return nil, err
	}
	return params, json.Unmarshal(b, &params)
}
