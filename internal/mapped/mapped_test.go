package mapped

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/fault"
)

func TestGuard(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, make([]byte, 3<<12), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Advise(Random)
	sum := 0
	read := func() error {
		for _, b := range f.Data() {
			sum += int(b)
		}
		return nil
	}
	if err := Guard(read, f); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 1<<12); err != nil {
		t.Fatal(err)
	}
	err = Guard(read, f)
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), name) {
		t.Errorf("reading a mapping whose file shrank: %v", err)
	}
	boom := errors.New("boom")
	if err := Guard(func() error { return boom }, f); !errors.Is(err, boom) {
		t.Errorf("an ordinary error: %v", err)
	}
	defer func() {
		if recover() == nil {
			t.Error("another panic was swallowed")
		}
	}()
	_ = Guard(func() error { panic("other") }, f)
}

func TestEmpty(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := Open(name)
	if err != nil || len(f.Data()) != 0 {
		t.Errorf("an empty file: %d bytes, %v", len(f.Data()), err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := Open(name + "absent"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an absent file: %v", err)
	}
}
