package commands

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestInstall installs the program under test as `make install` does, into a package's root, and
// removes it again.
func TestInstall(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("there is no make")
	}
	program, err := exec.LookPath("diskgnn")
	if err != nil {
		t.Fatal(err)
	}
	dest := filepath.Join(t.TempDir(), "a root")
	makes := func(target string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "make", "--no-print-directory", target, "BIN="+program, "DESTDIR="+dest, "PREFIX=/usr")
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
	}
	files := func() []string {
		t.Helper()
		var names []string
		err := filepath.WalkDir(dest, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				name, _ := filepath.Rel(dest, path)
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	makes("install")
	const bash, man = "usr/share/bash-completion/completions/diskgnn", "usr/share/man/man1/diskgnn.1"
	want := []string{"usr/bin/diskgnn", bash, "usr/share/fish/vendor_completions.d/diskgnn.fish", man, "usr/share/zsh/site-functions/_diskgnn"}
	if got := files(); !slices.Equal(got, want) {
		t.Errorf("installed %q, want %q", got, want)
	}
	for name, has := range map[string]string{bash: "complete ", man: ".TH ", want[2]: "complete -c diskgnn", want[4]: "#compdef diskgnn"} {
		if text, err := os.ReadFile(filepath.Join(dest, name)); err != nil || !strings.Contains(string(text), has) {
			t.Errorf("%s has no %q: %v", name, has, err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(dest, "usr/bin/diskgnn"), "version").CombinedOutput(); err != nil {
		t.Errorf("the program that was installed: %v\n%s", err, out)
	}
	makes("uninstall")
	if got := files(); len(got) > 0 {
		t.Errorf("%q is left", got)
	}
}
