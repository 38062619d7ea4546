package marius_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/all"
	"diskgnn/featurestore/marius"
	"diskgnn/featurestore/presampled"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample"
	"diskgnn/presample/sampler"
)

// drawn draws samples with some order.
type drawn struct {
	order, walk        string
	partitions, buffer int
}

func (d drawn) sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
		BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2, TrainRatio: 0.5,
		Order: d.order, Walk: d.walk, Partitions: d.partitions, Buffer: d.buffer}, progress.Discard)
	return err
}

// find finds the store, with room for so many partitions beside the buffer.
func find(t testing.TB, w *storetest.World, more int) featurestore.Candidate {
	t.Helper()
	s, err := presampled.Find(storetest.Disk, w.Dataset, w.Samples)
	if err != nil {
		t.Fatal(err)
	}
	c, err := marius.WithRooms(s, s.Dataset(), more)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Rows of several types, every order and walk, without and with rooms to read ahead.
func TestConformance(t *testing.T) {
	small := func(epochs, dim int, d dtype.Type) storetest.Params {
		return storetest.Params{Params: datasettest.Params{Nodes: 60, AvgDegree: 3, Dim: dim, DType: d}, Batch: 4, Epochs: epochs}
	}
	for name, c := range map[string]struct {
		params storetest.Params
		drawn  drawn
		more   int
	}{
		"sweep, ahead":            {small(2, 100, dtype.Float32), drawn{"dispersed", "sweep", 7, 4}, 2},
		"beta, ahead":             {small(1, 7, dtype.BFloat16), drawn{"dispersed", "beta", 5, 3}, 1},
		"comet":                   {small(1, 1500, dtype.Float16), drawn{"dispersed", "comet", 6, 2}, 0},
		"sequential, ahead":       {small(2, 5, dtype.Float32), drawn{"sequential", "", 8, 6}, 2},
		"sequential, all batches": {small(1, 5, dtype.Float32), drawn{"sequential", "", 8, 6}, 0},
		"all partitions":          {small(2, 5, dtype.Float32), drawn{"dispersed", "comet", 4, 4}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, storetest.NewWorld(t, c.params, c.drawn.sample), func(t testing.TB, w *storetest.World) featurestore.Candidate {
				return find(t, w, c.more)
			}, storetest.ReadsAhead)
		})
	}
}

