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
		`soft:/x/a\,b/drv,/x/c`:                {Soft, []string{"/x/a,b/drv", "/x/c"}},
		`soft:x/q\`:                            {Soft, []string{`x/q\`}},
		`soft:\,`:                              {Soft, []string{","}},
		`soft:a\,\,b,c\d`:                      {Soft, []string{"a,,b", `c\d`}},
		"soft:/x/a,./b/drv":                    {Soft, []string{"/x/a", "./b/drv"}},
		"soft:a,/x/b":                          {Soft, []string{"a", "/x/b"}},
	} {
		got, err := Parse(text)
		if err != nil || !reflect.DeepEqual(got, want) || got.String() != strings.TrimPrefix(text, Prefix) {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"": "names no NVMe drive", "drive": "names no", "nvme:": "names no", "hard:x": "names no", "soft": "drive 0 is missing",
		"soft:": "drive 0 is missing", "soft:a,": "drive 1 is missing", "soft:,a": "drive 0 is missing", "soft:a,b,a": "a is named twice",
		"soft:/x/a,b/drv": `/x/a and b/drv are the names of two drives: write \, for a comma in a name, ./b/drv for a file of the working directory`,
		"soft:/x/a,b":     `write \,`,
		"sysfs:":          "give sysfs:ADDRESS", "disk:x": "give soft:FILE, sysfs:ADDRESS, libnvm:NODE, dmabuf:ADDRESS;",
	} {
		if _, err := Parse(text); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Names that are one with a comma in it, by what is there, are not taken for two.
func TestParseWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"a,b/c", "d,e"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, nil, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	for text, ok := range map[string]bool{
		"soft:a,b/c": false, "soft:a,b/absent": false, "soft:d,e": false, "soft:x,d,e": false,
		"soft:" + dir + "/a,b/drive": false, "soft:" + dir + "/d," + dir + "/e": true,
		"soft:d,f": true, "soft:a,e/c": true, `soft:a\,b/c`: true, `soft:d\,e,f`: true,
		// The comma that is there is in the first name's directory alone.
		`soft:a\,b/x,y`: true, `soft:a\,b/x,a\,b/y`: true,
	} {
		if got, err := Parse(text); (err == nil) != ok || !ok && !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%s: %v %v", text, got, err)
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

// gone is a transport to a drive whose registers read as ones, if so.
type gone struct {
	nvme.Transport
	is     bool
	closed *int
}

func (g gone) Load64(offset int) uint64 {
	if g.is {
		return ^uint64(0)
	}
	return g.Transport.Load64(offset)
}

func (g gone) Close() error { *g.closed++; return g.Transport.Close() }

// All drives are given back when one of them does not come up.
func TestUpFails(t *testing.T) {
	defer func(old []kind) { kinds = old }(kinds)
	closed := map[string]*int{"a": new(int), "b": new(int), "c": new(int)}
	kinds = []kind{{"odd", "NAME", func(_ How, part string) (nvme.Transport, error) {
		return gone{nvmetest.Drive(t, soft.Options{}), part == "b", closed[part]}, nil
	}}}
	if _, err := (Target{"odd", []string{"a", "b", "c"}}).Up(t.Context(), How{}, nvme.Options{}); !errors.Is(err, nvme.ErrFatal) {
		t.Error(err)
	}
	for part, n := range closed {
		if *n != 1 {
			t.Errorf("%s was closed %d times", part, *n)
		}
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
