package cuda

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"diskgnn/device"
)

// TestLaunch: a kernel is launched by its index, with its arguments in their order; the first
// argument that is wrong is the error, and nothing is launched.
func TestLaunch(t *testing.T) {
	d, f := openFake(t, Options{})
	s, _ := d.NewStream()
	defer s.Free()
	f.launches = []string{}
	l := s.Launch("work")
	l.Buffer("the rows", device.NewBuffer(4096, 8), 8)
	l.Optional("the index", Buffer{}, 8)
	l.Int(-1)
	l.Bool(true)
	l.Word(7)
	if err := l.Run(1, Dims{1, 1}, Dims{1, 1}); err != nil {
		t.Fatal(err)
	}
	if want := []uint64{4096, 0, 1<<64 - 1, 1, 7}; !slices.Equal(f.args, want) || !slices.Equal(f.launches, []string{"two"}) {
		t.Errorf("%v with %v, want %v", f.launches, f.args, want)
	}
	l = s.Launch("nothing")
	if err := l.Run(0, Dims{0, 1}, Dims{1, 1}); err != nil {
		t.Error(err)
	}
	for want, wrong := range map[string]func(l *Launch) int{
		"cuda: work: the rows of 8 bytes, but 9 are needed":     func(l *Launch) int { l.Buffer("the rows", device.NewBuffer(1, 8), 9); return 0 },
		"the index of 7 bytes, but 8 are needed":                func(l *Launch) int { l.Optional("the index", device.NewBuffer(1, 7), 8); return 0 },
		"cuda: work: 3 rows":                                    func(l *Launch) int { l.Fail("%d rows", 3); l.Fail("more"); return 0 },
		"cuda: work: the device was opened without function 2":  func(*Launch) int { return 2 },
		"cuda: work: the device was opened without function -1": func(*Launch) int { return -1 },
	} {
		l := s.Launch("work")
		if err := l.Run(wrong(&l), Dims{1, 1}, Dims{1, 1}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if len(f.launches) != 1 {
		t.Errorf("launched: %v", f.launches)
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
	x, y, z := device.NewBuffer(1, 4*6), device.NewBuffer(2, 4*12), device.NewBuffer(3, 4*8)
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
	}{{device.NewBuffer(1, 23), 4, "first factor"}, {x, 3, "a stride of 3"}, {x, 5, "the product"}} {
		err := b.Sgemm(true, false, 2, 4, 3, 1, c.x, 2, y, 4, 0, z, c.ldz)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestStepsAllocateNothing: what a training step asks of a stream costs no garbage.
func TestStepsAllocateNothing(t *testing.T) {
	d, _ := openFake(t, Options{})
	s, _ := d.NewStream()
	defer s.Free()
	blas, _ := s.NewBLAS(Buffer{})
	defer blas.Free()
	e, _ := d.NewEvent()
	defer e.Free()
	b, host := device.NewBuffer(4096, 4096), make([]byte, 64)
	step := func() error {
		l := s.Launch("work")
		l.Buffer("the rows", b, 4096)
		l.Int(1)
		return errors.Join(s.CopyIn(b, host), e.Record(s), s.Wait(e), l.Run(0, Dims{1, 1}, Dims{1, 1}),
			blas.Sgemm(false, false, 2, 2, 2, 1, b, 2, b, 2, 0, b, 2), s.Synchronize())
	}
	if err := step(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { _ = step() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestLoad: code is loaded beside what a device was opened with; a function that is there
// already is not loaded again.
func TestLoad(t *testing.T) {
	d, f := openFake(t, Options{})
	two := f.code().Functions[1]
	more := Code{Functions: []Function{{"more", "three"}, two, {"more", "four"}}, Image: func(string) ([]byte, error) { return []byte{1}, nil }}
	for range 2 {
		if at, err := d.Load(more); err != nil || !slices.Equal(at, []int{2, 1, 3}) {
			t.Fatalf("functions %v, %v", at, err)
		}
	}
	s, _ := d.NewStream()
	defer s.Free()
	f.launches = []string{}
	l := s.Launch("more work")
	if err := l.Run(3, Dims{1, 1}, Dims{1, 1}); err != nil || !slices.Equal(f.launches, []string{"four"}) {
		t.Errorf("%v, %v", f.launches, err)
	}
	f.fail = map[string]error{"function": errors.New("none")}
	if _, err := d.Load(Code{Functions: []Function{{"more", "five"}}, Image: more.Image}); err == nil || !strings.Contains(err.Error(), "find kernel five") {
		t.Error(err)
	}
}
