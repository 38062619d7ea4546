package stage

import (
	"errors"
	"path/filepath"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// TestSettle gives the content parameters after the beginning.
func TestSettle(t *testing.T) {
	out := filepath.Join(t.TempDir(), "X")
	begin := func(p any) (*Dir, State, error) {
		spec := specOf(1)
		spec.Params = p
		return Begin(vfs.OS, out, spec, false)
	}
	// A run that ends before it knows them leaves files that the next one discards, even if that one does
	// not know them either.
	for _, p := range []any{nil, nil, params{1}} {
		d, state, err := begin(p)
		if err != nil || state != StateNew || d.Note() != "" {
			t.Fatalf("%v: state %v, note %q, %v", p, state, d.Note(), err)
		}
		if ok, err := vfs.Exists(vfs.OS, d.File("scratch")); err != nil || ok {
			t.Errorf("%v: the file that the run left is there: %t, %v", p, ok, err)
		}
		if err := errors.Join(vfs.WriteFile(vfs.OS, d.File("scratch"), nil), d.Close()); err != nil {
			t.Fatal(err)
		}
	}

	// One that settled them is gone on with by who gives the same, and by nobody else.
	out += "2"
	d, _, err := begin(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Settle(params{1}), d.SaveProgress("half"), d.Close()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []any{nil, params{2}} {
		if _, _, err := begin(p); !errors.Is(err, fault.ErrExists) {
			t.Errorf("%v: %v", p, err)
		}
	}
	d, state, err := begin(params{1})
	if err != nil || state != StateResumed {
		t.Fatalf("state %v, %v", state, err)
	}

	// The fingerprint is that of a run that knew them.
	fingerprint, err := d.Commit(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	out += "3"
	for _, settle := range []bool{false, true} {
		p := any(params{1})
		if settle {
			p = nil
		}
		d, _, err := begin(p)
		if err != nil {
			t.Fatal(err)
		}
		if settle {
			err = d.Settle(params{1})
		}
		got, cerr := d.Commit(nil, nil, nil)
		if err := errors.Join(err, cerr); err != nil || got != fingerprint {
			t.Errorf("settled %t: fingerprint %s, want %s, %v", settle, got, fingerprint, err)
		}
		out += "4"
	}
}
