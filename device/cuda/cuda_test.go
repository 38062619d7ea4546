package cuda

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"diskgnn/device"
	"diskgnn/internal/fault"
)

var (
	outOfMemory = &status{call: "cuMemAlloc", why: "OUT_OF_MEMORY", outOfMemory: true}
	illegal     = &status{call: "cuStreamSynchronize", why: "ILLEGAL_ADDRESS", lost: true}
	refused     = &status{call: "cuX", why: "INVALID_VALUE"}
)

func is(t *testing.T, err, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("%v, want one of kind %q", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
}

func TestOpenOrTheReason(t *testing.T) {
	f := newFake()
	_, err := open(f, 2, Options{})
	is(t, err, ErrNoDevice, "no GPU 2", "has 2")
	f.devices = 0
	_, err = open(f, 0, Options{})
	is(t, err, ErrNoDevice, "no device")
	f.fail["count"] = refused
	_, err = open(f, 0, Options{})
	is(t, err, ErrNoDevice, "INVALID_VALUE")
	for _, call := range []string{"describe", "retain", "bind", "image", "function"} {
		f := newFake()
		f.fail[call] = refused
		_, err := open(f, 0, Options{Code: f.code()})
		is(t, err, fault.ErrDevice, "INVALID_VALUE")
		if len(f.live) > 0 {
			t.Errorf("%s failed: %v left behind", call, f.live)
		}
	}
}

func TestMemoryIsABudget(t *testing.T) {
	d, f := openFake(t, Options{DeviceBytes: 1000, PinnedBytes: 100})
	_, err := d.NewArena(1025)
	is(t, err, fault.ErrBudget, "GPU memory")
	a, err := d.NewArena(600) // 768 with alignment
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.NewArena(257)
	is(t, err, fault.ErrBudget, "768", "1000")
	if device, _ := d.Held(); device != 768 {
		t.Errorf("%d bytes held", device)
	}
	var at [3]Buffer
	for i, n := range []int64{1, 256, 256} {
		if at[i], err = a.Take(n); err != nil || at[i].Bytes() != n || at[i].Address()%Align != 0 {
			t.Fatalf("buffer %d: %+v, %v", i, at[i], err)
		}
	}
	if at[1].Address() != at[0].Address()+256 || at[2].Address() != at[1].Address()+256 {
		t.Errorf("%+v", at)
	}
	_, err = a.Take(1)
	is(t, err, fault.ErrBudget)
	a.Free()
	a.Free()

	f.fail["alloc"] = outOfMemory
	_, err = d.NewArena(1)
	is(t, err, fault.ErrBudget, "OUT_OF_MEMORY")
	if device, _ := d.Held(); device != 0 {
		t.Errorf("%d bytes held", device)
	}

	p, err := d.NewPinned(60)
	if err != nil || len(p.Bytes()) != 60 || len(p.Float32s()) != 15 {
		t.Fatal(p, err)
	}
	_, err = d.Register(make([]byte, 41))
	is(t, err, fault.ErrBudget, "pinned memory")
	q, err := d.Register(make([]byte, 40))
	if err != nil {
		t.Fatal(err)
	}
	q.Free()
	p.Free()
	p.Free()
	f.fail["register"], f.fail["pin"] = refused, outOfMemory
	_, err = d.Register(make([]byte, 1))
	is(t, err, fault.ErrDevice)
	_, err = d.NewPinned(1)
	is(t, err, fault.ErrBudget)
}

// TestArenaCounts: the zero arena knows what is needed.
func TestArenaCounts(t *testing.T) {
	var a Arena
	for _, n := range []int64{1, 0, 300, 256} {
		if b, err := a.Take(n); err != nil || b != (Buffer{}) {
			t.Fatal(b, err)
		}
	}
	if a.Used() != 256+512+256 {
		t.Errorf("%d bytes", a.Used())
	}
}

func TestFaultsNameTheWork(t *testing.T) {
	d, f := openFake(t, Options{})
	s, _ := d.NewStream()
	defer s.Free()
	other, _ := d.NewStream()
	defer other.Free()
	e, _ := d.NewEvent()
	defer e.Free()
	b := device.NewBuffer(4096, 64)
	f.fail["set"] = refused
	is(t, s.Fill(b, 0), fault.ErrDevice, "fill", "INVALID_VALUE")
	delete(f.fail, "set")
	for range 20 {
		if err := s.Fill(b, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Copy(b, b); err != nil {
		t.Fatal(err)
	}
	if err := e.Record(s); err != nil {
		t.Fatal(err)
	}
	f.fail["done"], f.fail["sync"] = illegal, illegal
	_, err := e.Done()
	is(t, err, fault.ErrDevice, "(…, fill", "fill, copy)", "ILLEGAL_ADDRESS")
	// The device is lost, by the first fault, to everybody.
	delete(f.fail, "sync")
	launch := other.Launch("kernel")
	for i, err2 := range []error{s.Synchronize(), other.Synchronize(), other.Fill(b, 1), other.Copy(b, b), e.Synchronize(),
		launch.Run(0, Dims{1, 1}, Dims{1, 1})} {
		if err2 == nil || err2.Error() != err.Error() {
			t.Errorf("call %d afterwards: %v", i, err2)
		}
	}
	if _, err2 := other.Capture("g", func() error { return nil }); err2 == nil || err2.Error() != err.Error() {
		t.Errorf("capture afterwards: %v", err2)
	}
}

// TestSynchronous: the fault of a launch comes from that launch.
func TestSynchronous(t *testing.T) {
	d, f := openFake(t, Options{Synchronous: true})
	s, _ := d.NewStream()
	defer s.Free()
	b := device.NewBuffer(4096, 64)
	if err := s.Fill(b, 0); err != nil {
		t.Fatal(err)
	}
	f.fail["sync"] = illegal
	is(t, s.Copy(b, b), fault.ErrDevice, "GPU work (copy)")
}

func TestGraphs(t *testing.T) {
	d, f := openFake(t, Options{})
	s, _ := d.NewStream()
	defer s.Free()
	b := device.NewBuffer(4096, 64)
	fill := func() error { return s.Fill(b, 0) }
	g, err := s.Capture("forward", fill)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Free()
	if err := g.Update(s, fill); err != nil {
		t.Fatal(err)
	}
	if err := g.Launch(s); err != nil {
		t.Fatal(err)
	}
	if got := s.pending.describe(); got != "GPU work (forward)" {
		t.Error(got) // what was captured is not under way
	}
	wrong := errors.New("wrong")
	for call, want := range map[string]error{"": wrong, "begin": fault.ErrDevice, "end": fault.ErrDevice, "make exec": fault.ErrDevice} {
		clear(f.fail)
		f.fail[call] = refused
		_, err := s.Capture("backward", func() error {
			if call == "" {
				return wrong
			}
			return nil
		})
		is(t, err, want)
	}
	clear(f.fail)
	f.fail["update"] = refused
	is(t, g.Update(s, fill), fault.ErrDevice, "forward")
}

func TestPendingWithoutWork(t *testing.T) {
	var p pending
	if got := p.describe(); got != "wait for the GPU" {
		t.Error(got)
	}
	for i := range 13 {
		p.add(fmt.Sprint(i))
	}
	if got := p.describe(); got != "GPU work (…, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)" {
		t.Error(got)
	}
}

// TestLimit: a device's budget can be made smaller, and as large as its memory again.
func TestLimit(t *testing.T) {
	d, _ := openFake(t, Options{})
	d.Limit(512)
	_, err := d.NewArena(513)
	is(t, err, fault.ErrBudget, "512")
	for _, bytes := range []int64{0, 1 << 40} { // the fake has 1 MiB
		d.Limit(bytes)
		_, err = d.NewArena(1<<20 + 1)
		is(t, err, fault.ErrBudget, "1.0 MiB")
		a, err := d.NewArena(1 << 20)
		if err != nil {
			t.Fatal(err)
		}
		a.Free()
	}
}
