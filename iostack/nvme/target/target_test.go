package target

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/nvmetest"
	"diskgnn/iostack/nvme/soft"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Target{
		"soft:drive":         {Soft, []string{"drive"}},
		"nvme:soft:a,b/c,d":  {Soft, []string{"a", "b/c", "d"}},
		"soft:with:a:colon":  {Soft, []string{"with:a:colon"}},
		"nvme:soft:nvme:one": {Soft, []string{"nvme:one"}},

		"sysfs:0000:01:00.0":                   {Sysfs, []string{"0000:01:00.0"}},
		"nvme:sysfs:0000:01:00.0,0000:02:00.0": {Sysfs, []string{"0000:01:00.0", "0000:02:00.0"}},
		"libnvm:/dev/libnvm0,/dev/libnvm1":     {Libnvm, []string{"/dev/libnvm0", "/dev/libnvm1"}},
		"dmabuf:0000:01:00.0":                  {DMABuf, []string{"0000:01:00.0"}},
	} {
		got, err := Parse(text)
		if err != nil || !reflect.DeepEqual(got, want) || got.String() != strings.TrimPrefix(text, Prefix) {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "names no NVMe drive", "drive": "names no", "nvme:": "names no", "hard:x": "names no", "soft": "drive 0 is missing",
		"soft:": "drive 0 is missing", "soft:a,": "drive 1 is missing", "soft:,a": "drive 0 is missing", "soft:a,b,a": "a is named twice",
		"sysfs:": "want sysfs:ADDRESS", "disk:x": "want soft:FILE, sysfs:ADDRESS, libnvm:NODE, dmabuf:ADDRESS;",
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
	if _, err := (Target{Soft, []string{good, absent}}).Up(t.Context(), How{FS: open}, nvme.Options{}); !errors.Is(err, fs.ErrNotExist) || open.files != 0 {
		t.Errorf("%v, and %d files stay open", err, open.files)
	}
	c, err := (Target{Soft, []string{good}}).Up(t.Context(), How{FS: open}, nvme.Options{Queues: 2})
	if err != nil || len(c) != 1 || len(c[0].Queues()) != 2 || open.files != 1 {
		t.Fatalf("%v %v", c, err)
	}
	if err := c[0].Close(); err != nil || open.files != 0 {
		t.Errorf("%v, and %d files stay open", err, open.files)
	}
	if c, err = (Target{Soft, []string{good}}).Up(t.Context(), How{FS: open, ReadOnly: true}, nvme.Options{}); err != nil || open.files != 0 {
		t.Fatalf("%v, %d files are open for writing", err, open.files)
	}
	if err := c[0].Close(); err != nil {
		t.Error(err)
	}
}

// Those that read share a file; who writes has it alone, until the drive is closed.
func TestLocks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "drive")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	open := func(readOnly bool) ([]nvme.Transport, error) {
		return Target{Soft, []string{file}}.Open(How{FS: vfs.OS, ReadOnly: readOnly})
	}
	a, err := open(true)
	if err != nil {
		t.Fatal(err)
	}
	b, err := open(true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(false); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("written to beside readers: %v", err)
	}
	if err := errors.Join(a[0].Close(), b[0].Abandon()); err != nil {
		t.Error(err)
	}
	c, err := open(false)
	if err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		if _, err := open(readOnly); !errors.Is(err, fault.ErrLocked) {
			t.Errorf("beside a writer, only to read %v: %v", readOnly, err)
		}
	}
	if err := errors.Join(c[0].Close(), c[0].Close()); err != nil {
		t.Error(err)
	}
}

// A machine without a drive, a module or a node says what is missing, and takes nothing.
func TestAbsent(t *testing.T) {
	for text, want := range map[string]string{
		"sysfs:ffff:ff:1f.7":   "open sysfs:ffff:ff:1f.7: ffff:ff:1f.7 is not taken: there is no such PCI function",
		"sysfs:nvme0n1":        `"nvme0n1" is no PCI address, such as 0000:01:00.0`,
		"libnvm:/dev/libnvm99": "there is no /dev/libnvm99: BaM's module is not loaded",
		"libnvm:/dev/null":     "libnvm",
		"dmabuf:ffff:ff:1f.7":  "dmabuf",
	} {
		named, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = named.Open(How{FS: vfs.OS})
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, fault.ErrUsage) && !errors.Is(err, fault.ErrInput) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := (Target{Kind: "hard", Parts: []string{"x"}}).Open(How{}); !errors.Is(err, fault.ErrUsage) {
		t.Error(err)
	}
}

// Drives are opened as they are to be, and what is to be known of them is said once.
func TestHow(t *testing.T) {
	defer func(old []kind) { kinds = old }(kinds)
	var got []string
	kinds = []kind{{"odd", "NAME", func(h How, part string) (nvme.Transport, error) {
		got = append(got, fmt.Sprintf("%s %v %v", part, h.ReadOnly, h.Force))
		return cautious{}, nil
	}}}
	_, err := Target{"odd", []string{"a", "b"}}.Open(How{Force: true})
	if want := []string{"a false true", "b false true"}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q %v", got, err)
	}
	var up []*nvme.Controller
	for _, d := range []nvme.Transport{cautious{nvmetest.Drive(t, soft.Options{})}, nvmetest.Drive(t, soft.Options{}), cautious{nvmetest.Drive(t, soft.Options{})}} {
		c, err := nvme.Open(t.Context(), d, nvme.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		up = append(up, c)
	}
	if got := Cautions(up); !reflect.DeepEqual(got, []string{"beware"}) {
		t.Errorf("%q", got)
	}
}

type cautious struct{ nvme.Transport }

func (cautious) Caution() string { return "beware" }

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
