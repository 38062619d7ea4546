package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

const mib = 1 << 20

// source is a directory to load.
type source struct {
	dir     string
	meta    *stage.Meta
	content map[string][]byte
}

// newSource makes a directory of random files; the seed tells it from others.
func newSource(t testing.TB, seed byte, sizes map[string]int) source {
	t.Helper()
	s := source{dir: t.TempDir(), content: map[string][]byte{}, meta: &stage.Meta{
		Format: stage.Format{Name: "diskgnn.test", Version: 3}, Fingerprint: binio.Hash([]byte{seed}),
	}}
	r := rand.NewChaCha8([32]byte{seed})
	sizes[stage.MetaFile] = 300
	for name, n := range sizes {
		b := make([]byte, n)
		r.Read(b)
		s.content[name] = b
		if err := os.MkdirAll(filepath.Dir(filepath.Join(s.dir, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(s.dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
		if name != stage.MetaFile {
			s.meta.Files = append(s.meta.Files, stage.File{Name: name, Size: int64(n)})
		}
	}
	return s
}

func small() map[string]int {
	return map[string]int{"empty": 0, "five": 5, "page": 4096, "parts/long": mib + 12345, "long": 70001}
}

func (s source) load(d []Drive, o Options) (Result, error) {
	if o.Journal == 0 {
		o.Journal = mib
	}
	if o.piece == 0 {
		o.piece = mib
	}
	return Load(context.Background(), d, vfs.OS, s.dir, s.meta, o)
}

// differs says in what a volume is not this directory; "" if it is.
func (s source) differs(v *Volume) string {
	c := v.Contents()
	if c.Fingerprint != s.meta.Fingerprint || c.Format != "diskgnn.test" || c.Version != 3 || len(c.Files) != len(s.content) {
		return fmt.Sprintf("%+v", c)
	}
	for name, want := range s.content {
		f := c.File(name)
		if f == nil {
			return name + " is missing"
		}
		got := make([]byte, f.Size)
		if err := v.Read(f, got, 0); err != nil {
			return err.Error()
		}
		if !bytes.Equal(got, want) {
			return name + " has other bytes"
		}
	}
	if err := v.Verify(context.Background(), progress.Discard); err != nil {
		return err.Error()
	}
	return ""
}

// What is loaded is found, on any drives; a second load does nothing.
func TestLoad(t *testing.T) {
	for _, x := range []struct {
		drives int
		unit   int64
		block  int
	}{{1, 0, 512}, {1, 4096, 4096}, {2, 4096, 512}, {3, 64 << 10, 2048}, {4, mib, 4096}} {
		t.Run(fmt.Sprint(x), func(t *testing.T) {
			m := newMemory(x.drives, 6*mib+512*8, x.block)
			s := newSource(t, 1, small())
			r, err := s.load(m.all(), Options{Unit: x.unit})
			if err != nil || r.State != stage.StateNew || r.Written != mib+12345+70001+4096+5+300 {
				t.Fatalf("%+v %v", r, err)
			}
			// Each page once; besides, both ends of each drive, two journals and tables.
			if most := int64(r.Volume.Contents().Bytes()) + int64(x.drives)*(head+tail) + 40*Page; m.wrote > most {
				t.Errorf("%d bytes are written, %d at most are needed", m.wrote, most)
			}
			m.crash()
			v, err := Open(m.all())
			if err != nil {
				t.Fatal(err)
			}
			if what := s.differs(v); what != "" {
				t.Error(what)
			}
			for name, want := range s.content {
				f := v.Contents().File(name)
				if len(f.Extents) > 1 {
					t.Errorf("%s is in %d pieces", name, len(f.Extents))
				}
				// What Locate says, byte by byte of the drives.
				var got []byte
				if last := f.Size / Page * Page; last < f.Size {
					drive, at, _ := v.Place(f).Locate(last)
					if b := m.drives[drive].now[at:][:Page]; !zero(b[f.Size-last:]) {
						t.Errorf("%s is not followed by zeros", name)
					}
				}
				for at := int64(0); at < f.Size; {
					drive, from, n := v.Place(f).Locate(at)
					if (from+n)%Page != 0 {
						t.Fatalf("%s: a run ends at byte %d of a drive", name, from+n)
					}
					n = min(n, f.Size-at)
					got = append(got, m.drives[drive].now[from:from+n]...)
					at += n
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s is not where Locate says", name)
				}
			}
			ops := m.ops
			if r, err = s.load(m.all(), Options{}); err != nil || r.State != stage.StateDone || r.Written != 0 || m.ops != ops {
				t.Errorf("again: %+v %v, %d operations", r, err, m.ops-ops)
			}
		})
	}
}

// After the power was cut at any operation of a load, the volume is the old directory or the
// new one, whole; the next load goes on, and ends with the new one.
func TestPowerCuts(t *testing.T) {
	older, newer := newSource(t, 1, small()), newSource(t, 2, small())
	for _, drives := range []int{1, 2} {
		for _, replace := range []bool{false, true} {
			resumed, olds, news := 0, 0, 0
			for cut := 0; ; cut++ {
				m := newMemory(drives, int64(6/drives+2)*mib, 512<<(3*(drives-1)))
				m.rng = rand.New(rand.NewPCG(uint64(cut), 7))
				if replace {
					if _, err := older.load(m.all(), Options{Unit: 64 << 10}); err != nil {
						t.Fatal(err)
					}
					m.ops = 0
				}
				m.cut = cut
				r, err := newer.load(m.all(), Options{Force: replace})
				if err == nil {
					if cut < 15 || resumed == 0 || news == 0 || replace && olds == 0 {
						t.Errorf("%d drives, replace %v: %d cuts, %d resumed, the old one %d times, the new one %d times", drives, replace, cut, resumed, olds, news)
					}
					break
				}
				if !errors.Is(err, errPower) {
					t.Fatalf("cut %d: %v", cut, err)
				}
				m.crash()
				v, err := Open(m.all())
				switch {
				case err == nil && v.Contents().Fingerprint == newer.meta.Fingerprint:
					news++
					if what := newer.differs(v); what != "" {
						t.Errorf("cut %d: the new one: %s", cut, what)
					}
				case err == nil:
					olds++
					if what := older.differs(v); !replace || what != "" {
						t.Errorf("cut %d: the old one: %s", cut, what)
					}
				case replace || !errors.Is(err, fault.ErrInput):
					t.Errorf("cut %d: %v", cut, err)
				}
				if r, err = newer.load(m.all(), Options{Force: replace}); err != nil {
					// The ends of drives that were being cleared may be half so.
					t.Fatalf("cut %d, run again: %v", cut, err)
				}
				if r.State == stage.StateResumed {
					resumed++
				}
				m.crash()
				if v, err = Open(m.all()); err != nil {
					t.Fatalf("cut %d: %v", cut, err)
				}
				if what := newer.differs(v); what != "" {
					t.Errorf("cut %d, run again: %s", cut, what)
				}
			}
		}
	}
}

// Over anything else, a drive has its label only once nothing of that is left at its ends; and
// the load goes on after any cut, by force.
func TestPowerCutsOverOtherData(t *testing.T) {
	s := newSource(t, 1, map[string]int{"a": 5000})
	labels := 0
	for seed := range uint64(80) {
		m := newMemory(2, 2*mib+40*Page, 512)
		m.rng = rand.New(rand.NewPCG(seed, 8))
		for _, d := range m.drives {
			for i := range d.now {
				d.now[i] = 0xff
			}
			copy(d.kept, d.now)
		}
		m.cut = int(seed % 12)
		if _, err := s.load(m.all(), Options{Unit: Page, Force: true}); !errors.Is(err, errPower) {
			t.Fatal(err)
		}
		m.crash()
		for i, d := range m.drives {
			if _, known, err := readLabel(d); err != nil || !known {
				continue
			}
			labels++
			if i > 0 && !zero(d.now[Page:head]) || i == 0 && !zero(d.now[Page:superblock]) || !zero(d.now[len(d.now)-tail:]) {
				t.Errorf("seed %d: drive %d has its label, and other data at its ends", seed, i)
			}
		}
		r, err := s.load(m.all(), Options{Unit: Page, Force: true})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if what := s.differs(r.Volume); what != "" {
			t.Errorf("seed %d: %s", seed, what)
		}
	}
	if labels < 20 {
		t.Errorf("%d labels were there", labels)
	}
}

// A load that resumes writes only what was not written, or is not what it was.
func TestResume(t *testing.T) {
	s := newSource(t, 1, map[string]int{"a": 3 * mib, "b": 2*mib + 1})
	m := newMemory(1, 16*mib, 512)
	refuse := func(v *Volume) error { return errors.New("not yet") }
	if _, err := s.load(m.all(), Options{Check: refuse}); err == nil {
		t.Fatal("the check is not called")
	}
	m.crash()
	if _, err := Open(m.all()); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("before it is checked: %v", err)
	}
	r, err := s.load(m.all(), Options{Check: refuse})
	if err == nil || r.State != stage.StateResumed || r.Written != 1+300 {
		t.Errorf("%+v %v", r, err)
	}
	// A byte of the second granule of b changes: b is written from there on, and meta.json.
	b, err := begun(m.all())
	if err != nil {
		t.Fatal(err)
	}
	drive, at, _ := b.Place(b.contents.File("b")).Locate(mib + 5)
	m.drives[drive].now[at]++
	r, err = s.load(m.all(), Options{})
	if err != nil || r.Written != mib+1+300 {
		t.Errorf("%+v %v", r, err)
	}
	if what := s.differs(r.Volume); what != "" {
		t.Error(what)
	}
}

// A directory that is damaged on the volume is loaded again by force, elsewhere.
func TestRepair(t *testing.T) {
	s := newSource(t, 1, small())
	m := newMemory(1, 8*mib, 512)
	r, err := s.load(m.all(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, at, _ := r.Volume.Place(r.Volume.Contents().File("five")).Locate(4)
	for _, damaged := range []bool{false, true} {
		if damaged {
			m.drives[0].now[at]++
		}
		if r, err = s.load(m.all(), Options{}); err != nil || r.State != stage.StateDone {
			t.Errorf("damaged %v: %+v %v", damaged, r, err)
		}
		r, err = s.load(m.all(), Options{Force: true})
		if err != nil || (r.State == stage.StateDone) == damaged || damaged != strings.Contains(r.Note, "five: bytes 0 to 5 do not match") {
			t.Errorf("damaged %v, by force: %+v %v", damaged, r, err)
		}
	}
	if what := s.differs(r.Volume); what != "" {
		t.Error(what)
	}
}

// begun opens what is under way.
func begun(d []Drive) (*Volume, error) {
	v, err := find(d)
	if err != nil {
		return nil, err
	}
	v.contents, err = v.table(v.super.underWay)
	return v, err
}

// An error of any operation ends a load, which the next one goes on with.
func TestFailures(t *testing.T) {
	older, newer := newSource(t, 1, small()), newSource(t, 2, small())
	for op := 0; ; op++ {
		m := newMemory(2, 12*mib, 512)
		if _, err := older.load(m.all(), Options{}); err != nil {
			t.Fatal(err)
		}
		m.ops, m.fail = 0, map[int]bool{op: true}
		_, err := newer.load(m.all(), Options{Force: true})
		if err == nil {
			if op < 15 {
				t.Errorf("%d operations", op)
			}
			break
		}
		v, err := Open(m.all())
		if err != nil {
			t.Fatalf("operation %d: %v", op, err)
		}
		if what := older.differs(v); v.Contents().Fingerprint == older.meta.Fingerprint && what != "" {
			t.Errorf("operation %d: %s", op, what)
		}
		if r, err := newer.load(m.all(), Options{Force: true}); err != nil || newer.differs(r.Volume) != "" {
			t.Errorf("operation %d, again: %v", op, err)
		}
	}
	for read := 0; ; read++ {
		m := newMemory(2, 12*mib, 512)
		m.failRd = read
		_, err := newer.load(m.all(), Options{})
		if err == nil {
			if read < 3 {
				t.Errorf("%d reads", read)
			}
			break
		}
		if m.failRd = -1; m.ops > 0 {
			t.Errorf("read %d fails, and the load writes: %v", read, err)
		}
	}
}

// A context that ends leaves a journal of all that was written.
func TestCancel(t *testing.T) {
	s := newSource(t, 1, map[string]int{"a": 6 * mib})
	m := newMemory(1, 16*mib, 512)
	ctx, cancel := context.WithCancel(context.Background())
	o := Options{Journal: 1 << 40, piece: mib, Reporter: &stopper{at: 2 * mib, stop: cancel}}
	_, err := Load(ctx, m.all(), vfs.OS, s.dir, s.meta, o)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	m.crash()
	r, err := s.load(m.all(), Options{})
	if err != nil || r.State != stage.StateResumed || r.Written > 4*mib+300 {
		t.Errorf("%+v %v", r, err)
	}
}

// What drives hold is not replaced without force.
func TestRefusals(t *testing.T) {
	one, other := newSource(t, 1, small()), newSource(t, 2, small())
	mark := func(at int64, text string) func(m *memory) {
		return func(m *memory) {
			d := m.drives[len(m.drives)-1]
			if at < 0 {
				at += int64(len(d.now))
			}
			copy(d.now[at:], text)
		}
	}
	for _, x := range []struct {
		what    string
		prepare func(m *memory)
		want    string
	}{
		{"GPT", mark(512, "EFI PART"), "a partition table"},
		{"GPT's copy", mark(-512, "EFI PART"), "its copy at the end"},
		{"MBR", mark(510, "\x55\xaa"), "partition table (MBR)"},
		{"ext4", mark(0x438, "\x53\xef"), "an ext file system"},
		{"XFS", mark(0, "XFSB"), "an XFS file system"},
		{"Btrfs", mark(0x10040, "_BHRfS_M"), "Btrfs"},
		{"anything", mark(700000, "x"), "of an unknown kind"},
		{"anything at the end", mark(-1, "x"), "of an unknown kind"},
		{"another directory", func(m *memory) {
			if _, err := other.load(m.all(), Options{}); err != nil {
				panic(err)
			}
		}, "holds another directory (diskgnn.test, "},
		{"another directory under way", func(m *memory) {
			if _, err := other.load(m.all(), Options{Check: func(*Volume) error { return errPower }}); err == nil {
				panic("done")
			}
		}, "was not finished; --force discards it"},
		{"a drive of another volume", func(m *memory) {
			if _, err := other.load(newMemoryOf(m.drives[1]), Options{}); err != nil {
				panic(err)
			}
		}, "drive 0 of 1 of a volume"},
		{"a damaged label", func(m *memory) {
			if _, err := one.load(m.all(), Options{}); err != nil {
				panic(err)
			}
			m.drives[0].now[100]++
		}, "does not match its checksum"},
		{"a damaged table", func(m *memory) {
			r, err := one.load(m.all(), Options{})
			if err != nil {
				panic(err)
			}
			drive, at, _ := r.Volume.layout.Locate(r.Volume.super.force.first * Page)
			m.drives[drive].now[at+20]++
		}, "table of memory0,memory1 does not match"},
		{"damaged superblocks", func(m *memory) {
			if _, err := one.load(m.all(), Options{}); err != nil {
				panic(err)
			}
			m.drives[0].now[superAt(0)+5]++
			m.drives[0].now[superAt(1)+5]++
		}, "both superblocks"},
		{"another unit", func(m *memory) {
			if _, err := one.load(m.all(), Options{Unit: 4096}); err != nil {
				panic(err)
			}
		}, "units of 4096 bytes, not of 1048576"},
	} {
		t.Run(x.what, func(t *testing.T) {
			m := newMemory(2, 12*mib, 512)
			x.prepare(m)
			o, ops := Options{Unit: mib}, m.ops
			_, err := one.load(m.all(), o)
			if err == nil || !strings.Contains(err.Error(), x.want) || !strings.Contains(err.Error(), "--force") {
				t.Errorf("%v, want %q", err, x.want)
			}
			if m.ops != ops {
				t.Errorf("%d operations all the same", m.ops-ops)
			}
			o.Force = true
			r, err := one.load(m.all(), o)
			if err != nil {
				t.Fatal(err)
			}
			if what := one.differs(r.Volume); what != "" {
				t.Error(what)
			}
		})
	}
}

func newMemoryOf(d *memoryDrive) []Drive { return []Drive{d} }

// Either superblock may be lost once a load has ended.
func TestEitherSuperblock(t *testing.T) {
	for g := range uint64(2) {
		m := newMemory(1, 12*mib, 512)
		s := newSource(t, 1, small())
		if _, err := newSource(t, 2, small()).load(m.all(), Options{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.load(m.all(), Options{Force: true}); err != nil {
			t.Fatal(err)
		}
		m.drives[0].now[superAt(g)+9]++
		v, err := Open(m.all())
		if err != nil {
			t.Fatal(err)
		}
		if what := s.differs(v); what != "" {
			t.Error(what)
		}
	}
}

// Where both directories do not fit, the old one is given up, by force; where the new one does
// not fit by itself, the old one stays.
func TestRoom(t *testing.T) {
	m := newMemory(1, 9*mib, 512) // 7 MiB of data
	half, most, much := newSource(t, 1, map[string]int{"a": 4 * mib}), newSource(t, 2, map[string]int{"a": 5 * mib}), newSource(t, 3, map[string]int{"a": 7 * mib})
	if _, err := half.load(m.all(), Options{}); err != nil {
		t.Fatal(err)
	}
	ops := m.ops
	if _, err := much.load(m.all(), Options{Force: true}); !errors.Is(err, fault.ErrBudget) || m.ops != ops {
		t.Errorf("%v, %d operations", err, m.ops-ops)
	}
	r, err := most.load(m.all(), Options{Force: true})
	if err != nil || !strings.Contains(r.Note, "was discarded first") {
		t.Fatalf("%v, note %q", err, r.Note)
	}
	if what := most.differs(r.Volume); what != "" {
		t.Error(what)
	}
}

// A table under way that takes what is in force is not gone on with.
func TestForgedPlaces(t *testing.T) {
	older, newer := newSource(t, 1, map[string]int{"a": 5000}), newSource(t, 2, map[string]int{"a": 5000})
	m := newMemory(1, 4*mib, 512)
	r, err := older.load(m.all(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := r.Volume
	c, err := contentsOf(vfs.OS, newer.dir, newer.meta)
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Files {
		c.Files[i].Extents = v.contents.Files[i].Extents
	}
	at, err := (&loader{v: v, c: c}).store()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.advance(v.super.force, at); err != nil {
		t.Fatal(err)
	}
	if _, err := newer.load(m.all(), Options{Force: true, Check: func(*Volume) error { return errPower }}); !errors.Is(err, errPower) {
		t.Fatal(err)
	}
	if v, err = Open(m.all()); err != nil {
		t.Fatal(err)
	}
	if what := older.differs(v); what != "" {
		t.Error(what)
	}
}

// A table in force that has not all of its granules is damage.
func TestUnfinishedInForce(t *testing.T) {
	m := newMemory(1, 4*mib, 512)
	r, err := newSource(t, 1, map[string]int{"a": 5000}).load(m.all(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := r.Volume
	v.contents.written--
	at, err := (&loader{v: v, c: v.contents}).store()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.advance(at, ref{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(m.all()); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "1 of 2 granules") {
		t.Error(err)
	}
}

// What is given up while it is under way leaves all its room, also that of its table.
func TestRoomOfWhatIsGivenUp(t *testing.T) {
	m := newMemory(1, 2*mib+40*Page, 512)
	long := map[string]int{}
	for i := range 10 {
		long[strings.Repeat(strings.Repeat("n", 200)+"/", 4)+fmt.Sprint(i)] = 1 // a table of 4 pages
	}
	o := Options{Unit: Page, Force: true, Check: func(*Volume) error { return errPower }}
	if _, err := newSource(t, 1, long).load(m.all(), o); !errors.Is(err, errPower) {
		t.Fatal(err)
	}
	empty, most := newMemory(1, 2*mib+40*Page, 512), newSource(t, 3, map[string]int{"a": 38 * Page})
	if _, err := most.load(empty.all(), o); !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "no room on memory0: 164.0 KiB are needed, but 160.0 KiB are free") || empty.ops > 0 {
		t.Errorf("a page too many: %v", err)
	}
	ops := m.ops
	if _, err := most.load(m.all(), o); !errors.Is(err, fault.ErrBudget) || m.ops > ops {
		t.Errorf("a page too many, for what is under way to be given up: %v", err)
	}
	s := newSource(t, 2, map[string]int{"a": 37 * Page}) // two tables of a page, and meta.json
	o.Check = nil
	r, err := s.load(m.all(), o)
	if err != nil {
		t.Fatal(err)
	}
	if what := s.differs(r.Volume); what != "" {
		t.Error(what)
	}
}

func TestUnits(t *testing.T) {
	for _, unit := range []int64{-4096, 1, 2048, 5000, 12288, 2 << 30} {
		m := newMemory(1, 4*mib, 512)
		if _, err := newSource(t, 1, map[string]int{}).load(m.all(), Options{Unit: unit}); !errors.Is(err, fault.ErrUsage) || m.ops > 0 {
			t.Errorf("%d: %v", unit, err)
		}
	}
	if _, err := newSource(t, 1, map[string]int{}).load(nil, Options{}); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("no drives: %v", err)
	}
}

// Drives in another order, or not all of them, are no volume.
func TestWrongDrives(t *testing.T) {
	m := newMemory(3, 6*mib, 512)
	if _, err := newSource(t, 1, small()).load(m.all(), Options{}); err != nil {
		t.Fatal(err)
	}
	d := m.all()
	for _, x := range []struct {
		drives []Drive
		want   string
	}{
		{[]Drive{d[1], d[0], d[2]}, "memory1 is drive 1 of a volume of 3, not drive 0 of 3"},
		{d[:2], "memory0 is drive 0 of a volume of 3, not drive 0 of 2"},
		{newMemory(1, 6*mib, 512).all(), "no label"},
		{newMemory(1, mib, 512).all(), "bytes: a drive of a volume needs more than"},
	} {
		if _, err := Open(x.drives); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v, want %q", err, x.want)
		}
	}
	other := newMemory(3, 6*mib, 512)
	if _, err := newSource(t, 1, small()).load(other.all(), Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open([]Drive{d[0], other.all()[1], d[2]}); !errors.Is(err, fault.ErrInput) || !strings.Contains(err.Error(), "another volume") {
		t.Errorf("%v", err)
	}
}

// Every byte that a volume says something by is checked.
func TestFlippedBytes(t *testing.T) {
	m := newMemory(1, 8*mib, 512)
	s := newSource(t, 1, map[string]int{"a": 7000, "b": 3})
	if _, err := s.load(m.all(), Options{}); err != nil {
		t.Fatal(err)
	}
	d := m.drives[0]
	v, err := Open(m.all())
	if err != nil {
		t.Fatal(err)
	}
	check := func() error {
		v, err := Open(m.all())
		if err != nil {
			return err
		}
		return v.Verify(context.Background(), progress.Discard)
	}
	table := head + v.super.force.first*Page
	for at := int64(0); at < int64(len(d.now)); at++ {
		inTable := at >= table && at < table+v.super.force.bytes
		if at >= sector && !inTable && (at%89 != 0 || !v.has(at)) {
			continue
		}
		d.now[at] ^= 4
		if err := check(); err == nil || at >= sector && !errors.Is(err, fault.ErrCorrupt) {
			t.Fatalf("byte %d: %v", at, err)
		}
		d.now[at] ^= 4
	}
	if err := check(); err != nil {
		t.Error(err)
	}
}

// has reports whether a byte of drive 0 is one of a file.
func (v *Volume) has(at int64) bool {
	for _, f := range v.contents.Files {
		if from := head + f.Extents[0].First*Page; at >= from && at < from+f.Size {
			return true
		}
	}
	return false
}
