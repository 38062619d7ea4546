package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/fault"
)

func TestDestination(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.MkdirAll("big/target", 0o777); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{
		"relative": "big/target", "absolute": filepath.Join(dir, "big/target"), "twice": "relative",
		"dangling": "big/absent", "dangling2": "/absent/x", "big/inner": "absent", "through": "dangling", "loop": "loop",
	} {
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"relative": "big/target", "relative/": "big/target", "twice": "big/target", "absolute": filepath.Join(dir, "big/target"),
		// Names that are no links stay as they are, there or not.
		"big/target": "big/target", "./big": "./big", "absent": "absent", "absent/a": "absent/a", "": "",
		"relative/x": "relative/x",
	} {
		if got, err := Destination(name); err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"dangling": "a symbolic link to big/absent, which is not there", "dangling/": "big/absent", "dangling2": "link to /absent/x,",
		"big/inner": "link to big/absent,", "through": "link to dangling,", "loop": "too many links",
	} {
		if got, err := Destination(name); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), want) || got != "" {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
}

func TestCheckRenameable(t *testing.T) {
	for _, name := range []string{t.TempDir(), "/absent/x", "destination_test.go"} {
		if err := CheckRenameable(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat("/proc/self"); err != nil || !mounted("/proc") {
		t.Skip("the kernel does not say what is a mount point")
	}
	if err := CheckRenameable("/proc"); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("/proc: %v", err)
	}
}
