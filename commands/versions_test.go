package commands

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/stage/stagetest"
	"diskgnn/simulate/directgraph"
	"diskgnn/train/rundir"
)

var (
	// A row of docs/format/README.md: a format, the versions that are read, and the sentence that
	// refuses others.
	refusal = regexp.MustCompile("(?m)^\\| ([A-Za-z ]+) \\| ([0-9, ]+) \\| `([^`]+)` \\|$")
	// Where N stands for a version in such a sentence.
	refusedVersion = regexp.MustCompile(`N([,;'"])`)
)

func formatsPage(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "docs", "format", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestRefusals forges the versions before and after those that are read, of every format, and
// compares what is printed with the documented sentence.
func TestRefusals(t *testing.T) {
	t.Parallel()
	rows := refusal.FindAllStringSubmatch(formatsPage(t), -1)
	if len(rows) != len(forgeries) {
		t.Errorf("docs/format/README.md has %d formats with versions, %d are forged", len(rows), len(forgeries))
	}
	for _, row := range rows {
		forge, ok := forgeries[row[1]]
		if !ok {
			t.Errorf("%s is not forged", row[1])
			continue
		}
		read := strings.Split(row[2], ", ")
		first, err := strconv.Atoi(read[0])
		if err != nil {
			t.Fatal(err)
		}
		sentence := strings.ReplaceAll(row[3], "READ", strings.Join(read, " and "))
		for _, version := range []int{first - 1, first + len(read)} {
			t.Run(fmt.Sprint(row[1], " ", version), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "testdata", "old", "185f982"))); err != nil {
					t.Fatal(err)
				}
				want := refusedVersion.ReplaceAllString(sentence, fmt.Sprint(version, "$1"))
				if said := forge(t, dir, version); !strings.Contains(said, want) {
					t.Errorf("want %s, got\n%s", want, said)
				}
			})
		}
	}
}

// forgeries give a part of an old program's directories another version, and return what is said
// when it is read.
var forgeries = map[string]func(t *testing.T, dir string, version int) string{
	"DATASET": forgeMeta("graph"),
	"SAMPLES": forgeMeta("samples"),
	"PACK":    forgeMeta("static"),
	"shards of SAMPLES": func(t *testing.T, dir string, version int) string {
		return forgeShards(t, dir, version, "whole", "presample", "--dataset", "graph", "--fanout", "2,3", "--batch-size", "32")
	},
	"shards of a PACK": func(t *testing.T, dir string, version int) string {
		return forgeShards(t, dir, version, "whole", "pack", "--dataset", "graph", "--samples", "samples")
	},
	"shards of a prediction": func(t *testing.T, dir string, version int) string {
		return forgeShards(t, dir, version, "whole.npy", "predict", "--run", "run", "--dataset", "graph")
	},
	"RUN": func(t *testing.T, dir string, version int) string {
		rewrite(t, filepath.Join(dir, "run", stage.RunFile), func(b []byte) []byte {
			var run map[string]any
			if err := json.Unmarshal(b, &run); err != nil {
				t.Fatal(err)
			}
			delete(run, "checksum")
			run["format"].(map[string]any)["version"] = version
			b, err := rundir.Encode(run)
			if err != nil {
				t.Fatal(err)
			}
			return b
		})
		return otherVersion(t, dir, "report", "run")
	},
	"checkpoint": func(t *testing.T, dir string, version int) string {
		names, err := filepath.Glob(filepath.Join(dir, "interrupted", "checkpoints", "*.ckpt"))
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		for _, name := range names {
			rewrite(t, name, func(b []byte) []byte {
				b[7] = byte('0' + version)
				end := 12 + binary.LittleEndian.Uint32(b[8:])
				binary.LittleEndian.PutUint32(b[end:], binio.CRC(b[:end]))
				return b
			})
		}
		return otherVersion(t, dir, "train", "--resume", "--pack", "static", "--out", "interrupted", "--blas", "gonum", "--threads", "1", "--io", "pread")
	},
	"label of a volume":      forgeVolume("DGNNVOL"),
	"superblock of a volume": forgeVolume("DGNNVSB"),
	"table of a volume":      forgeVolume("DGNNVTB"),
	"trace": func(t *testing.T, dir string, version int) string {
		header := fmt.Sprintf(`{"format":"diskgnn.trace","version":%d}`+"\n", version)
		if err := os.WriteFile(filepath.Join(dir, "trace"), []byte(header), 0o666); err != nil {
			t.Fatal(err)
		}
		return otherVersion(t, dir, "simulate", "drives", "--trace", "trace", "--compute", "0.001")
	},
	"DirectGraph": func(t *testing.T, _ string, version int) string { // no command reads one
		b := binary.LittleEndian.AppendUint32(fmt.Append(nil, "DGNNDG0", version), 64)
		b = append(b, make([]byte, 60-len(b))...)
		_, err := directgraph.Decode(binary.LittleEndian.AppendUint32(b, binio.CRC(b)))
		if !errors.Is(err, fault.ErrVersion) {
			t.Fatal(err)
		}
		return err.Error()
	},
}

