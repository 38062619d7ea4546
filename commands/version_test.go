package commands

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"testing"
)

// The hash that version prints, and that runs record, is that of the program's file.
func TestVersionHash(t *testing.T) {
	path, err := exec.LookPath("diskgnn")
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	want := hex.EncodeToString(sum[:])
	out, err := exec.Command("diskgnn", "version", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var v version
	if err := json.Unmarshal(out, &v); err != nil || v.SHA256 != want {
		t.Errorf("%s, %v, want %s", v.SHA256, err, want)
	}
}
