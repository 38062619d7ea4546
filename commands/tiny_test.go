package commands

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"diskgnn/internal/stage"
)

// tiny makes one directory of each format, as small as they come.
var tiny = []string{
	"generate --out dataset --nodes 10 --avg-degree 2 --dim 3 --classes 2 --train-ratio 0.4",
	"presample --dataset dataset --out samples --batch-size 2 --fanout 2,2",
	"pack --dataset dataset --samples samples --out pack --cache 20% --bands 50 --max-disk unlimited",
	"pack --dataset dataset --samples samples --out pack-min --cache 20% --policy min",
}

// TestTinyDirectories compares one whole directory of each format with a dump of its bytes
// in testdata/tiny, which the descriptions of the formats can be read beside. Pages of
// zeros are one line. -golden.update writes the dumps anew.
func TestTinyDirectories(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the dumps are of amd64: elsewhere generated features may round otherwise")
	}
	golden, err := filepath.Abs("testdata/tiny")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, line := range tiny {
		args := strings.Fields(line)
		if out, err := exec.CommandContext(t.Context(), "diskgnn", append(args, "--quiet")...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		var dir string
		for i, a := range args {
			if a == "--out" {
				dir = args[i+1]
			}
		}
		got := dump(t, dir)
		name := filepath.Join(golden, dir+".txt")
		if *goldenUpdate {
			if err := os.WriteFile(name, got, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is another now:\n%s", dir, got)
		}
	}
}

// dump returns the files of a directory for people: text as it is, other bytes as hex.Dump
// has them, with an asterisk in the place of lines of zeros. What is said of the run that
// made the directory is left out.
func dump(t *testing.T, dir string) []byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, e := range entries {
		if e.Name() == stage.RunFile {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "== %s: %d bytes\n", e.Name(), len(content))
		if json.Valid(content) && utf8.Valid(content) {
			b.Write(content)
			continue
		}
		zeros := false
		for line := range strings.Lines(hex.Dump(content)) {
			if strings.HasSuffix(line, "|................|\n") && strings.Count(line, " 00") == 16 {
				if !zeros {
					b.WriteString("*\n")
				}
				zeros = true
				continue
			}
			zeros = false
			b.WriteString(line)
		}
	}
	return b.Bytes()
}
