package program

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// The hash is that of the file that runs.
func TestHash(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	if want := hex.EncodeToString(sum[:]); Hash() != want {
		t.Errorf("%s, want %s", Hash(), want)
	}
}

func TestHashOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, []byte("abc"), 0o666); err != nil {
		t.Fatal(err)
	}
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of FIPS 180
	missing := func() (string, error) { return "", errors.New("none") }
	named := func() (string, error) { return file, nil }
	for what, c := range map[string]struct{ got, want string }{
		"the file":     {hash(file, missing), abc},
		"by its name":  {hash(file+".none", named), abc},
		"neither":      {hash(file+".none", missing), ""},
		"no such file": {hash(file+".none", func() (string, error) { return file + ".nor", nil }), ""},
		"no file":      {hash(filepath.Dir(file), missing), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s", what, c.got)
		}
	}
	if Name("1 go1", abc) != "1 go1, SHA-256 "+abc || Name("1 go1", "") != "1 go1" || Version() == "" {
		t.Error("another name")
	}
}