// states returns the partitions of every training batch, and those of all nodes.
func states(t *testing.T, w *storetest.World) (held [][]bool, of []uint16) {
	t.Helper()
	s, err := presampled.Find(storetest.Disk, w.Dataset, w.Samples)
	if err != nil {
		t.Fatal(err)
	}
	seeds, err := sampler.Load(t.Context(), s.Dataset(), s.Params(), progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Facts().Train {
		h := make([]bool, s.Params().Partitions)
		seeds.State(seeds.Nth(i), h)
		held = append(held, h)
	}
	return held, seeds.Partitions()
}

// oracle returns what the batches of a circle read of rows, with room for so many partitions of
// the given bytes: partitions that come with a state and had no room beside the one before it
// with its first batch, and those that had, in equal shares of whole pages, with the batches of
// that one. came has the partitions that came with the state of a batch.
func oracle(held [][]bool, bytes []int64, rooms int) (reads []int64, came [][]int) {
	n := len(held)
	at := func(k int) []bool { return held[(k+n)%n] }
	for k := range held {
		first, end := k, k+1
		for first > k-n && slices.Equal(at(first-1), held[k]) {
			first--
		}
		for end < k+n && slices.Equal(at(end), held[k]) {
			end++
		}
		comes := func(k int) (list []int, sum int64) { // of those in list, what is read when the state changes
			have := 0
			for _, in := range at(k - 1) {
				if in {
					have++
				}
			}
			for p, in := range at(k) {
				if in && !at(k - 1)[p] {
					if list = append(list, p); len(list) > rooms-have {
						sum += bytes[p]
					}
				}
			}
			return list, sum
		}
		list, read := comes(first)
		if k != first {
			read = 0
		}
		next, late := comes(end)
		ahead := -late
		for _, p := range next {
			ahead += bytes[p]
		}
		pages := func(batches int) int64 { return (ahead*int64(batches)/int64(end-first) + 4095) / 4096 * 4096 }
		reads, came = append(reads, read+pages(k-first+1)-pages(k-first)), append(came, list)
	}
	return reads, came
}

// What batches read is what the formula says of the states, beside the state before as far as
// there is room. Misses are the rows of partitions that came with a state, when a batch of it
// first uses them.
func TestReadsAreTheFormulasOfTheStates(t *testing.T) {
	const nodes, row = 400, 4 * 900
	for name, d := range map[string]drawn{
		"sweep": {"dispersed", "sweep", 9, 4}, "beta": {"dispersed", "beta", 7, 3}, "comet": {"dispersed", "comet", 10, 4}, "sequential": {"sequential", "", 8, 5},
	} {
		w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: nodes, AvgDegree: 4, Dim: 900}, Batch: 6, Epochs: 2, Fanout: []int{2, 2}}, d.sample)
		trace := w.Trace(t)
		held, of := states(t, w)
		bytes, whole := make([]int64, d.partitions), int64(0)
		for _, p := range of {
			bytes[p] += row
		}
		for p := range bytes {
			bytes[p] = (bytes[p] + 4095) / 4096 * 4096
		}
		for k := range held {
			for p := range bytes {
				if before := held[(k+len(held)-1)%len(held)]; held[k][p] && !before[p] {
					whole += bytes[p]
				}
			}
		}
		for _, more := range []int{0, 1, min(d.buffer, d.partitions-d.buffer)} {
			reads, came := oracle(held, bytes, d.buffer+more)
			st := storetest.Open(t, find(t, w, more), 1)
			st.FillFor(t, 0)
			used, sum := map[uint32]bool{}, int64(0)
			for i := range 2*len(trace) + 3 {
				ref := featurestore.Ref{Index: i % len(trace)}
				k := ref.Index
				if err := storetest.Load(t.Context(), st.Slots[0], ref); err != nil {
					t.Fatal(name, more, err)
				}
				w.Holds(t, ref, st.Slots[0].Batch(), st.Slots[0].X(), dtype.Float32)
				if !slices.Equal(held[k], held[(k+len(held)-1)%len(held)]) {
					clear(used)
				}
				misses := 0
				for _, v := range trace[k] {
					if slices.Contains(came[k], int(of[v])) && !used[v] {
						used[v] = true
						misses++
					}
				}
				n := st.Slots[0].Counts()
				if got := n.BytesRead - n.GraphRead; got != reads[k] || len(trace[k])-n.RAMRows != misses {
					t.Fatalf("%s, %d rooms more, batch %d: %d bytes and %d misses, want %d and %d", name, more, i, got, len(trace[k])-n.RAMRows, reads[k], misses)
				}
				if sum += reads[k]; k == len(trace)-1 {
					if sum != whole || whole == 0 {
						t.Errorf("%s, %d rooms more: %d bytes in the circle, want %d", name, more, sum, whole)
					}
					sum = 0
				}
			}
		}
	}
}

// A run that goes on anywhere hits and reads what one that was not interrupted does. Its
// checkpoints hold nothing.
func TestResumedRunsReadTheSame(t *testing.T) {
	for name, d := range map[string]drawn{"sweep": {"dispersed", "sweep", 9, 4}, "sequential": {"sequential", "", 8, 5}, "beta": {"dispersed", "beta", 5, 3}} {
		w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 200, AvgDegree: 4, Dim: 300, DType: dtype.Float16}, Batch: 7, Epochs: 2, Fanout: []int{2, 2}}, d.sample)
		for _, more := range []int{0, 2} {
			c := find(t, w, more)
			run := func(from, n int) (list []featurestore.Counts) {
				st := storetest.Open(t, c, 1)
				if state, err := st.State(); state != nil || err != nil {
					t.Fatalf("%d bytes of state, %v", len(state), err)
				}
				st.FillFor(t, from%st.Facts.Train)
				for i := range n {
					ref := featurestore.Ref{Index: (from + i) % st.Facts.Train}
					if err := storetest.Load(t.Context(), st.Slots[0], ref); err != nil {
						t.Fatal(err)
					}
					w.Holds(t, ref, st.Slots[0].Batch(), st.Slots[0].X(), dtype.Float16)
					list = append(list, st.Slots[0].Counts())
				}
				return list
			}
			train := c.Facts().Train
			whole := run(0, 2*train+1)
			for from := range train + 1 {
				if got := run(from, train); !slices.Equal(got, whole[from:from+train]) {
					t.Errorf("%s, %d rooms more, from batch %d: %+v, not interrupted %+v", name, more, from, got, whole[from:from+train])
				}
			}
		}
	}
}

// mode returns the permissions of a file.
func mode(t *testing.T, name string) fs.FileMode {
	t.Helper()
	st, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return st.Mode().Perm()
}

