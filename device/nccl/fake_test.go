package nccl

import (
	"testing"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
)

// fake is a library whose every answer is written down.
type fake struct {
	number  int32
	joined  Status   // that join returns
	given   Status   // that collectives, and finalize, return
	states  []Status // that state reports, one after the other; the last one again and again
	asked   Status   // that asking returns
	aborted int
	freed   int
	reduced []int // elements of all-reduces, bytes of broadcasts negative
	text    string
	config  config
}

const made comm = 77

func (f *fake) version() int32 { return f.number }
func (f *fake) path() string   { return "libfake.so" }
func (f *fake) uniqueID(id *ID) Status {
	id[0], id[127] = 1, 2
	return f.joined
}
func (f *fake) join(c *comm, world, rank int32, id *ID, o *config) Status {
	if id[0] != 1 || id[127] != 2 {
		return InvalidArgument
	}
	*c, f.config = made, *o
	return f.joined
}
func (f *fake) state(_ comm, s *Status) Status {
	*s = f.states[0]
	if len(f.states) > 1 {
		f.states = f.states[1:]
	}
	return f.asked
}
func (f *fake) allReduce(_ uintptr, count int, dtype, op int32, _ comm, _ uintptr) Status {
	if dtype != 7 || op != 0 {
		return InvalidArgument
	}
	f.reduced = append(f.reduced, count)
	return f.given
}
func (f *fake) broadcast(_ uintptr, count int, _, _ int32, _ comm, _ uintptr) Status {
	f.reduced = append(f.reduced, -count)
	return f.given
}
func (f *fake) abort(comm) Status     { f.aborted++; return Success }
func (f *fake) finalize(comm) Status  { return f.given }
func (f *fake) destroy(comm) Status   { f.freed++; return Success }
func (f *fake) lastError(comm) string { return f.text }
func peaceful() *fake                 { return &fake{number: 23007, states: []Status{Success}} }
func hanging() *fake {
	return &fake{number: 23007, states: []Status{InProgress}, joined: InProgress, given: InProgress}
}
func (c *ticking) Now() time.Time        { return c.now }
func (c *ticking) Sleep(d time.Duration) { c.now = c.now.Add(d); c.slept++ }

// ticking is a clock that waiting alone moves.
type ticking struct {
	now   time.Time
	slept int
}

// stream returns a stream of an emulated device, with a buffer of it.
func stream(t *testing.T, bytes int64) (*cuda.Stream, cuda.Buffer) {
	t.Helper()
	d := cudatest.Open(t)
	detach, err := d.Attach()
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.NewArena(bytes)
	if err != nil {
		t.Fatal(err)
	}
	x, err := a.Take(bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Free(); s.Free(); detach() })
	return s, x
}
