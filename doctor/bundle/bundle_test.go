package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// secret is planted wherever data and names are.
const secret = "Zebrafink"

// tree makes files below a new directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// write writes a bundle, and returns it unpacked: the entries' names in order, and their texts.
func write(t *testing.T, o Options) (b *Bundle, names []string, texts map[string]string) {
	t.Helper()
	if o.Root == "" {
		o.Root = t.TempDir()
	}
	b, err := Write(t.Context(), vfs.OS, o)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := os.ReadFile(o.Out)
	if err != nil || int64(len(packed)) != b.Bytes {
		t.Fatalf("%d bytes of %d: %v", len(packed), b.Bytes, err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	texts = make(map[string]string)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.ModTime.Unix() != 0 || h.Uname != "" || h.Uid != 0 {
			t.Errorf("%s: %+v", h.Name, h)
		}
		names, texts[h.Name] = append(names, h.Name), string(text)
	}
	if diff := cmp.Diff(b.Entries, names); diff != "" {
		t.Error(diff)
	}
	return b, names, texts
}

// directories are a dataset, and a run that was interrupted.
func directories(t *testing.T) string {
	return tree(t, map[string]string{
		secret + "/graph/meta.json": `{"format":{"name":"diskgnn.dataset","version":2},"params":{"source":"/data/` + secret + `.csv","seed":18446744073709551615,"` + secret + `":1},
			"facts":{"nodes":400,"dtype":"float32","names":["` + secret + `"],"class_names":["` + secret + `","b"],"metric":"` + secret + `\u0000"},
			"files":[{"name":"features.bin","size":1600,"checksum":"crc32c:0123abcd"},{"name":"` + secret + ` x","size":1,"checksum":"` + secret + `"}],
			"fingerprint":"` + strings.Repeat("ab", 32) + `"}`,
		secret + "/graph/run.json":                `{"host":"` + secret + `","seconds":1.5}`,
		secret + "/graph/features.bin":            secret,
		secret + "/graph/labels.bin":              secret,
		secret + "/graph/the " + secret + " file": secret,
		secret + "/run/run.json": `{"state":"failed","error":"/home/` + secret + `/run/metrics.jsonl: \"` + secret + `\" is no class; see work/` + secret + `/p","program":"v1 go1.26",
			"host":{"name":"` + secret + `","cpu":"EPYC","system":"linux 6.1 amd64"},"command":["/home/` + secret + `/diskgnn","train","--pack","` + secret + `","--lr=0.5","--epochs","20","--cache","5%","-q"],
			"class_names":["` + secret + `"],"pack_path":"/home/` + secret + `","ids":[` + strings.Repeat("1,", 200) + `2],"pack_facts":{"levels":[{"name":"hot","rows":7}]}}`,
		secret + "/run/metrics.jsonl":                      "{\"epoch\":0,\"loss\":1.25,\"note\":\"" + secret + "\"}\n{\"epoch\":1,\"stages\":[{\"stage\":\"compute\"}]}\n{\"epoch\":2,\"" + secret,
		secret + "/run/weights.safetensors":                secret,
		secret + "/run/checkpoints/step-000000000001.ckpt": secret,
		secret + "/run/checkpoints/deep/er/x/y.z":          secret,
		secret + "/made.partial/journal.json":              `{"params":{"seed":3},"progress":"` + secret + `"}`,
		secret + "/made.partial/lock":                      "",
	})
}

// The entries and their texts, by hand; nothing that was planted is among them; equal directories give
// equal bytes.
func TestBundle(t *testing.T) {
	root := directories(t)
	kernel := tree(t, map[string]string{"proc/meminfo": "MemTotal: 1 kB\n", "sys/fs/cgroup/memory.max": "max\n", "sys/block/nvme0n1/queue/scheduler": "[none]\n", "sys/block/nvme0n1/device/serial": secret, "proc/self/environ": secret})
	in := func(name string) string { return filepath.Join(root, secret, name) }
	o := Options{Out: filepath.Join(t.TempDir(), "b.tar.gz"), Root: kernel, Directories: []string{in("graph"), in("run") + "/", in("made")},
		Facts: []Fact{{"version.json", map[string]string{"platform": "linux/amd64"}}, {"doctor.json", map[string]string{"found": "files in " + in("x") + " are read, see /proc/self/limits"}}}}
	b, names, texts := write(t, o)
	if diff := cmp.Diff([]string{"contents.txt", "version.json", "doctor.json", "machine.json", "1/listing.txt", "1/meta.json", "1/run.json",
		"2/listing.txt", "2/run.json", "2/metrics.jsonl", "3.partial/listing.txt", "3.partial/journal.json"}, names); diff != "" {
		t.Error(diff)
	}
	for name, text := range texts {
		if strings.Contains(name+text, secret) {
			t.Errorf("%s has what was planted:\n%s", name, text)
		}
	}
	flat := func(name string) string {
		var v any
		if err := json.Unmarshal([]byte(texts[name]), &v); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s, _ := json.Marshal(v)
		return string(s)
	}
	for name, want := range map[string]string{
		"version.json": `{"platform":"linux/amd64"}`,
		"doctor.json":  `{"found":"files in …/x are read, see /proc/self/limits"}`,
		"1/run.json":   `{"host":"[text of 9 bytes]","seconds":1.5}`,
		"2/run.json": `{"class_names":["[text of 9 bytes]"],"command":["diskgnn","train","--pack","…","--lr=…","--epochs","20","--cache","5%","-q"],` +
			`"error":"…/metrics.jsonl: … is no class; see …/p","host":{"cpu":"EPYC","name":"[text of 9 bytes]","system":"linux 6.1 amd64"},"ids":[` + strings.Repeat("1,", 100) + `"[101 more]"],` +
			`"pack_facts":{"levels":[{"name":"hot","rows":7}]},"pack_path":"[text of 15 bytes]","program":"v1 go1.26","state":"failed"}`,
		"3.partial/journal.json": `{"params":{"seed":3},"progress":"[text of 9 bytes]"}`,
	} {
		if diff := cmp.Diff(want, flat(name)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for name, want := range map[string]string{
		"1/listing.txt":         "graph\nfeatures.bin 9\nlabels.bin 9\nmeta.json 477\nrun.json 34\n[name] 9\n",
		"2/metrics.jsonl":       "{\"epoch\":0,\"loss\":1.25,\"note\":\"[text of 9 bytes]\"}\n{\"epoch\":1,\"stages\":[{\"stage\":\"compute\"}]}\n\"no JSON\"\n",
		"3.partial/listing.txt": "made.partial\njournal.json 44\nlock 0\n",
	} {
		if diff := cmp.Diff(want, texts[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if !strings.Contains(texts["1/meta.json"], `"seed": 18446744073709551615`) || !strings.Contains(texts["1/meta.json"], `"name": "features.bin"`) || !strings.Contains(texts["1/meta.json"], `"[key]": null`) {
		t.Errorf("meta.json is\n%s", texts["1/meta.json"])
	}
	if m := texts["machine.json"]; !strings.Contains(m, `"MemTotal: 1 kB"`) || !strings.Contains(m, `"queue/scheduler": "[none]"`) || len(b.Notes) != 0 {
		t.Errorf("notes %q; machine.json is\n%s", b.Notes, m)
	}

	first, err := os.ReadFile(o.Out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Write(t.Context(), vfs.OS, o); !errors.Is(err, fault.ErrExists) {
		t.Errorf("over a file: %v", err)
	}
	o.Force = true
	if write(t, o); true {
		if again, err := os.ReadFile(o.Out); err != nil || !bytes.Equal(first, again) {
			t.Errorf("other bytes; %v", err)
		}
	}
}

// Damaged and large directories: whatever cannot be in the bundle is a note in it.
func TestDamaged(t *testing.T) {
	root := tree(t, map[string]string{
		"d/meta.json":       `{"format":{"name":"` + secret,
		"d/run.json/inside": secret,
		"d/metrics.jsonl":   strings.Repeat(`{"epoch":1}`+"\n", mostTail/12+1000),
		"d/journal.json":    `{"a":"` + strings.Repeat("x", 100) + `"} {}`,
	})
	large := `{"n":1.` + strings.Repeat("0", mostEntry+1) + "}"
	for i := range 9 {
		dir := filepath.Join(root, fmt.Sprint("large", i))
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "meta.json"), []byte(large), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for i := range mostFiles + 5 {
		if err := os.WriteFile(filepath.Join(root, "large0", fmt.Sprintf("f%04d", i)), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Out: filepath.Join(root, "new", "b.tar.gz"), Directories: []string{filepath.Join(root, "d")}}
	for i := range 9 {
		o.Directories = append(o.Directories, filepath.Join(root, fmt.Sprint("large", i)))
	}
	b, _, texts := write(t, o)
	notes := strings.Join(b.Notes, "\n")
	for _, want := range []string{"1/meta.json: left out, its 28 B are no JSON", "1/run.json: ", "1/journal.json: left out, its 111 B are no JSON",
		"1/metrics.jsonl: the last 256.0 KiB of ", "2/meta.json: cut to 1.0 MiB", "/meta.json: left out, the bundle is full"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note %q in\n%s", want, notes)
		}
		if !strings.Contains(texts[contents], want) {
			t.Errorf("no note %q in the contents", want)
		}
	}
	total := 0
	for name, text := range texts {
		if total += len(text); strings.Contains(text, secret) {
			t.Errorf("%s has what was planted", name)
		}
	}
	if total > mostBytes+64<<10 {
		t.Errorf("%d bytes", total)
	}
	if list := texts["2/listing.txt"]; !strings.HasSuffix(list, "more than 2000 files\n") || strings.Count(list, "\n") != mostFiles+2 {
		t.Errorf("%d lines end with %q", strings.Count(list, "\n"), list[len(list)-40:])
	}
	if _, err := os.Stat(o.Out); err != nil {
		t.Error(err)
	}
}

// Without its directory, or without a disk that takes it, there is no bundle.
func TestRefused(t *testing.T) {
	root := tree(t, map[string]string{"file": ""})
	for dir, want := range map[string]string{"nowhere": "there is no directory ", "file": "file is no directory"} {
		o := Options{Out: filepath.Join(root, "b.tar.gz"), Directories: []string{filepath.Join(root, dir)}}
		if _, err := Write(t.Context(), vfs.OS, o); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", dir, err)
		}
		if _, err := os.Stat(o.Out); err == nil {
			t.Errorf("%s: there is a bundle", dir)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Write(ended, vfs.OS, Options{Out: filepath.Join(root, "b.tar.gz"), Directories: []string{root}}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Write(t.Context(), vfs.OS, Options{Out: filepath.Join(root, "file", "b.tar.gz")}); err == nil {
		t.Error("below a file")
	}
}
