package importer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/importertest"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
)

// broken is a drawn graph that fails where it is told to, and counts what is open. The plan looks at
// it first, and nothing fails then. Its edges and its rows may be read at the same time.
type broken struct {
	drawn
	fails   string      // the method
	planned atomic.Bool // the plan has looked at it
	streams int         // that are open; only the reader of the rows changes it
	closed  int         // times
}

var errBroken = errors.New("the drive is gone")

func (b *broken) err(method string) error {
	if b.fails == method && b.planned.Load() {
		return errBroken
	}
	return nil
}

func (b *broken) Labels(ctx context.Context, l *importer.Labelling) error {
	if b.err("no labels") != nil {
		return nil
	}
	return errors.Join(b.err("labels"), b.drawn.Labels(ctx, l))
}

func (b *broken) Edges(ctx context.Context, add func(dst, src []int64) error) error {
	if err := b.err("edges"); err != nil {
		return err
	}
	return b.drawn.Edges(ctx, add)
}

func (b *broken) Features(first int64) (importer.RowStream, error) {
	if err := b.err("features"); err != nil {
		return nil, err
	}
	rows, err := b.drawn.Features(first)
	b.streams++
	return &brokenRows{rows, b}, err
}

func (b *broken) Close() error { b.closed++; return b.err("close") }

type brokenRows struct {
	importer.RowStream
	b *broken
}

func (r *brokenRows) Next(values []float32) error {
	return errors.Join(r.b.err("rows"), r.RowStream.Next(values))
}

func (r *brokenRows) Close() error {
	r.b.streams--
	r.b.planned.Store(true) // the first rows are the last that the plan reads
	return r.RowStream.Close()
}

// tasks counts the tasks that are under way, by name. It is safe for concurrent use.
type tasks struct {
	mu   sync.Mutex
	open map[string]int
}

func (s *tasks) Logf(string, ...any) {}

func (s *tasks) Task(name string, _ int64, _ progress.Unit) progress.Task {
	s.add(name, 1)
	return &task{s, name, sync.Once{}}
}

func (s *tasks) add(name string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[name] += n
}

type task struct {
	of   *tasks
	name string
	once sync.Once
}

func (*task) Add(int64) {}
func (t *task) Done()   { t.once.Do(func() { t.of.add(t.name, -1) }) }

// TestSourceFails imports a graph whose source fails in each of its methods: the error is returned,
// nothing is published, and nothing stays open. Unbroken, nothing is left but the dataset.
func TestSourceFails(t *testing.T) {
	for _, o := range []importer.Options{{}, {Relabel: importer.RelabelDegree}, {Relabel: importer.RelabelDegree, Dedupe: true}, {Relabel: importer.RelabelBFS}} {
		for _, workers := range []int{1, 2} {
			for _, fails := range []string{"", "labels", "edges", "features", "rows", "close"} {
				b := &broken{drawn: drawn{nodes: 20, dim: 2, classes: 3, edges: [][2]int64{{0, 1}, {1, 0}, {2, 2}}}, fails: fails}
				f := importer.Format{Name: "broken", Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return b, nil }}
				out := filepath.Join(vfstest.TempDir(t), "D")
				o.Sources, o.Workers = []string{"-"}, workers
				files := importertest.NewFiles(datasettest.FS)
				shown := &tasks{open: map[string]int{}}
				_, err := importer.Import(t.Context(), files, out, f, o, shown)
				for name, n := range shown.open {
					if n != 0 {
						t.Errorf("%s, failing %q: %s is still shown", o.Relabel, fails, name)
					}
				}
				what := fmt.Sprintf("%s, dedupe %v, %d workers, failing: %q", o.Relabel, o.Dedupe, workers, fails)
				if open := files.StillOpen(); len(open) > 0 || b.streams != 0 || b.closed != 1 {
					t.Errorf("%s: %q and %d streams are open, closed %d times", what, open, b.streams, b.closed)
				}
				if (fails == "") != (err == nil) || err != nil && !errors.Is(err, errBroken) {
					t.Errorf("%s: %v", what, err)
				}
				_, missing := os.Stat(out)
				if published := missing == nil; published != (fails == "" || fails == "close") {
					t.Errorf("%s: published %v", what, published)
				}
				left, err := datasettest.FS.List(filepath.Dir(out))
				if fails == "" && (err != nil || len(left) != 1) {
					t.Errorf("%s: %q, %v", what, left, err)
				}
				if left, _ = datasettest.FS.List(out); slices.ContainsFunc(left, func(name string) bool { return strings.HasSuffix(name, ".scratch") }) {
					t.Errorf("%s: %q", what, left)
				}
			}
		}
	}
}

