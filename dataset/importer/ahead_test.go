package importer_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// slow is a circulant graph that says it was read from a file.
type slow struct {
	circulant
	file   string
	looked bool
	begun  chan struct{} // Edges was called to read all
}

func (s *slow) Files() []string { return []string{s.file} }

func (s *slow) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	if s.looked {
		close(s.begun)
	}
	s.looked = true // the preflight, before
	return s.circulant.Edges(ctx, add)
}

// gate is a file system on which the file of a slow source is read only once its edges are.
type gate struct {
	vfs.FS
	s     *slow
	out   string
	fails error
	opens int
}

func (g *gate) Open(name string) (vfs.File, error) {
	f, err := g.FS.Open(name)
	if err != nil || name != g.s.file {
		return f, err
	}
	if g.opens++; g.opens == 1 { // the preflight estimates its lines
		return f, nil
	}
	if _, err := g.FS.Stat(stage.Partial(g.out)); err != nil {
		return nil, errors.Join(errors.New("the source is hashed before anything is begun"), f.Close())
	}
	<-g.s.begun
	if g.fails != nil {
		return nil, errors.Join(g.fails, f.Close())
	}
	return f, nil
}

// TestAhead hashes a source that cannot be read before its edges are. What it makes is what one
// worker makes, who hashes first. If the hash fails, nothing is believed of what was read.
func TestAhead(t *testing.T) {
	dir := t.TempDir()
	name, content := filepath.Join(dir, "source"), []byte("two\nlines")
	if err := os.WriteFile(name, content, 0o666); err != nil {
		t.Fatal(err)
	}
	run := func(out string, workers int, s *slow, fsys vfs.FS) (dataset.Result, error) {
		f := importer.Format{Name: "slow", Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return s, nil }}
		o := importer.Options{Sources: []string{"-"}, Resources: dataset.Resources{Workers: workers}}
		return importer.Import(t.Context(), fsys, out, f, o, progress.Discard)
	}
	source := func() *slow { return &slow{circulant{100, 7}, name, false, make(chan struct{})} }

	ref, out := filepath.Join(dir, "ref"), filepath.Join(dir, "out")
	if _, err := run(ref, 1, source(), datasettest.FS); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("the drive is gone")
	s := source()
	if _, err := run(out, 2, s, &gate{FS: datasettest.FS, s: s, out: out, fails: broken}); !errors.Is(err, broken) {
		t.Fatalf("a hash that fails: %v", err)
	}
	if _, err := os.Stat(stage.Partial(out)); err == nil {
		t.Error("a hash that fails leaves its directory")
	}
	s = source()
	if _, err := run(out, 2, s, &gate{FS: datasettest.FS, s: s, out: out}); err != nil {
		t.Fatal(err)
	}
	datasettest.Same(t, ref, out)

	h := sha256.New()
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(content))))
	h.Write(content)
	var m struct {
		Params struct {
			Content string `json:"content_sha256"`
		} `json:"params"`
	}
	b, err := os.ReadFile(filepath.Join(out, stage.MetaFile))
	if err == nil {
		err = json.Unmarshal(b, &m)
	}
	if want := hex.EncodeToString(h.Sum(nil)); err != nil || m.Params.Content != want {
		t.Errorf("the content's hash is %s, want %s (%v)", m.Params.Content, want, err)
	}
	if res, err := run(out, 2, source(), datasettest.FS); err != nil || res.State != stage.StateDone.String() {
		t.Errorf("again: %+v, %v", res, err)
	}
}

// raced is a slow source during whose preflight something else happens.
type raced struct {
	slow
	other func() error
	rows  error // of Features, once the edges were read
}

func (r *raced) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	if !r.looked && r.other != nil {
		if err := r.other(); err != nil {
			return err
		}
	}
	return r.slow.Edges(ctx, add)
}

func (r *raced) Features(first int64) (importer.RowStream, error) {
	select {
	case <-r.begun:
		if r.rows != nil {
			return nil, r.rows
		}
	default: // the preflight
	}
	return r.slow.Features(first)
}

// opened counts how often a file is opened.
type opened struct {
	vfs.FS
	name string
	n    int
}

func (o *opened) Open(name string) (vfs.File, error) {
	if name == o.name {
		o.n++
	}
	return o.FS.Open(name)
}

