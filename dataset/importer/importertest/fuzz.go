package importertest

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
)

// Fuzz plans the import of copies of a good source in which one file has other content: pack makes it
// from the fuzzed text, which begins as seed. Whatever the content, the result must be a plan, or one
// line of bad input for each fault, in the least memory that imports need.
func Fuzz(f *testing.F, format importer.Format, tree, file, seed string, pack func(content string) ([]byte, error)) {
	const memory = budget.Reserve + 32<<20
	f.Add(seed)
	f.Add("")
	f.Add(seed[:len(seed)/2])
	dir := f.TempDir()
	source := filepath.Join(dir, "source")
	if err := os.CopyFS(source, os.DirFS(tree)); err != nil {
		f.Fatal(err)
	}
	name := filepath.Join(source, filepath.FromSlash(file))
	if err := os.Remove(name); err != nil { // which may not be writable
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content string) {
		b, err := pack(content)
		if err != nil {
			t.Skip()
		}
		Save(t, name, b)
		o := importer.Options{Sources: []string{source}, Resources: dataset.Resources{Memory: memory, Workers: 1}}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		plan, err := importer.MakePlan(t.Context(), datasettest.FS, filepath.Join(dir, "D"), format, o, progress.Discard)
		runtime.ReadMemStats(&after)
		if err != nil && !errors.Is(err, fault.ErrInput) && !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%q: %v", content, err)
		}
		if err != nil {
			plan.Problems = append(plan.Problems, err.Error())
		}
		for _, p := range append(plan.Problems, plan.Notes...) {
			if strings.Contains(p, "\n") || len(p) > 4096 {
				t.Errorf("%q: %q", content, p)
			}
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > memory {
			t.Errorf("%q: %d bytes were allocated", content, n)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
			t.Errorf("%q: it left %v, %v", content, left, err)
		}
	})
}

// Plain makes a file of fuzzed content: the content itself, without a container.
func Plain(content string) ([]byte, error) { return []byte(content), nil }

// Pickle returns the pickle of a file of torch, and the pack that puts another in its place.
func Pickle(t testing.TB, name string) (string, func(pickle string) ([]byte, error)) {
	t.Helper()
	z, err := zip.OpenReader(name)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	const pickled = "data.pkl"
	records := map[string][]byte{}
	var names []string
	for _, e := range z.File {
		r, err := e.Open()
		if err != nil {
			t.Fatal(err)
		}
		if records[e.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		names = append(names, e.Name)
	}
	pack := func(pickle string) ([]byte, error) {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, name := range names {
			content := records[name]
			if path.Base(name) == pickled {
				content = []byte(pickle)
			}
			w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
			if err != nil {
				return nil, err
			}
			if _, err := w.Write(content); err != nil {
				return nil, err
			}
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		return b.Bytes(), nil
	}
	for _, name := range names {
		if path.Base(name) == pickled {
			return string(records[name]), pack
		}
	}
	t.Fatalf("%s has no %s", name, pickled)
	return "", nil
}

// Plan makes the plan of a source, imports nothing, and checks that errors are of kind fault.ErrInput
// or fault.ErrUsage, that each problem is one line, and that no file stays open.
func Plan(t testing.TB, format importer.Format, o importer.Options) {
	t.Helper()
	files := NewFiles(datasettest.FS)
	p, err := importer.MakePlan(t.Context(), files, filepath.Join(t.TempDir(), "D"), format, o, progress.Discard)
	if err != nil && !errors.Is(err, fault.ErrInput) && !errors.Is(err, fault.ErrUsage) {
		t.Errorf("its plan: %v", err)
	}
	if left := files.StillOpen(); len(left) > 0 {
		t.Errorf("its plan leaves %q open", left)
	}
	for _, problem := range p.Problems {
		if strings.Contains(problem, "\n") {
			t.Errorf("its plan says %q", problem)
		}
	}
}

// Files is a file system that records which of its files are open. It is safe for concurrent use.
type Files struct {
	vfs.FS
	mu   sync.Mutex
	open map[*openFile]bool
}

// NewFiles returns a Files over another file system.
func NewFiles(fsys vfs.FS) *Files { return &Files{FS: fsys, open: map[*openFile]bool{}} }

// StillOpen returns the names of the files that are open, in no order.
func (c *Files) StillOpen() (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for f := range c.open {
		names = append(names, f.Name())
	}
	return names
}

func (c *Files) add(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := &openFile{f, c}
	c.open[n] = true
	return n, nil
}

// Open implements vfs.FS, as Create and OpenReadWrite do.
func (c *Files) Open(name string) (vfs.File, error) { return c.add(c.FS.Open(name)) }

// Create implements vfs.FS.
func (c *Files) Create(name string) (vfs.File, error) { return c.add(c.FS.Create(name)) }

// OpenReadWrite implements vfs.FS.
func (c *Files) OpenReadWrite(name string) (vfs.File, error) {
	return c.add(c.FS.OpenReadWrite(name))
}

type openFile struct {
	vfs.File
	of *Files
}

// Close implements vfs.File.
func (f *openFile) Close() error {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	delete(f.of.open, f)
	return f.File.Close()
}
