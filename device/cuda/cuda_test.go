package cuda

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/dtype"
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
		_, err := open(f, 0, Options{})
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
		if at[i], err = a.Take(n); err != nil || at[i].Bytes() != n || at[i].address%Align != 0 {
			t.Fatalf("buffer %d: %+v, %v", i, at[i], err)
		}
	}
	if at[1].address != at[0].address+256 || at[2].address != at[1].address+256 {
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
	b := Buffer{4096, 64}
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
	for i, err2 := range []error{s.Synchronize(), other.Synchronize(), other.Fill(b, 1), other.Copy(b, b), e.Synchronize(),
		other.Gather(&Gather{Type: dtype.Float32})} {
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
	b := Buffer{4096, 64}
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
	b := Buffer{4096, 64}
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

// TestLaunchesCheckTheirBuffers: what a kernel would write beyond is refused.
func TestLaunchesCheckTheirBuffers(t *testing.T) {
	d, f := openFake(t, Options{})
	s, _ := d.NewStream()
	defer s.Free()
	f.launches = []string{}
	b := func(n int64) Buffer { return Buffer{1 << 20, n} }
	for i, c := range []struct {
		err  error
		want string
	}{
		{s.Gather(&Gather{Out: b(79), Stride: 4, Table: b(80), Type: dtype.Float32, Width: 4, Rows: Rows(5)}), "the output of 79 bytes, 80"},
		{s.Gather(&Gather{Out: b(80), Stride: 4, Table: b(79), Type: dtype.Float32, Width: 4, Rows: Rows(5)}), "the table"},
		{s.Gather(&Gather{Out: b(80), Stride: 4, Table: b(80), Type: dtype.Float32, Width: 4, Index: b(19), Rows: Rows(5)}), "the index"},
		{s.Gather(&Gather{Out: b(80), Stride: 3, Table: b(80), Type: dtype.Float32, Width: 4, Rows: Rows(5)}), "3 apart"},
		{s.Gather(&Gather{Out: b(80), Stride: 4, Table: b(80), Type: "float64", Width: 4, Rows: Rows(5)}), "float64"},
		{s.Gather(&Gather{Rows: Rows(-1), Type: dtype.Float32}), "-1 rows"},
		{s.Aggregate(&Aggregate{Out: b(80), Stride: 4, Width: 4, Indptr: b(23), Rows: Rows(5)}), "indptr"},
		{s.Aggregate(&Aggregate{Out: b(80), Stride: 4, Width: 4, Indptr: b(24), Indices: b(3), Edges: 1, Rows: Rows(5)}), "indices"},
		{s.Tail(&Tail{Z: b(80), Width: 4, Bias: b(15), Rows: Rows(5)}), "the bias"},
		{s.Tail(&Tail{Activation: 9}), "activation 9"},
		{s.TailBackward(&TailBackward{G: b(80), Y: b(80), Activation: ReLU, Width: 4, Sums: b(15), Rows: Rows(5)}), "the sums"},
		{s.CrossEntropy(&CrossEntropy{G: b(20), Z: b(20), Classes: 1, Labels: b(20), Inverse: b(4), RowLoss: b(39), Rows: Rows(5)}), "losses"},
		{s.Adam(&Adam{Weights: b(20), Grads: b(20), Moment1: b(20), Moment2: b(20), Step: b(35), Parameters: 5}), "the step"},
		{s.ZeroPadding(&ZeroPadding{X: b(80), Stride: 4, Width: 4, Rows: Count{5, b(3)}}), "number of rows"},
		{s.EdgeSoftmax(&EdgeSoftmax{Weights: b(39), Heads: 2, Edges: 5}), "the weights"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("case %d: %v, want %q", i, c.err, c.want)
		}
	}
	if len(f.launches) > 0 {
		t.Errorf("launched: %v", f.launches)
	}
}

// TestLaunchChoosesTheWidth: four floats at a time where everything allows it.
func TestLaunchChoosesTheWidth(t *testing.T) {
	d, f := openFake(t, Options{})
	s, _ := d.NewStream()
	defer s.Free()
	f.launches = []string{}
	for _, c := range []struct {
		width, stride int
		address       uint64
		want          string
	}{{8, 8, 4096, "gather_float32_4"}, {7, 8, 4096, "gather_float32_"}, {8, 9, 4096, "gather_float32_"}, {8, 8, 4104, "gather_float32_"}} {
		err := s.Gather(&Gather{Out: Buffer{c.address, 1000}, Stride: c.stride, Table: Buffer{8192, 1000}, Type: dtype.Float32, Width: c.width, Rows: Rows(5)})
		if err != nil || f.launches[len(f.launches)-1] != c.want {
			t.Errorf("%+v: %v, %v", c, f.launches, err)
		}
	}
	if want := []uint64{4104, 8, 8192, 32, 0, 8, 0, 5}; !slices.Equal(f.args, want) {
		t.Errorf("arguments %v, want %v", f.args, want)
	}
}

func TestProductsInTermsOfColumns(t *testing.T) {
	d, _ := openFake(t, Options{})
	s, _ := d.NewStream()
	defer s.Free()
	b, err := s.NewBLAS(Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Free()
	x, y, z := Buffer{1, 4 * 6}, Buffer{2, 4 * 12}, Buffer{3, 4 * 8}
	if err := b.Sgemm(true, false, 2, 4, 3, 1, x, 2, y, 4, 0, z, 4); err != nil {
		t.Fatal(err)
	}
	if want := (gemm{transB: true, m: 4, n: 2, k: 3, alpha: 1, a: 2, b: 1, c: 3, lda: 4, ldb: 2, ldc: 4}); b.product != want {
		t.Errorf("%+v, want %+v", b.product, want)
	}
	for _, c := range []struct {
		x    Buffer
		ldz  int
		want string
	}{{Buffer{1, 23}, 4, "first factor"}, {x, 3, "3 apart"}, {x, 5, "the product"}} {
		err := b.Sgemm(true, false, 2, 4, 3, 1, c.x, 2, y, 4, 0, z, c.ldz)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestStepsAllocateNothing: what a training step asks for costs no garbage.
func TestStepsAllocateNothing(t *testing.T) {
	d, _ := openFake(t, Options{})
	s, _ := d.NewStream()
	defer s.Free()
	blas, _ := s.NewBLAS(Buffer{})
	defer blas.Free()
	e, _ := d.NewEvent()
	defer e.Free()
	b, host := Buffer{4096, 4096}, make([]byte, 64)
	step := func() error {
		return errors.Join(s.CopyIn(b, host), e.Record(s), s.Wait(e),
			s.Gather(&Gather{Out: b, Stride: 4, Table: b, Type: dtype.Float32, Width: 4, Rows: Rows(5)}),
			s.Aggregate(&Aggregate{Out: b, Stride: 4, X: b, Width: 4, Indptr: b, Indices: b, Edges: 8, Rows: Rows(5)}),
			s.Tail(&Tail{Z: b, Width: 4, Bias: b, Activation: ReLU, Rows: Rows(5)}),
			s.TailBackward(&TailBackward{G: b, Y: b, Sums: b, DBias: b, Width: 4, Activation: ReLU, Rows: Rows(5)}),
			s.CrossEntropy(&CrossEntropy{G: b, Z: b, Classes: 3, Labels: b, Inverse: b, RowLoss: b, Right: b, Score: b, Rows: Rows(5)}),
			s.Adam(&Adam{Weights: b, Grads: b, Moment1: b, Moment2: b, Step: b, Parameters: 5}),
			blas.Sgemm(false, false, 2, 2, 2, 1, b, 2, b, 2, 0, b, 2), s.Synchronize())
	}
	if err := step(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { _ = step() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
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
