package stage

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Spec says what a directory will be: everything that decides its bytes.
type Spec struct {
	Format  Format            `json:"format"`
	Params  any               `json:"params"`
	Parents map[string]string `json:"parents,omitempty"`
	// By names the way to make the directory where there is more than one. It
	// decides no byte of what is finished: only what an interrupted run left is of
	// no use to another way, which begins anew.
	By string `json:"-"`
}

// difference names the parameters in which a finished directory differs.
func difference(m *Meta, spec Spec) string {
	if m.Format != spec.Format {
		return fmt.Sprintf("it is a %s", m.Format)
	}
	diff, err := differing(Spec{Format: m.Format, Params: m.Params, Parents: m.Parents}, spec, "asked for", "given")
	if err != nil {
		return "parameters differ"
	}
	return diff
}

// Difference names the content parameters and parents of two specifications of
// one format that are not the same: "" if all are.
func Difference(a, b Spec) (string, error) { return differing(b, a, "not", "not") }

// differing tells in what is differs from want.
func differing(is, want Spec, param, parent string) (string, error) {
	a, err := paramsOf(is)
	if err != nil {
		return "", err
	}
	b, err := paramsOf(want)
	if err != nil {
		return "", err
	}
	var diff []string
	for k := range union(a, b) {
		if string(a[k]) != string(b[k]) {
			diff = append(diff, fmt.Sprintf("%s is %s, %s %s", k, orNone(a[k]), param, orNone(b[k])))
		}
	}
	for role := range union(is.Parents, want.Parents) {
		if was, fp := is.Parents[role], want.Parents[role]; was != fp {
			diff = append(diff, fmt.Sprintf("its %s is %.12s…, %s %.12s…", role, was, parent, fp))
		}
	}
	slices.Sort(diff)
	return strings.Join(diff, "; "), nil
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

func orNone(v json.RawMessage) string {
	if v == nil {
		return "none"
	}
	return string(v)
}
