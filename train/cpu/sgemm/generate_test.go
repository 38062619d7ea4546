package sgemm

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// The committed assembly is what the generator writes. The generator needs
// dependencies of its own, so this runs only when asked:
//
//	DISKGNN_GENERATE=1 go test -run Generated ./train/cpu/sgemm
func TestGenerated(t *testing.T) {
	if os.Getenv("DISKGNN_GENERATE") == "" {
		t.Skip("set DISKGNN_GENERATE=1 to regenerate and compare")
	}
	dir := t.TempDir()
	files := []string{"sgemm_amd64.s", "sgemm_amd64.go"}
	cmd := exec.Command("go", "run", "-C", "_gen", ".", "-out", filepath.Join(dir, files[0]), "-stubs", filepath.Join(dir, files[1]), "-pkg", "sgemm")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		// The first line quotes the command line, which names the folder.
		_, got, _ = bytes.Cut(got, []byte("\n"))
		_, want, _ = bytes.Cut(want, []byte("\n"))
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what _gen writes: run go generate", name)
		}
	}
}