// The rows are laid out once, and anew where what is there does not agree with the samples.
func TestPreparation(t *testing.T) {
	d := drawn{"dispersed", "sweep", 7, 4}
	p := storetest.Params{Params: datasettest.Params{Nodes: 300, AvgDegree: 4, Dim: 30}, Batch: 20, Epochs: 1}
	w := storetest.NewWorld(t, p, d.sample)
	_, of := states(t, w)
	// By hand: partition after partition, each on a page, rows by ascending node.
	var want []byte
	for p := range d.partitions {
		for v := range of {
			if int(of[v]) == p {
				want = append(want, w.Raw.Features[v*120:(v+1)*120]...)
			}
		}
		want = append(want, make([]byte, (4096-len(want)%4096)%4096)...)
	}
	rows, sums := filepath.Join(w.Samples, marius.FeaturesFile), filepath.Join(w.Samples, marius.SumsFile)
	fill := func(what string, made bool, says string) {
		t.Helper()
		st := storetest.Open(t, find(t, w, 0), 1)
		_, lines := st.FillFor(t, 0)
		said := strings.Join(lines, "\n")
		if strings.Contains(said, "laid out the rows by partition, once for these samples: 35.2 KiB read, 56.0 KiB written to "+rows) != made || says != "" && !strings.Contains(said, says) {
			t.Errorf("%s: reported %q", what, lines)
		}
		got, err := os.ReadFile(rows)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s: %d bytes, %v, want %d", what, len(got), err, len(want))
		}
		if names, err := os.ReadDir(w.Samples); err != nil || slices.ContainsFunc(names, func(e os.DirEntry) bool { return strings.HasSuffix(e.Name(), ".tmp") }) {
			t.Errorf("%s: left %v, %v", what, names, err)
		}
	}
	fill("at first", true, "")
	fill("again", false, "")
	table, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	// Users who may read the checksums may read the rows.
	if a, b := mode(t, rows), mode(t, sums); a != b {
		t.Errorf("the rows have permissions %v, their checksums %v", a, b)
	}
	for what, c := range map[string]struct {
		change func() error
		says   string
	}{
		"without checksums":  {func() error { return os.Remove(sums) }, ""},
		"of other samples":   {func() error { return os.WriteFile(sums, append([]byte("00"), table[2:]...), 0o666) }, "is made again: it was made from other samples"},
		"damaged checksums":  {func() error { return os.WriteFile(sums, append(slices.Clone(table[:len(table)-1]), 7), 0o666) }, "is made again: the table of checksums"},
		"short of checksums": {func() error { return os.WriteFile(sums, table[:40], 0o666) }, "is made again: it was made from other samples"},
		"truncated":          {func() error { return os.Truncate(rows, 4096) }, "is made again: it has 4096 bytes"},
		"without rows":       {func() error { return os.Remove(rows) }, ""},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		fill(what, true, c.says)
		fill(what+", again", false, "")
	}
	// A wrong byte names the file, and what to do.
	want[5] ^= 1
	if err := os.WriteFile(rows, want, 0o666); err != nil {
		t.Fatal(err)
	}
	st := storetest.Open(t, find(t, w, 0), 1)
	_, err = st.Fill(t.Context(), 0, progress.Discard)
	for i := 0; err == nil && i < st.Facts.Train; i++ {
		err = storetest.Load(t.Context(), st.Slots[0], featurestore.Ref{Index: i})
	}
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), rows+": bytes 0 to 4096 do not match their checksum; remove it, and the next run will make it again") {
		t.Errorf("a wrong byte: %v", err)
	}
}