// TestAnotherMeanwhile goes on with what another process has begun since nothing was found there, or
// finds that it is done. The source is hashed once, before anything else.
func TestAnotherMeanwhile(t *testing.T) {
	dir, broken := t.TempDir(), errors.New("broken")
	name := filepath.Join(dir, "source")
	if err := os.WriteFile(name, []byte("two\nlines"), 0o666); err != nil {
		t.Fatal(err)
	}
	run := func(fsys vfs.FS, out string, workers int, s *raced) (dataset.Result, error) {
		s.slow = slow{circulant{100, 7}, name, false, make(chan struct{})}
		f := importer.Format{Name: "slow", Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return s, nil }}
		return importer.Import(t.Context(), fsys, out, f, importer.Options{Sources: []string{"-"}, Resources: dataset.Resources{Workers: workers}}, progress.Discard)
	}
	ref := filepath.Join(dir, "ref")
	if _, err := run(datasettest.FS, ref, 1, &raced{}); err != nil {
		t.Fatal(err)
	}
	for _, rows := range []error{nil, broken} {
		out := filepath.Join(t.TempDir(), "out")
		fsys := &opened{FS: datasettest.FS, name: name}
		res, err := run(fsys, out, 2, &raced{other: func() error {
			if _, err := run(datasettest.FS, out, 1, &raced{rows: rows}); !errors.Is(err, rows) {
				return errors.Join(err, errors.New("the other import"))
			}
			return nil
		}})
		want := stage.StateDone // the other one made it
		if rows != nil {
			want = stage.StateResumed // labels and topology are there
		}
		if err != nil || res.State != want.String() {
			t.Errorf("the other ends with %v: %+v, %v, want %s", rows, res, err, want)
		}
		if fsys.n != 2 { // its lines are estimated before
			t.Errorf("the other ends with %v: the source is opened %d times", rows, fsys.n)
		}
		datasettest.Same(t, ref, out)
	}
}

// TestChangedMeanwhile writes to the source after it was hashed, or while: nothing is published.
func TestChangedMeanwhile(t *testing.T) {
	for _, workers := range []int{1, 2} {
		dir := t.TempDir()
		s := &changing{slow{circulant{100, 7}, filepath.Join(dir, "source"), false, make(chan struct{})}}
		if err := os.WriteFile(s.file, []byte("1"), 0o666); err != nil {
			t.Fatal(err)
		}
		f := importer.Format{Name: "slow", Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return s, nil }}
		o := importer.Options{Sources: []string{"-"}, Resources: dataset.Resources{Workers: workers}}
		out := filepath.Join(dir, "out")
		_, err := importer.Import(t.Context(), datasettest.FS, out, f, o, progress.Discard)
		if err == nil || !strings.Contains(err.Error(), "changed during the import") {
			t.Errorf("%d workers: %v", workers, err)
		}
		if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%d workers: %v", workers, err)
		}
	}
}

// TestChangedIsNotKept imports a source that others write to while its edges are read, and puts it
// back: the next import takes nothing of what was read meanwhile.
func TestChangedIsNotKept(t *testing.T) {
	for _, relabel := range importer.Relabels() {
		for _, change := range []func(name string) error{
			func(name string) error { return os.WriteFile(name, []byte("2"), 0o666) },
			func(name string) error { // of the same size and time
				return errors.Join(os.Rename(name, name+"-"), os.WriteFile(name, []byte("2"), 0o666), os.Chtimes(name, time.Time{}, time.Unix(1e9, 0)))
			},
		} {
			dir := t.TempDir()
			s := &overwritten{slow: slow{circulant{100, 7}, filepath.Join(dir, "source"), false, nil}}
			put := func() {
				if err := errors.Join(os.WriteFile(s.file, []byte("1"), 0o666), os.Chtimes(s.file, time.Time{}, time.Unix(1e9, 0))); err != nil {
					t.Fatal(err)
				}
			}
			f := importer.Format{Name: "slow", Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return s, nil }}
			o := importer.Options{Sources: []string{"-"}, Relabel: relabel, Resources: dataset.Resources{Workers: 1}}
			run := func(name string) (string, error) {
				s.reads = 0
				res, err := importer.Import(t.Context(), datasettest.FS, filepath.Join(dir, name), f, o, progress.Discard)
				return res.Fingerprint, err
			}
			put()
			want, err := run("undisturbed")
			if err != nil {
				t.Fatal(err)
			}
			s.change = change
			if _, err := run("out"); err == nil || !strings.Contains(err.Error(), "changed during the import") {
				t.Errorf("relabel %s: %v", relabel, err)
			}
			s.change = nil
			put()
			if got, err := run("out"); err != nil || got != want {
				t.Errorf("relabel %s, put back: %s, want %s (%v)", relabel, got, want, err)
			}
		}
	}
}

// overwritten is a source that is written to when its edges are read, the first time but for the
// preflight's: from then on they are others.
type overwritten struct {
	slow
	reads  int
	change func(name string) error
}

func (s *overwritten) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	if s.reads++; s.reads > 1 && s.change != nil {
		if err := s.change(s.file); err != nil {
			return err
		}
	}
	from := s.circulant
	if b, err := os.ReadFile(s.file); err != nil || string(b) == "2" {
		return errors.Join(err, shifted{from}.Edges(ctx, add))
	}
	return from.Edges(ctx, add)
}

// shifted has as many other edges.
type shifted struct{ circulant }

func (s shifted) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	return s.circulant.Edges(ctx, func(dst, src []int64) error {
		for i := range src {
			src[i] = (src[i] + dst[i]%2) % s.nodes
		}
		return add(dst, src)
	})
}

// changing is a source that grows when its edges are read.
type changing struct{ slow }

func (c *changing) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	if c.looked {
		if err := os.WriteFile(c.file, []byte("12"), 0o666); err != nil {
			return err
		}
	}
	return c.slow.Edges(ctx, add)
}
