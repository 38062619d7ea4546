package target

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/nvme"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Target{
		"soft:drive":         {Soft, []string{"drive"}},
		"nvme:soft:a,b/c,d":  {Soft, []string{"a", "b/c", "d"}},
		"soft:with:a:colon":  {Soft, []string{"with:a:colon"}},
		"nvme:soft:nvme:one": {Soft, []string{"nvme:one"}},
	} {
		got, err := Parse(text)
		if err != nil || !reflect.DeepEqual(got, want) || got.String() != strings.TrimPrefix(text, Prefix) {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "names no NVMe drive", "drive": "names no", "nvme:": "names no", "hard:x": "names no", "soft": "drive 0 is missing",
		"soft:": "drive 0 is missing", "soft:a,": "drive 1 is missing", "soft:,a": "drive 0 is missing", "soft:a,b,a": "a is named twice",
	} {
		if _, err := Parse(text); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Drives that were reached are given back when a later one cannot be.
func TestUp(t *testing.T) {
	dir := t.TempDir()
	good, absent := filepath.Join(dir, "good"), filepath.Join(dir, "absent")
	if err := os.WriteFile(good, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	open := &counting{FS: vfs.OS}
	if _, err := (Target{Soft, []string{good, absent}}).Up(t.Context(), open, false, nvme.Options{}); !errors.Is(err, fs.ErrNotExist) || open.files != 0 {
		t.Errorf("%v, and %d files stay open", err, open.files)
	}
	c, err := (Target{Soft, []string{good}}).Up(t.Context(), open, false, nvme.Options{Queues: 2})
	if err != nil || len(c) != 1 || len(c[0].Queues()) != 2 || open.files != 1 {
		t.Fatalf("%v %v", c, err)
	}
	if err := c[0].Close(); err != nil || open.files != 0 {
		t.Errorf("%v, and %d files stay open", err, open.files)
	}
	if c, err = (Target{Soft, []string{good}}).Up(t.Context(), open, true, nvme.Options{}); err != nil || open.files != 0 {
		t.Fatalf("%v, %d files are open for writing", err, open.files)
	}
	if err := c[0].Close(); err != nil {
		t.Error(err)
	}
}

// counting counts the files that are open for writing.
type counting struct {
	vfs.FS
	files int
}

type counted struct {
	vfs.File
	of *counting
}

func (c *counting) OpenReadWrite(name string) (vfs.File, error) {
	f, err := c.FS.OpenReadWrite(name)
	if err == nil {
		c.files++
	}
	return &counted{f, c}, err
}

func (c *counted) Close() error { c.of.files--; return c.File.Close() }
