package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/internal/dtype"
)

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
		{s.Aggregate(&Aggregate{Out: b(80), Stride: 4, Width: 4, Indptr: b(24), OwnX: b(80), Beside: true, Rows: Rows(5)}), "rows of 8 in the output, 4 apart"},
		{s.Aggregate(&Aggregate{Out: b(80), Stride: 4, Width: 4, Gap: 3, Indptr: b(24), Rows: Rows(5)}), "3 apart"},
		{s.Scatter(&Scatter{Activation: ReLU}), "no transposed sum"},
		{s.Scatter(&Scatter{Aggregate: Aggregate{Out: b(80), Stride: 4, Width: 4, Transposed: true, Indptr: b(24), Rows: Rows(5)}, Y: b(79), Activation: ELU}), "the output"},
		{s.Tail(&Tail{Z: b(80), Width: 4, Bias: b(15), Rows: Rows(5)}), "the bias"},
		{s.Tail(&Tail{Activation: 9}), "activation 9"},
		{s.TailBackward(&TailBackward{G: b(80), Y: b(80), Activation: ReLU, Width: 4, Sums: b(15), Rows: Rows(5)}), "the sums"},
		{s.CrossEntropy(&CrossEntropy{G: b(20), Z: b(20), Classes: 1, Labels: b(20), Inverse: b(4), RowLoss: b(39), Rows: Rows(5)}), "losses"},
		{s.Adam(&Adam{Weights: b(20), Grads: b(20), Moment1: b(20), Moment2: b(20), Step: b(35), Parameters: 5}), "the step"},
		{s.ZeroPadding(&ZeroPadding{X: b(80), Stride: 4, Width: 4, Rows: Count{5, b(3)}}), "number of rows"},
		{s.Checksum(&Checksum{Sums: b(19), Data: b(1), Ranges: b(80), Rows: Rows(5)}), "the checksums"},
		{s.Checksum(&Checksum{Sums: b(20), Data: b(1), Ranges: b(79), Rows: Rows(5)}), "the ranges"},
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
	if want := []uint64{4104, 8, 8192, 0, 0, 32, 0, 8, 0, 5}; !slices.Equal(f.args, want) {
		t.Errorf("arguments %v, want %v", f.args, want)
	}
	// Four of a narrow type are less than four floats.
	for _, c := range []struct {
		table, far uint64
		of         dtype.Type
		want       string
	}{
		{8196, 0, dtype.Int8, "gather_int8_4"}, {8194, 0, dtype.Int8, "gather_int8_"}, {8192, 8196, dtype.Int8, "gather_int8_4"},
		{8200, 0, dtype.Float16, "gather_float16_4"}, {8192, 8196, dtype.Float16, "gather_float16_"}, {8200, 0, dtype.Float32, "gather_float32_"},
	} {
		a := Gather{Out: Buffer{4096, 1000}, Stride: 8, Table: Buffer{c.table, 1000}, Type: c.of, Width: 8, Rows: Rows(5)}
		if c.far != 0 {
			a.Far, a.Near = Buffer{c.far, 1000}, 2
		}
		if err := s.Gather(&a); err != nil || f.launches[len(f.launches)-1] != c.want {
			t.Errorf("%+v: %v, %v", c, f.launches[len(f.launches)-1], err)
		}
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
			s.Checksum(&Checksum{Sums: b, Data: b, Ranges: b, Rows: Rows(5)}),
			blas.Sgemm(false, false, 2, 2, 2, 1, b, 2, b, 2, 0, b, 2), s.Synchronize())
	}
	if err := step(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { _ = step() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestKernelsAreInTheirFiles: what Open looks for is there, in both widths where it
// looks for both. Without a GPU nothing else would notice.
func TestKernelsAreInTheirFiles(t *testing.T) {
	generated := regexp.MustCompile(`(?m)^(GATHER|FINISH|UNFINISH|BOTH)\((\w+),`)
	single := regexp.MustCompile(`(?m)^extern "C" __global__ void (\w+)\(`)
	found := make(map[string]bool) // file and kernel
	files, err := filepath.Glob("kernels/*.cu")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("this binary runs far from its source")
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		file := strings.TrimSuffix(filepath.Base(path), ".cu")
		for _, m := range generated.FindAllSubmatch(text, -1) {
			found[file+"/"+string(m[2])], found[file+"/"+string(m[2])+"4"] = true, true
		}
		for _, m := range single.FindAllSubmatch(text, -1) {
			found[file+"/"+string(m[1])] = true
		}
	}
	want := make(map[string]bool)
	for k, n := range kernelNames {
		want[n.file+"/"+n.name] = true
		if kernelID(k) < sumColumns {
			want[n.file+"/"+n.name+"4"] = true
		}
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("wanted (−), in the files (+):\n%s", diff)
	}
}