// Whichever operation on the disk fails while the rows are laid out is the error, and the next
// run lays them out; so does one whose first was interrupted.
func TestPreparationFails(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, drawn{"dispersed", "sweep", 7, 4}.sample)
	fill := func(ctx context.Context, fsys vfs.FS) error {
		s, err := presampled.Find(fsys, w.Dataset, w.Samples)
		if err != nil {
			t.Fatal(err)
		}
		c, err := marius.WithRooms(s, s.Dataset(), 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = storetest.Open(t, c, 1).Fill(ctx, 0, progress.Discard)
		return err
	}
	again := func() {
		if err := os.Remove(filepath.Join(w.Samples, marius.SumsFile)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fill(t.Context(), storetest.Disk); err != nil { // with the checksums of the dataset's pages
		t.Fatal(err)
	}
	again()
	wrong := errors.New("the disk fails")
	failed := 0
	for n := 0; n < 60; n++ {
		in := &vfs.FailAt{N: n, Err: wrong}
		err := fill(t.Context(), vfs.Inject(storetest.Disk, in))
		if !in.Fired() {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		if failed++; !errors.Is(err, wrong) {
			t.Errorf("operation %d fails: %v", n, err)
		}
		if _, err := os.Stat(filepath.Join(w.Samples, marius.SumsFile)); err == nil { // the last operation failed
			again()
		}
	}
	if failed < 5 {
		t.Errorf("%d operations failed", failed)
	}
	again()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := fill(ended, storetest.Disk); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	lock, err := storetest.Disk.Lock(filepath.Join(w.Samples, marius.FeaturesFile+vfs.TempSuffix))
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(t.Context(), storetest.Disk); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("while another process lays them out: %v", err)
	}
	if err := errors.Join(lock.Close(), fill(t.Context(), storetest.Disk)); err != nil {
		t.Error(err)
	}
}

// disk has so much room beside a directory's partitioned files, and another process comes
// between looking for them and the lock.
type disk struct {
	vfs.FS
	room  int64
	comes func()
}

func (d disk) Free(dir string) (int64, error) {
	free := d.room
	names, err := d.List(dir)
	for _, name := range names {
		if strings.HasPrefix(name, marius.FeaturesFile) && !strings.HasSuffix(name, ".sums") {
			st, err := d.Stat(filepath.Join(dir, name))
			if err != nil {
				return 0, err
			}
			free -= st.Size()
		}
	}
	return free, err
}

func (d disk) Lock(name string) (io.Closer, error) {
	if d.comes != nil {
		d.comes()
	}
	return d.FS.Lock(name)
}

// notes keeps what is reported.
type notes struct {
	progress.Reporter
	lines []string
}

func (n *notes) Logf(format string, args ...any) {
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

// What an interrupted run left, and a file that does not agree with the samples, take no room
// that the next run is refused for. Where there is no room, nothing is left.
func TestPreparationNeedsRoomOnce(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, drawn{"dispersed", "sweep", 7, 4}.sample)
	fill := func(d disk) (lines []string, err error) {
		d.FS = storetest.Disk
		s, err := presampled.Find(d, w.Dataset, w.Samples)
		if err != nil {
			t.Fatal(err)
		}
		c, err := marius.WithRooms(s, s.Dataset(), 0)
		if err != nil {
			t.Fatal(err)
		}
		said := &notes{Reporter: progress.Discard}
		_, err = storetest.Open(t, c, 1).Fill(t.Context(), 0, said)
		return said.lines, err
	}
	rows, sums := filepath.Join(w.Samples, marius.FeaturesFile), filepath.Join(w.Samples, marius.SumsFile)
	if _, err := fill(disk{room: 1 << 40}); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(rows)
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(sums)
	if err != nil {
		t.Fatal(err)
	}
	need := int64(len(want) + len(table))
	for what, leave := range map[string]func() error{
		"an interrupted run": func() error {
			return errors.Join(os.Remove(sums), os.Rename(rows, rows+vfs.TempSuffix))
		},
		"without checksums": func() error { return os.Remove(sums) },
		"without rows":      func() error { return os.Remove(rows) },
		"damaged": func() error {
			return errors.Join(os.WriteFile(sums, table[1:], 0o666), os.WriteFile(rows+vfs.TempSuffix, want[4096:], 0o666))
		},
	} {
		if err := leave(); err != nil {
			t.Fatal(err)
		}
		if _, err := fill(disk{room: need - 1}); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "make room") {
			t.Errorf("%s, a byte too few: %v", what, err)
		}
		names, err := filepath.Glob(rows + "*")
		if err != nil || slices.Contains(names, rows) || slices.Contains(names, rows+vfs.TempSuffix) {
			t.Errorf("%s: left %v, %v", what, names, err)
		}
		if _, err := fill(disk{room: need}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got, err := os.ReadFile(rows); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v, want %d", what, len(got), err, len(want))
		}
	}
	// Another process lays them out meanwhile: that is not done again.
	if err := os.Remove(sums); err != nil {
		t.Fatal(err)
	}
	lines, err := fill(disk{room: 1 << 40, comes: func() {
		if _, err := fill(disk{room: 1 << 40}); err != nil {
			t.Error(err)
		}
	}})
	if said := strings.Join(lines, "\n"); err != nil || strings.Contains(said, "laid out") {
		t.Errorf("%v, reported %q", err, said)
	}
	if _, err := os.Stat(rows + vfs.TempSuffix); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock is left: %v", err)
	}
}