// otherVersion runs a command that ends with the exit code of other versions, and returns what it prints.
func otherVersion(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := oldCommand(t, dir, args...)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitInput {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

func rewrite(t *testing.T, name string, change func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, change(b), 0o666); err != nil {
		t.Fatal(err)
	}
}

func setMetaVersion(t *testing.T, dir string, version int) {
	t.Helper()
	name := filepath.Join(dir, stage.MetaFile)
	var m stage.Meta
	b, err := os.ReadFile(name)
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.Format.Version = version
	stagetest.WriteMeta(t, name, &m)
}

func forgeMeta(name string) func(t *testing.T, dir string, version int) string {
	return func(t *testing.T, dir string, version int) string {
		setMetaVersion(t, filepath.Join(dir, name), version)
		return otherVersion(t, dir, "verify", name)
	}
}

// forgeShards makes two shards by a command, and merges them.
func forgeShards(t *testing.T, dir string, version int, whole string, command ...string) string {
	merge := []string{"merge", "--out", whole}
	for i := range 2 {
		name := fmt.Sprintf("%s.shard-%d-of-2", whole, i)
		if out, err := oldCommand(t, dir, append(command, "--out", whole, "--shard", fmt.Sprint(i, "/2"), "--quiet")...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		setMetaVersion(t, filepath.Join(dir, name), version)
		merge = append(merge, name)
	}
	return otherVersion(t, dir, merge...)
}

// forgeVolume changes the version in all that begins with a magic, on a drive, and the checksums of it.
func forgeVolume(magic string) func(t *testing.T, dir string, version int) string {
	return func(t *testing.T, dir string, version int) string {
		rewrite(t, filepath.Join(dir, "drive"), func(b []byte) []byte {
			b = bytes.ReplaceAll(b, []byte(magic+"1"), fmt.Append(nil, magic, version))
			table := b[bytes.Index(b, []byte("DGNNVTB")):]
			for _, at := range []int{64 << 10, 128 << 10} {
				super := b[at : at+512]
				binary.LittleEndian.PutUint32(super[48:], binio.CRC(table[:binary.LittleEndian.Uint64(super[40:])]))
				binary.LittleEndian.PutUint32(super[508:], binio.CRC(super[:508]))
			}
			return b
		})
		return otherVersion(t, dir, "verify", "nvme:soft:drive")
	}
}

// TestRefusalsAreDocumented finds every sentence of the program that is about versions in
// docs/format/README.md.
func TestRefusalsAreDocumented(t *testing.T) {
	t.Parallel()
	page := formatsPage(t)
	sentence := regexp.MustCompile(`(?:fault\.ErrVersion, |\.Decoder\(.*, )"((?:[^"\\]|\\.)*)"`)
	verb := regexp.MustCompile(`%[.0-9]*[a-z]`)
	found := 0
	root := filepath.Join("..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range sentence.FindAllSubmatch(b, -1) {
			found++
			text := string(m[1])
			table := strings.NewReplacer("%d", "N", "%s", "READ").Replace(text)
			if !strings.Contains(page, table) && !strings.Contains(page, "`"+verb.ReplaceAllString(text, "…")+"`") {
				t.Errorf("%s: docs/format/README.md has no %q", path, text)
			}
		}
		return nil
	})
	if err != nil || found < 10 {
		t.Errorf("%d sentences found, %v", found, err)
	}
}
