package stage

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// TestOlder: a finished directory of the version that a specification names is the one that is wanted. One of
// another version, or with other parameters, is not, and neither is one that was only begun.
func TestOlder(t *testing.T) {
	out := filepath.Join(t.TempDir(), "X")
	d, _, err := Begin(disk, out, specOf(1), false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Commit(nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	wanted := func(seed, older, version int) Spec {
		s := specOf(seed)
		s.Older, s.Format.Version = older, version
		return s
	}
	for name, c := range map[string]struct {
		spec Spec
		says string
	}{
		"the older version":  {wanted(1, 1, 3), ""},
		"no older version":   {wanted(1, 0, 3), "it was of version 1, now 3"},
		"another version":    {wanted(1, 2, 3), "it was of version 1, now 3"},
		"another parameter":  {wanted(2, 1, 3), "--seed was 1, now 2"},
		"the version itself": {wanted(1, 2, 1), ""},
	} {
		err := Agrees(disk, out, c.spec, false)
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v", name, err)
		}
		match, err := Matching(disk, out, []Spec{specOf(9), c.spec})
		if want := 1; err != nil || (match == want) != (c.says == "") {
			t.Errorf("%s: matches %d, %v", name, match, err)
		}
	}
	begun := filepath.Join(t.TempDir(), "X")
	interrupt(t, begun, 1, at(vfs.OpCreate, RunFile))
	if err := Agrees(disk, begun, wanted(1, 1, 3), false); !errors.Is(err, fault.ErrExists) {
		t.Errorf("begun by an older version: %v", err)
	}
}
