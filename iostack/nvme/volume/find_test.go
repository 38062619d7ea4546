package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// made makes a directory by a transaction.
func made(t *testing.T, format, content string) (dir string, m *stage.Meta) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "dir")
	spec := stage.Spec{Format: stage.Format{Name: format, Version: 1}, Params: map[string]string{"content": content}}
	d, _, err := stage.Begin(vfs.OS, dir, spec, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := vfs.WriteFile(vfs.OS, d.File("data"), []byte(content)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Commit([]stage.File{{Name: "data", Size: int64(len(content)), Checksum: strings.Repeat("0", 64)}}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if m, err = stage.ReadMeta(vfs.OS, dir, "directory"); err != nil {
		t.Fatal(err)
	}
	return dir, m
}

// A path is found on the volume if its directory is the one there.
func TestFinder(t *testing.T) {
	pack, meta := made(t, "diskgnn.pack", "one")
	m := newMemory(2, 4*mib, 512)
	r, err := Load(t.Context(), m.all(), vfs.OS, pack, meta, Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := r.Volume.Finder(vfs.OS)
	p, err := f.Find(filepath.Join(pack, "data"))
	if err != nil || p.Name() != "data" || p.Size() != 3 {
		t.Fatalf("%+v %v", p, err)
	}
	drive, at, n := p.Locate(1)
	if n != Page-1 || string(m.drives[drive].now[at:at+2]) != "ne" {
		t.Errorf("byte 1 is byte %d of drive %d, %d from there on", at, drive, n)
	}
	other, _ := made(t, "diskgnn.pack", "two")
	if _, err := f.Find(filepath.Join(other, "data")); !errors.Is(err, fault.ErrLineage) || !strings.Contains(err.Error(), "memory0,memory1 holds "+meta.Fingerprint[:12]) {
		t.Errorf("another pack: %v", err)
	}
	samples, _ := made(t, "diskgnn.samples", "one")
	for _, path := range []string{filepath.Join(samples, "data"), filepath.Join(pack, "absent"), filepath.Join(t.TempDir(), "data")} {
		if p, err := f.Find(path); p != nil || err != nil {
			t.Errorf("%s: %v %v", path, p, err)
		}
	}
	if err := os.WriteFile(filepath.Join(samples, stage.MetaFile), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Volume.Finder(vfs.OS).Find(filepath.Join(samples, "data")); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("a damaged meta.json: %v", err)
	}
}

// What reads a directory reads it on the volume.
func TestFS(t *testing.T) {
	pack, meta := made(t, "diskgnn.pack", "content")
	r, err := Load(t.Context(), newMemory(1, 4*mib, 512).all(), vfs.OS, pack, meta, Options{})
	if err != nil {
		t.Fatal(err)
	}
	fsys := r.Volume.FS("nvme:x")
	m, err := stage.Open(fsys, "nvme:x", "pack", stage.Format{Name: "diskgnn.pack", Version: 1})
	if err != nil || m.Fingerprint != meta.Fingerprint {
		t.Fatalf("%+v %v", m, err)
	}
	b, err := vfs.ReadFile(fsys, "nvme:x/data")
	if err != nil || string(b) != "content" {
		t.Errorf("%q %v", b, err)
	}
	if list, err := fsys.List("nvme:x"); err != nil || strings.Join(list, " ") != "data meta.json" {
		t.Errorf("%q %v", list, err)
	}
	for _, name := range []string{"nvme:x/absent", "nvme:y/data", "data"} {
		if _, err := fsys.Open(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f, err := fsys.Open("nvme:x/data")
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if n, err := f.ReadAt(got, 5); n != 2 || err == nil || string(got[:2]) != "nt" {
		t.Errorf("%d %v %q", n, err, got)
	}
	if _, err := f.Write(got); err == nil {
		t.Error("it is written to")
	}
	if _, err := fsys.Create("nvme:x/data"); err == nil {
		t.Error("it is created anew")
	}
}