// logs keeps what is reported.
type logs struct {
	progress.Reporter
	lines []string
}

func (l *logs) Logf(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

// TestResumedIsReported goes on with an import that failed while features were written.
func TestResumedIsReported(t *testing.T) {
	out := filepath.Join(vfstest.TempDir(t), "D")
	b := &broken{drawn: drawn{nodes: 20, dim: 2, classes: 3, edges: [][2]int64{{0, 1}, {1, 0}}}, fails: "rows"}
	f := importer.Format{Name: "broken", Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return b, nil }}
	o := importer.Options{Sources: []string{"-"}, Resources: dataset.Resources{Workers: 1}}
	first := &logs{Reporter: progress.Discard}
	if _, err := importer.Import(t.Context(), datasettest.FS, out, f, o, first); !errors.Is(err, errBroken) || len(first.lines) > 0 {
		t.Fatalf("%v, %q", err, first.lines)
	}
	b.fails = ""
	again := &logs{Reporter: progress.Discard}
	if res, err := importer.Import(t.Context(), datasettest.FS, out, f, o, again); err != nil || res.State != "resumed" || len(again.lines) != 1 || again.lines[0] != "resuming "+out+".partial: 6 files are finished" {
		t.Errorf("%v, %s, %q", err, res.State, again.lines)
	}
}

// assigned is a drawn graph with classes and splits by node.
type assigned struct {
	drawn
	class []int64
	split []uint8
}

func (a *assigned) Shape() importer.Shape {
	s := a.drawn.Shape()
	s.NoSplit = false
	return s
}

func (a *assigned) Labels(_ context.Context, l *importer.Labelling) error {
	for v := range a.class {
		if err := errors.Join(l.Label(int64(v), a.class[v]), l.Assign(int64(v), a.split[v])); err != nil {
			return err
		}
	}
	return nil
}

// TestDropped leaves nodes of splits out that have no label, and says so.
func TestDropped(t *testing.T) {
	a := &assigned{drawn{nodes: 6, dim: 1, classes: 3, edges: [][2]int64{{0, 1}}}, []int64{1, -1, 0, 2, -1, -1}, []uint8{1, 1, 2, 3, 3, 3}}
	f := importer.Format{Name: "assigned", Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return a, nil }}
	out := filepath.Join(vfstest.TempDir(t), "D")
	said := &logs{Reporter: progress.Discard}
	if _, err := importer.Import(t.Context(), datasettest.FS, out, f, importer.Options{Sources: []string{"-"}}, said); err != nil {
		t.Fatal(err)
	}
	if want := []string{"left out 1 nodes without a label from the train set", "left out 2 nodes without a label from the test set"}; !slices.Equal(said.lines, want) {
		t.Errorf("%q", said.lines)
	}
	d, err := dataset.Open(datasettest.FS, out)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []uint32{0, 2, 3} {
		if got, err := d.Split(dataset.SplitNames[i]); err != nil || !slices.Equal(got, []uint32{want}) {
			t.Errorf("%s: %d, %v", dataset.SplitNames[i], got, err)
		}
	}
	if f := d.Facts(); f.Unlabelled != 3 || f.Train != 1 || f.Valid != 1 || f.Test != 1 || f.Classes != 3 {
		t.Errorf("%+v", f)
	}
}

// TestLabelsAgain writes labels again that are not any more what they were, and refuses a source that
// has lost them since they were looked at.
func TestLabelsAgain(t *testing.T) {
	for _, multi := range []bool{false, true} {
		b := &broken{drawn: drawn{nodes: 20, dim: 2, classes: 3, multi: multi, edges: [][2]int64{{0, 1}, {1, 0}}}}
		f := importer.Format{Name: "broken", Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return b, nil }}
		o := importer.Options{Sources: []string{"-"}, Resources: dataset.Resources{Workers: 1}}
		run := func(out string) error {
			_, err := importer.Import(t.Context(), datasettest.FS, out, f, o, progress.Discard)
			return err
		}
		ref := filepath.Join(vfstest.TempDir(t), "D")
		if err := run(ref); err != nil {
			t.Fatal(err)
		}
		names := []string{dataset.LabelsFile, dataset.SplitFile(dataset.Train), dataset.SplitFile(dataset.Valid), dataset.SplitFile(dataset.Test)}
		if multi {
			names = append(names, dataset.TargetsFile)
		}
		for _, name := range names {
			out := filepath.Join(vfstest.TempDir(t), "D")
			b.fails = "rows"
			b.planned.Store(false)
			if err := run(out); !errors.Is(err, errBroken) {
				t.Fatal(err)
			}
			if err := os.Truncate(filepath.Join(out+".partial", name), 1); err != nil {
				t.Fatal(err)
			}
			b.fails = ""
			if err := run(out); err != nil {
				t.Fatal(err)
			}
			datasettest.Same(t, ref, out)
		}
		b.fails = "no labels"
		b.planned.Store(false)
		if err := run(filepath.Join(vfstest.TempDir(t), "D")); err == nil || !strings.Contains(err.Error(), "-: the train set is empty") {
			t.Errorf("multi %v, no labels: %v", multi, err)
		}
	}
}