// Samples of another order, and batches drawn while training, are refused with what to do.
func TestRefusals(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, drawn{order: "random"}.sample)
	if _, _, err := all.Builtin().Find(storetest.Disk, marius.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples}); !errors.Is(err, fault.ErrUsage) ||
		!strings.Contains(err.Error(), "was drawn from the whole graph, in the order random: draw samples by `diskgnn presample --order dispersed --partitions P --buffer B`") {
		t.Errorf("samples of the whole graph: %v", err)
	}
	d, err := dataset.Open(storetest.Disk, w.Dataset)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := marius.Design().On(drawing{}, d); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "not batches drawn while training") {
		t.Errorf("batches that are drawn: %v", err)
	}
}

// Samples that nothing can be written beside are refused before anything is read of the features,
// unless the rows are there already.
func TestReadOnlySamples(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, drawn{"dispersed", "sweep", 4, 2}.sample)
	open := func() error {
		var err error
		powerless(t, w.Samples, func() {
			_, _, err = all.Builtin().Find(storetest.Disk, marius.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
		})
		return err
	}
	if err := open(); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), filepath.Join(w.Samples, marius.FeaturesFile)) {
		t.Errorf("without the rows: %v", err)
	}
	storetest.Open(t, find(t, w, 0), 1).FillFor(t, 0)
	if err := open(); err != nil {
		t.Errorf("with the rows: %v", err)
	}
}

// powerless calls f where the process may not write to a directory, whoever runs the test.
func powerless(t *testing.T, dir string, f func()) {
	t.Helper()
	st, err := os.Stat(dir)
	if err == nil {
		err = os.Chmod(dir, 0o555)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Chmod(dir, st.Mode()); err != nil {
			t.Error(err)
		}
	}()
	if os.Geteuid() == 0 {
		for up := filepath.Dir(dir); strings.Contains(up, "Test"); up = filepath.Dir(up) { // t.TempDir's
			if st, err := os.Stat(up); err == nil && st.Mode()&0o5 != 0o5 {
				if err := os.Chmod(up, st.Mode()|0o055); err != nil {
					t.Fatal(err)
				}
			}
		}
		// Of this thread alone; its real user may take the right back.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		const nobody, same = 65534, ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, nobody, same); errno != 0 {
			t.Skip(errno)
		}
		defer func() {
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, same, 0, same); errno != 0 {
				panic(errno) // the thread is of no use to other tests
			}
		}()
	}
	f()
}

// drawing is a source without samples.
type drawing struct{ featurestore.Source }

// RAM has room for the buffer, and for what comes next as memory allows, which is said.
func TestPlan(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{Params: datasettest.Params{Nodes: 1024, AvgDegree: 2, Dim: 256}, Batch: 40}, drawn{"dispersed", "sweep", 16, 4}.sample)
	c, _, err := all.Builtin().Find(storetest.Disk, marius.Name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
	if err != nil {
		t.Fatal(err)
	}
	o := featurestore.PlanOptions{Memory: 1 << 40, Slots: 2, EvalSlots: 1}
	whole, err := c.Plan(o)
	if err != nil || whole.CacheRows != 512 || whole.Policy != "" || whole.Ahead != 0 || whole.StateBytes != 0 || whole.Note != "4 of 16 partitions are in RAM, 64.0 KiB each; up to 4 of the next state are read beside training" {
		t.Fatalf("%+v, %v", whole, err)
	}
	o.Least = true
	least, err := c.Plan(o)
	if err != nil || least.CacheRows != 256 || least.Note != "4 of 16 partitions are in RAM, 64.0 KiB each; there is no room to read the next ones beside training" {
		t.Fatalf("%+v, %v", least, err)
	}
	o.Least, o.Memory = false, least.Bytes(2, 1)+3*64*1024-1
	if l, err := c.Plan(o); err != nil || l.CacheRows != 6*64 {
		t.Errorf("%+v, %v", l, err)
	}
	o.Memory = least.Bytes(2, 1) - 1
	if _, err := c.Plan(o); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("less than the buffer: %v", err)
	}
	o.Memory, o.Cache = 1<<40, &budget.Size{Value: 24, Unit: budget.UnitPercent}
	if _, err := c.Plan(o); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "--ram-cache 24% (245 rows) is too small: the store marius needs at least 256 rows in RAM") {
		t.Errorf("less than the buffer: %v", err)
	}
	o.Cache.Value = 45
	if l, err := c.Plan(o); err != nil || l.CacheRows != 7*64 {
		t.Errorf("%+v, %v", l, err)
	}
}