// named is a drawn graph whose node v is called "node v", of so many bytes in all.
type named struct {
	drawn
	bytes int64
	fails error // behind the last name
}

func (n *named) Shape() importer.Shape {
	s := n.drawn.Shape()
	s.NameBytes = n.bytes
	return s
}

func (n *named) Names(_ context.Context, emit func(name []byte) error) error {
	for v := range n.nodes {
		if err := emit(fmt.Appendf(nil, "node %d", v)); err != nil {
			return err
		}
	}
	return n.fails
}

// TestNames stores the names of six nodes in the order of their new numbers.
func TestNames(t *testing.T) {
	n := &named{drawn: drawn{nodes: 8, dim: 1, classes: 2, edges: [][2]int64{{0, 3}, {1, 3}, {2, 7}}}, bytes: 8 * 6}
	format := func(src importer.Source) importer.Format {
		return importer.Format{Name: "named", Open: func(vfs.FS, []string, *importer.Reading) (importer.Source, error) { return src, nil }}
	}
	for relabel, want := range map[string]string{
		importer.RelabelNone: "node 0,node 1,node 2,node 3,node 4,node 5,node 6,node 7", importer.RelabelDegree: "node 3,node 7,node 0,node 1,node 2,node 4,node 5,node 6",
	} {
		d := imported(t, format(n), importer.Options{Relabel: relabel})
		if d.Facts().OriginalIDs != dataset.IDNames {
			t.Errorf("%s: ids are %q", relabel, d.Facts().OriginalIDs)
		}
		ids, err := d.IDs()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for v := range d.Facts().Nodes {
			if err := ids.To(v); err != nil {
				t.Fatal(err)
			}
			got = append(got, string(ids.Append(nil)))
		}
		if got := strings.Join(got, ","); got != want {
			t.Errorf("%s: %s; want %s", relabel, got, want)
		}
		if err := ids.Close(); err != nil {
			t.Error(err)
		}
	}
	// Every operation on a file of names fails in turn.
	for relabel := range 2 {
		o := importer.Options{Sources: []string{"-"}, Relabel: importer.Relabels()[relabel], Resources: dataset.Resources{Workers: 1}}
		for i := 0; ; i++ {
			files := importertest.NewFiles(datasettest.FS)
			fail := &vfs.FailAt{N: i, Err: errBroken, Match: func(_ vfs.Op, name string) bool { return strings.HasPrefix(filepath.Base(name), "name") }}
			_, err := importer.Import(t.Context(), vfs.Inject(files, fail), filepath.Join(vfstest.TempDir(t), "D"), format(n), o, progress.Discard)
			if open := files.StillOpen(); len(open) > 0 {
				t.Errorf("%s: %v: %q are open", o.Relabel, fail, open)
			}
			if !fail.Fired() {
				if err != nil || i < 6 {
					t.Errorf("%s: %v after %d operations", o.Relabel, err, i)
				}
				break
			}
			if !errors.Is(err, errBroken) {
				t.Errorf("%s: %v: %v", o.Relabel, fail, err)
			}
		}
	}
	// A file that ended early is no end of the names.
	n.fails = fmt.Errorf("read names: %w", io.EOF)
	for _, relabel := range importer.Relabels() {
		out := filepath.Join(vfstest.TempDir(t), "D")
		_, err := importer.Import(t.Context(), datasettest.FS, out, format(n), importer.Options{Sources: []string{"-"}, Relabel: relabel}, progress.Discard)
		if _, missing := os.Stat(out); !errors.Is(err, io.EOF) || missing == nil {
			t.Errorf("%s: names that fail: %v", relabel, err)
		}
	}
	nameless := struct{ importer.Source }{n}
	_, err := importer.Import(t.Context(), datasettest.FS, filepath.Join(vfstest.TempDir(t), "D"), format(nameless), importer.Options{Sources: []string{"-"}}, progress.Discard)
	if err == nil || !strings.Contains(err.Error(), "the format named reports names of nodes, but does not implement Namer") {
		t.Errorf("no names: %v", err)
	}
}
