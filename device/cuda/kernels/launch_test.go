package kernels_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/internal/dtype"
)

// recorder is a device that computes nothing, a stream of it and memory; it notes which
// functions are launched.
type recorder struct {
	*cuda.Stream
	memory cuda.Buffer
	names  []string
	args   []uint64 // of the last launch
}

func newRecorder(t *testing.T) *recorder {
	t.Helper()
	r := new(recorder)
	d, err := cuda.OpenEmulated(func(name string, args []uint64, _ func(uint64) []byte) {
		r.names, r.args = append(r.names, name), args
	}, cuda.Options{Code: kernels.Code})
	check(t, err)
	arena, err := d.NewArena(1 << 20)
	check(t, err)
	r.memory, err = arena.Take(1 << 20)
	check(t, err)
	r.Stream, err = d.NewStream()
	check(t, err)
	t.Cleanup(func() {
		r.Stream.Free()
		arena.Free()
		d.Close()
	})
	return r
}

// last returns the function of the last launch.
func (r *recorder) last() string { return r.names[len(r.names)-1] }

// TestLaunchesCheckTheirBuffers: what a kernel would write beyond is refused.
func TestLaunchesCheckTheirBuffers(t *testing.T) {
	r := newRecorder(t)
	s := r.Stream
	b := func(n int64) cuda.Buffer { return r.memory.Slice(0, n) }
	frontier := func(most int) kernels.Frontier {
		return kernels.Frontier{Graph: b(12), Nodes: b(36), Degree: b(36), Start: b(72), Most: most, Table: b(128), Wrong: b(4)}
	}
	seeds := func(change func(a *kernels.SampleSeeds)) error {
		a := kernels.SampleSeeds{Frontier: frontier(5), Seeds: 5, Count: b(4)}
		change(&a)
		return a.Launch(s)
	}
	refused := newRecorder(t).Stream // of which some kernels run before the one that is wrong
	sample := func(change func(a *kernels.SampleHop)) error {
		a := kernels.SampleHop{Frontier: frontier(9), Far: b(4), Destinations: kernels.Count{Most: 5, At: b(4)}, Edges: kernels.Count{Most: 11, At: b(4)},
			Sources: kernels.Count{Most: 9, At: b(4)}, Indptr: b(24), Indices: b(44), Sums: b(8)}
		change(&a)
		return a.Launch(refused)
	}
	list := kernels.Lists{Starts: b(48), Sources: b(4), From: b(20), To: b(20), Fold: 2, Wide: b(96), Long: b(8), Many: 2, Rows: 5}
	seek := func(change func(a *kernels.PullSeek)) error {
		lists := list
		a := kernels.PullSeek{Lists: &lists, Bad: b(4)}
		change(&a)
		return a.Launch(s)
	}
	pull := func(change func(a *kernels.Pull)) error {
		a := kernels.Pull{Lists: list, Acc: b(80), Stride: 4, Width: 4}
		change(&a)
		return a.Launch(s)
	}
	settle := func(change func(a *kernels.Settle)) error {
		a := kernels.Settle{Out: b(80), Stride: 4, Acc: b(80), Gap: 4, Width: 4, Factors: b(20), Rows: 5}
		change(&a)
		return a.Launch(s)
	}
	for i, c := range []struct {
		err  error
		want string
	}{
		{kernels.Gather{Out: b(79), Stride: 4, Table: b(80), Type: dtype.Float32, Width: 4, Rows: kernels.Rows(5)}.Launch(s), "the output of 79 bytes, but 80"},
		{kernels.Gather{Out: b(80), Stride: 4, Table: b(79), Type: dtype.Float32, Width: 4, Rows: kernels.Rows(5)}.Launch(s), "the table"},
		{kernels.Gather{Out: b(80), Stride: 4, Table: b(80), Type: dtype.Float32, Width: 4, Index: b(19), Rows: kernels.Rows(5)}.Launch(s), "the index"},
		{kernels.Gather{Out: b(80), Stride: 3, Table: b(80), Type: dtype.Float32, Width: 4, Rows: kernels.Rows(5)}.Launch(s), "a stride of 3"},
		{kernels.Gather{Out: b(80), Stride: 4, Table: b(80), Type: "float64", Width: 4, Rows: kernels.Rows(5)}.Launch(s), "float64"},
		{kernels.Gather{Out: b(80), Stride: 4, Table: b(80), Parts: b(15), Devices: 2, Type: dtype.Float32, Width: 4, Rows: kernels.Rows(5)}.Launch(s), "the table's parts of 15 bytes, but 16"},
		{kernels.Gather{Out: b(80), Stride: 4, Table: b(80), Parts: b(16), Type: dtype.Float32, Width: 4, Rows: kernels.Rows(5)}.Launch(s), "divided among 0 devices"},
		{kernels.Gather{Rows: kernels.Rows(-1), Type: dtype.Float32}.Launch(s), "-1 rows"},
		{kernels.Aggregate{Out: b(80), Stride: 4, Width: 4, Indptr: b(23), Rows: kernels.Rows(5)}.Launch(s), "indptr"},
		{kernels.Aggregate{Out: b(80), Stride: 4, Width: 4, Indptr: b(24), Indices: b(3), Edges: 1, Rows: kernels.Rows(5)}.Launch(s), "indices"},
		{kernels.Aggregate{Out: b(80), Stride: 4, Width: 4, Indptr: b(24), OwnX: b(80), Beside: true, Rows: kernels.Rows(5)}.Launch(s), "the output with rows of 8 elements and a stride of 4"},
		{kernels.Aggregate{Out: b(80), Stride: 4, Width: 4, Gap: 3, Indptr: b(24), Rows: kernels.Rows(5)}.Launch(s), "a stride of 3"},
		{kernels.Scatter{Activation: kernels.ReLU}.Launch(s), "the sum is not transposed"},
		{kernels.Scatter{Aggregate: kernels.Aggregate{Out: b(80), Stride: 4, Width: 4, Transposed: true, Indptr: b(24), Rows: kernels.Rows(5)}, Y: b(79), Activation: kernels.ELU}.Launch(s), "the output"},
		{kernels.Tail{Z: b(80), Width: 4, Bias: b(15), Rows: kernels.Rows(5)}.Launch(s), "the bias"},
		{kernels.Tail{Activation: 9}.Launch(s), "activation 9"},
		{kernels.TailBackward{G: b(80), Y: b(80), Activation: kernels.ReLU, Width: 4, Sums: b(15), Rows: kernels.Rows(5)}.Launch(s), "the sums"},
		{kernels.CrossEntropy{G: b(20), Z: b(20), Classes: 1, Labels: b(20), Inverse: b(4), RowLoss: b(39), Rows: kernels.Rows(5)}.Launch(s), "losses"},
		{kernels.Adam{Weights: b(20), Grads: b(20), Moment1: b(20), Moment2: b(20), Step: b(35), Parameters: 5}.Launch(s), "the step"},
		{kernels.ZeroPadding{X: b(80), Stride: 4, Width: 4, Rows: kernels.Count{Most: 5, At: b(3)}}.Launch(s), "number of rows"},
		{kernels.Checksum{Sums: b(19), Data: b(1), Ranges: b(80), Rows: kernels.Rows(5)}.Launch(s), "the checksums"},
		{kernels.Checksum{Sums: b(20), Data: b(1), Ranges: b(79), Rows: kernels.Rows(5)}.Launch(s), "the ranges"},
		{kernels.Place{Table: b(79), Near: 5, RowBytes: 16, Source: b(80), Index: b(20), Rows: kernels.Rows(5)}.Launch(s), "the table"},
		{kernels.Place{Table: b(80), Near: 5, RowBytes: 16, Source: b(79), Index: b(20), Rows: kernels.Rows(5)}.Launch(s), "the rows"},
		{kernels.Place{Table: b(80), Near: 5, RowBytes: 16, Source: b(80), Index: b(19), Rows: kernels.Rows(5)}.Launch(s), "the index"},
		{kernels.Extract{Out: b(79), Source: b(8), RowBytes: 16, From: b(40), Rows: kernels.Rows(5)}.Launch(s), "the rows"},
		{kernels.Extract{Out: b(80), Source: b(8), RowBytes: 16, From: b(39), Rows: kernels.Rows(5)}.Launch(s), "the offsets of the rows"},
		{kernels.Extract{Out: b(8), To: b(19), Source: b(8), RowBytes: 16, From: b(40), Rows: kernels.Rows(5)}.Launch(s), "the destinations of the rows"},
		{kernels.Extract{Out: b(80), Source: b(8), RowBytes: 15, From: b(40), Rows: kernels.Rows(5)}.Launch(s), "rows of 15 bytes"},
		{kernels.Extract{Out: b(80), Source: b(8), RowBytes: 16, From: b(40), Step: 5, Rows: kernels.Rows(5)}.Launch(s), "multiples of 5"},
		{kernels.Place{Table: b(80), Near: 5, RowBytes: 15, Source: b(80), Index: b(20), Rows: kernels.Rows(5)}.Launch(s), "rows of 15 bytes"},
		{kernels.EdgeSoftmax{Weights: b(39), Heads: 2, Edges: 5}.Launch(s), "the weights"},
		{kernels.RelationSoftmax{Weights: b(39), Heads: 2, Edges: 5}.Launch(s), "the weights"},
		{kernels.RelationSoftmax{Weights: b(40), Scores: b(4), Base: b(19), Own: b(40), Heads: 2, Edges: 5, Rows: kernels.Rows(5)}.Launch(s), "the columns of rows"},
		{kernels.RelationSoftmax{Weights: b(40), Scores: b(4), Base: b(20), Own: b(39), Heads: 2, Edges: 5, Rows: kernels.Rows(5)}.Launch(s), "the rows' scores"},
		{kernels.RelationSoftmaxBackward{Grads: b(40), OwnGrads: b(39), RelationSoftmax: kernels.RelationSoftmax{Heads: 2, Edges: 5, Rows: kernels.Rows(5)}}.Launch(s), "the rows' gradients"},
		{kernels.SumRelationEdges{Out: b(119), Columns: 6, Values: b(40), Heads: 2, Rows: kernels.Rows(5)}.Launch(s), "the output"},
		{seeds(func(a *kernels.SampleSeeds) { a.Seeds = 0 }), "0 seed nodes"},
		{seeds(func(a *kernels.SampleSeeds) { a.Seeds = 6 }), "6 seed nodes, but room for 5"},
		{seeds(func(a *kernels.SampleSeeds) { a.Table = b(32) }), "a table of 32 bytes is too small for 5 nodes"},
		{seeds(func(a *kernels.SampleSeeds) { a.Table = b(65) }), "a table of 65 bytes"},
		{seeds(func(a *kernels.SampleSeeds) { a.Graph = b(11) }), "the graph"},
		{seeds(func(a *kernels.SampleSeeds) { a.Nodes = b(19) }), "the nodes"},
		{seeds(func(a *kernels.SampleSeeds) { a.Degree = b(19) }), "the degrees"},
		{seeds(func(a *kernels.SampleSeeds) { a.Start = b(39) }), "the first edges"},
		{seeds(func(a *kernels.SampleSeeds) { a.Wrong = b(3) }), "the fault word"},
		{seeds(func(a *kernels.SampleSeeds) { a.Count = b(3) }), "the number of seed nodes"},
		{seek(func(a *kernels.PullSeek) { a.To = b(19) }), "the last positions of 19 bytes, but 20"},
		{seek(func(a *kernels.PullSeek) { a.From = b(19) }), "the first positions"},
		{seek(func(a *kernels.PullSeek) { a.Starts = b(47) }), "the starts"},
		{seek(func(a *kernels.PullSeek) { a.Bad = b(3) }), "the error"},
		{pull(func(a *kernels.Pull) { a.Acc = b(79) }), "the accumulators"},
		{pull(func(a *kernels.Pull) { a.Starts = b(47) }), "the starts"},
		{pull(func(a *kernels.Pull) { a.From = b(19) }), "the first positions"},
		{pull(func(a *kernels.Pull) { a.To = b(19) }), "the last positions"},
		{pull(func(a *kernels.Pull) { a.Wide = b(63) }), "the wide sums of 63 bytes, but 64"},
		{pull(func(a *kernels.Pull) { a.Long = b(7) }), "the long rows"},
		{kernels.PullHeads{Lists: list, Acc: b(199), Heads: 2, Part: 2}.Launch(s), "the accumulators of 199 bytes, but 200"},
		{kernels.PullHeads{Lists: list, Acc: b(200), Heads: 2, Part: 2, Nodes: b(19)}.Launch(s), "the nodes"},
		{kernels.PullHeads{Lists: list, Acc: b(240), Heads: 2, Part: 3}.Launch(s), "the wide sums of 96 bytes, but 128"},
		{kernels.PullBegin{Acc: b(199), Own: b(160), Heads: 2, Part: 2, Rows: 5}.Launch(s), "the accumulators"},
		{kernels.PullBegin{Acc: b(200), Own: b(159), Heads: 2, Part: 2, Rows: 5}.Launch(s), "the own products of 159 bytes, but 160"},
		{kernels.PullUnfold{Acc: b(80), Stride: 4, Wide: b(63), Width: 4, Long: b(8), Many: 2}.Launch(s), "the wide sums"},
		{kernels.PullUnfold{Acc: b(80), Stride: 4, Wide: b(64), Width: 4, Long: b(7), Many: 2}.Launch(s), "the long rows"},
		{settle(func(a *kernels.Settle) { a.Out = b(79) }), "the output"},
		{settle(func(a *kernels.Settle) { a.Gap = 3 }), "the accumulators with rows of 4 elements and a stride of 3"},
		{settle(func(a *kernels.Settle) { a.Factors = b(19) }), "the factors"},
		{settle(func(a *kernels.Settle) { a.Own = b(80) }), "own rows without factors"},
		{settle(func(a *kernels.Settle) { a.Owns = b(20) }), "own rows without factors"},
		{settle(func(a *kernels.Settle) { a.Own, a.Owns = b(79), b(20) }), "the own rows"},
		{settle(func(a *kernels.Settle) { a.Own, a.Owns = b(80), b(19) }), "the own factors"},
		{kernels.SettleHeads{Out: b(79), Acc: b(200), Heads: 2, Part: 2, Rows: 5}.Launch(s), "the output of 79 bytes, but 80"},
		{kernels.SettleHeads{Out: b(39), Acc: b(200), Heads: 2, Part: 2, Mean: true, Rows: 5}.Launch(s), "the output of 39 bytes, but 40"},
		{kernels.SettleHeads{Out: b(80), Acc: b(199), Heads: 2, Part: 2, Rows: 5}.Launch(s), "the accumulators"},
		{kernels.ScaleRows{X: b(79), Width: 4, Factors: b(20), Rows: 5}.Launch(s), "the rows"},
		{kernels.ScaleRows{X: b(80), Width: 4, Factors: b(19), Rows: 5}.Launch(s), "the factors"},
		{kernels.FillFloats{X: b(19), Count: 5}.Launch(s), "the floats"},
		{sample(func(a *kernels.SampleHop) { a.Edges.Most = 12 }), "a table of 128 bytes is too small for 17 nodes"},
		{sample(func(a *kernels.SampleHop) { a.Sources.Most = 10 }), "10 nodes, but room for 9"},
		{sample(func(a *kernels.SampleHop) { a.Sums = b(7) }), "the sums"},
		{sample(func(a *kernels.SampleHop) { a.Destinations.At = b(3) }), "the number of rows"},
		{sample(func(a *kernels.SampleHop) { a.Edges.At = b(3) }), "the total"},
		{sample(func(a *kernels.SampleHop) { a.Indptr = b(23) }), "the index pointers"},
		{sample(func(a *kernels.SampleHop) { a.Indices = b(43) }), "the indices"},
		{sample(func(a *kernels.SampleHop) { a.Sources.At = b(3) }), "the total"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("case %d: %v, want %q", i, c.err, c.want)
		}
	}
	if len(r.names) > 0 {
		t.Errorf("launched: %v", r.names)
	}
}

// TestUnpackingChecksItsBuffers: with buffers of just their sizes the work on blocks in bits is launched, and with any of them a byte
// shorter it is not.
func TestUnpackingChecksItsBuffers(t *testing.T) {
	r := newRecorder(t)
	b := func(n int64) cuda.Buffer { return r.memory.Slice(0, n) }
	count := func(n int) kernels.Count { return kernels.Count{Most: n, At: b(4)} }
	src, dst, edges, sums := count(5), count(3), count(7), b(kernels.TileSumBytes(5))
	few := b(kernels.TileSumBytes(3))
	type launcher interface{ Launch(s *cuda.Stream) error }
	for _, c := range []struct {
		work launcher
		any  string // a field that is not checked
	}{
		{&kernels.Unpack{Words: b(4), Shape: b(64), Sources: src, Destinations: dst, Edges: edges, Indptr: b(16), Indices: b(28), Means: b(12), Positions: b(12), Places: b(20), Sums: few}, "Sources"},
		{&kernels.Weigh{Src: b(20), Dst: b(12), Own: b(12), Degrees: b(4), Positions: b(20), Indptr: b(16), Sources: src, Destinations: dst}, ""},
		{&kernels.Weigh{Src: b(20), Dst: b(12), Own: b(12), Degrees: b(4), Positions: b(12), Outermost: true, Indptr: b(16), Sources: src, Destinations: dst}, ""},
		{&kernels.Loop{Indptr: b(16), Indices: b(40), Edges: count(10), From: b(16), Sources: b(28), Positions: b(12), Destinations: dst, Counts: b(12), Sums: few}, "Sources"},
		{&kernels.Transpose{TIndptr: b(24), TIndices: b(28), TEdges: b(28), Indptr: b(16), Indices: b(28), Sources: src, Edges: edges, Destinations: dst, Counts: b(20), Arrivals: b(28), Slots: b(28), Sums: sums}, ""},
	} {
		check(t, c.work.Launch(r.Stream))
		fields := reflect.ValueOf(c.work).Elem()
		for i := range fields.NumField() {
			name := fields.Type().Field(i).Name
			buffer, ok := fields.Field(i).Addr().Interface().(*cuda.Buffer)
			if n, is := fields.Field(i).Addr().Interface().(*kernels.Count); is {
				buffer, ok = &n.At, true
			}
			if !ok || name == c.any {
				continue
			}
			was := *buffer
			*buffer = was.Slice(0, was.Bytes()-1)
			if err := c.work.Launch(r.Stream); err == nil {
				t.Errorf("%T is launched with %s of %d bytes", c.work, name, buffer.Bytes())
			}
			*buffer = was
		}
	}
}

// TestLaunchChoosesTheWidth: four floats at a time where everything allows it.
func TestLaunchChoosesTheWidth(t *testing.T) {
	r := newRecorder(t)
	at := func(from int64) cuda.Buffer { return r.memory.Slice(from, 1000) }
	for _, c := range []struct {
		width, stride int
		out           int64
		want          string
	}{{8, 8, 4096, "gather_float32_4"}, {7, 8, 4096, "gather_float32_"}, {8, 9, 4096, "gather_float32_"}, {8, 8, 4104, "gather_float32_"}} {
		err := kernels.Gather{Out: at(c.out), Stride: c.stride, Table: at(8192), Type: dtype.Float32, Width: c.width, Rows: kernels.Rows(5)}.Launch(r.Stream)
		if err != nil || r.last() != c.want {
			t.Errorf("%+v: %v, %v", c, r.names, err)
		}
	}
	if want := []uint64{at(4104).Address(), 8, at(8192).Address(), 0, 0, 32, 0, 0, 0, 8, 0, 5}; !slices.Equal(r.args, want) {
		t.Errorf("arguments %v, want %v", r.args, want)
	}
	// Four of a narrow type are less than four floats.
	for _, c := range []struct {
		table, far int64
		of         dtype.Type
		want       string
	}{
		{8196, 0, dtype.Int8, "gather_int8_4"}, {8194, 0, dtype.Int8, "gather_int8_"}, {8192, 8196, dtype.Int8, "gather_int8_4"},
		{8196, 0, dtype.Int4, "gather_int4_4"}, {8194, 8198, dtype.Int4, "gather_int4_4"}, {8193, 0, dtype.Int4, "gather_int4_"},
		{8200, 0, dtype.Float16, "gather_float16_4"}, {8192, 8196, dtype.Float16, "gather_float16_"}, {8200, 0, dtype.Float32, "gather_float32_"},
	} {
		a := kernels.Gather{Out: at(4096), Stride: 8, Table: at(c.table), Type: c.of, Width: 8, Rows: kernels.Rows(5)}
		if c.far != 0 {
			a.Far, a.Near = at(c.far), 2
		}
		if err := a.Launch(r.Stream); err != nil || r.last() != c.want {
			t.Errorf("%+v: %v, %v", c, r.last(), err)
		}
	}
}

// TestLaunchesNameTheirKernels: which functions each launch runs, in the order in which it
// does; at rows of eight floats, and at rows of seven, which cannot be taken by fours.
func TestLaunchesNameTheirKernels(t *testing.T) {
	type launcher interface{ Launch(s *cuda.Stream) error }
	r := newRecorder(t)
	b, rows := r.memory, kernels.Rows(5)
	softmax := kernels.EdgeSoftmax{Weights: b, Scores: b, Heads: 4, Indptr: b, Indices: b, Edges: 9, Rows: rows}
	byRelation := kernels.RelationSoftmax{Weights: b, Scores: b, Columns: 12, Base: b, Own: b, Heads: 4, Indptr: b, Indices: b, Edges: 9, Rows: rows}
	frontier := kernels.Frontier{Graph: b, Nodes: b, Degree: b, Start: b, Most: 5, Table: b, Wrong: b}
	hop := kernels.SampleHop{Frontier: frontier, Far: b, Near: b, Destinations: kernels.Count{Most: 5, At: b}, Edges: kernels.Count{Most: 9, At: b}, Sources: kernels.Count{Most: 5, At: b}, Indptr: b, Indices: b, Sums: b}
	const samples = "sample_takes sample_offsets sample_indptr sample_draw sample_firsts sample_offsets sample_number sample_sources"
	list := kernels.Lists{Starts: b, Sources: b, From: b, To: b, Fold: 2, Wide: b, Long: b, Many: 2, Rows: 5}
	loss := kernels.CrossEntropy{G: b, Z: b, Classes: 4, Labels: b, Inverse: b, RowLoss: b, Right: b, Score: b, Rows: rows}
	gather := func(of dtype.Type) func(int) launcher {
		return func(w int) launcher {
			return kernels.Gather{Out: b, Stride: w, Table: b, Type: of, Width: w, Rows: rows}
		}
	}
	aggregate := func(w int) kernels.Aggregate {
		return kernels.Aggregate{Out: b, Stride: w, X: b, Width: w, Indptr: b, Indices: b, Edges: 9, Rows: rows}
	}
	scatter := func(of kernels.Activation) func(int) launcher {
		return func(w int) launcher {
			a := aggregate(w)
			a.Transposed = true
			return kernels.Scatter{Aggregate: a, Y: b, Sums: b, DBias: b, Activation: of}
		}
	}
	tail := func(of kernels.Activation) func(int) launcher {
		return func(w int) launcher { return kernels.Tail{Z: b, Width: w, Bias: b, Activation: of, Rows: rows} }
	}
	back := func(of kernels.Activation) func(int) launcher {
		return func(w int) launcher {
			return kernels.TailBackward{G: b, Y: b, Width: w, Sums: b, DBias: b, Activation: of, Rows: rows}
		}
	}
	for _, c := range []struct {
		eight, seven string
		launch       func(width int) launcher
	}{
		{"gather_float32_4", "gather_float32_", gather(dtype.Float32)},
		{"gather_float16_4", "gather_float16_", gather(dtype.Float16)},
		{"gather_bfloat16_4", "gather_bfloat16_", gather(dtype.BFloat16)},
		{"gather_int8_4", "gather_int8_", gather(dtype.Int8)},
		{"gather_int4_4", "gather_int4_", gather(dtype.Int4)},
		{"aggregate4", "aggregate", func(w int) launcher { return aggregate(w) }},
		{"aggregate_transposed4", "aggregate_transposed", func(w int) launcher { a := aggregate(w); a.Transposed = true; return a }},
		{"scatter_relu4 sum_columns", "scatter_relu sum_columns", scatter(kernels.ReLU)},
		{"scatter_elu4 sum_columns", "scatter_elu sum_columns", scatter(kernels.ELU)},
		{"bias_none4", "bias_none", tail(kernels.Identity)},
		{"bias_relu4", "bias_relu", tail(kernels.ReLU)},
		{"bias_elu4", "bias_elu", tail(kernels.ELU)},
		{"backward_none4 sum_columns", "backward_none sum_columns", back(kernels.Identity)},
		{"backward_relu4 sum_columns", "backward_relu sum_columns", back(kernels.ReLU)},
		{"backward_elu4 sum_columns", "backward_elu sum_columns", back(kernels.ELU)},
		{"zero_padding4", "zero_padding", func(w int) launcher { return kernels.ZeroPadding{X: b, Stride: w, Width: w, Rows: rows} }},
		{"adam4", "adam", func(w int) launcher {
			return kernels.Adam{Weights: b, Grads: b, Moment1: b, Moment2: b, Step: b, Parameters: w}
		}},
		{"aggregate_heads4", "aggregate_heads", func(w int) launcher {
			return kernels.AggregateHeads{Out: b, X: b, Width: w, Heads: 2, Weights: b, Indptr: b, Indices: b, Edges: 9, Rows: rows}
		}},
		{"combine_heads4", "combine_heads", func(w int) launcher {
			return kernels.CombineHeads{Out: b, Y: b, Width: w, Heads: 2, Weights: b, Indptr: b, Indices: b, Edges: b, Entries: 9, Rows: rows}
		}},
		{"edge_dots4", "edge_dots", func(w int) launcher {
			return kernels.EdgeDots{Out: b, X: b, Y: b, Width: w, Heads: 2, Indptr: b, Indices: b, Edges: 9, Rows: rows}
		}},
		{"maximum4", "maximum", func(w int) launcher {
			return kernels.Maximum{Out: b, Stride: w, X: b, Width: w, Indptr: b, Indices: b, Edges: 9, Rows: rows}
		}},
		{"maximum_backward4", "maximum_backward", func(w int) launcher {
			return kernels.MaximumBackward{Out: b, G: b, Chosen: b, Width: w, Indptr: b, Indices: b, Edges: 9, Rows: rows}
		}},
		{"standardize4", "standardize", func(w int) launcher {
			return kernels.Standardize{Z: b, Mean: b, Inverse: b, Scale: b, Width: w, Rows: rows}
		}},
		{"standardize_backward4", "standardize_backward", func(w int) launcher {
			return kernels.StandardizeBackward{G: b, Normed: b, Inverse: b, Scale: b, DShift: b, DScale: b, Width: w, Rows: rows}
		}},
		{"sum_edges4", "sum_edges", func(w int) launcher {
			return kernels.SumEdges{Out: b, Values: b, Own: b, Heads: w, Indptr: b, Edges: b, Rows: rows}
		}},
		{"place4", "place", func(w int) launcher {
			return kernels.Place{Table: b, Near: 5, Source: b, RowBytes: 2 * w, Index: b, Rows: rows}
		}},
		{"extract4", "extract", func(w int) launcher {
			return kernels.Extract{Out: b, Source: b, RowBytes: 2 * w, From: b, Step: 2 * w, Rows: rows}
		}},
		{"layer_norm", "layer_norm", func(w int) launcher {
			return kernels.LayerNorm{Z: b, Normed: b, Inverse: b, Bias: b, Scale: b, Width: w, Rows: rows}
		}},
		{"layer_norm_backward", "layer_norm_backward", func(w int) launcher {
			return kernels.LayerNormBackward{G: b, Normed: b, Inverse: b, Scale: b, Width: w, Rows: rows}
		}},
		{"sum_products sum_columns", "sum_products sum_columns", func(w int) launcher {
			return kernels.SumProducts{Out: b, A: b, B: b, Width: w, Sums: b, Rows: rows}
		}},
		{"backward_none4 sum_columns column_means sum_squares sum_columns column_variances",
			"backward_none sum_columns column_means sum_squares sum_columns column_variances", func(w int) launcher {
				return kernels.BatchStatistics{Z: b, Mean: b, Inverse: b, Variance: b, Width: w, Sums: b, Rows: rows}
			}},
		{"edge_softmax", "edge_softmax", func(int) launcher { return softmax }},
		{"edge_softmax_backward", "edge_softmax_backward", func(int) launcher {
			return kernels.EdgeSoftmaxBackward{EdgeSoftmax: softmax, Grads: b, OwnGrads: b}
		}},
		{"relation_softmax", "relation_softmax", func(int) launcher { return byRelation }},
		{"relation_softmax_backward", "relation_softmax_backward", func(int) launcher {
			return kernels.RelationSoftmaxBackward{RelationSoftmax: byRelation, Grads: b, OwnGrads: b}
		}},
		{"sum_relation_edges", "sum_relation_edges", func(w int) launcher {
			return kernels.SumRelationEdges{Out: b, Columns: 3 * w, Values: b, Heads: w, Indptr: b, Edges: b, Owners: b, Base: b, Rows: rows}
		}},
		{"cross_entropy sum_losses", "cross_entropy sum_losses", func(int) launcher { return loss }},
		{"binary_cross_entropy sum_losses", "binary_cross_entropy sum_losses", func(int) launcher {
			return kernels.Binary{CrossEntropy: loss, Targets: b}
		}},
		{"checksum", "checksum", func(int) launcher { return kernels.Checksum{Sums: b, Data: b, Ranges: b, Rows: rows} }},
		{"pull_seek", "pull_seek", func(int) launcher { return kernels.PullSeek{Lists: &list, Bad: b} }},
		{"pull_sum4", "pull_sum", func(w int) launcher { return kernels.Pull{Lists: list, Acc: b, Stride: 8, X: b, Width: w} }},
		{"pull_max4", "pull_max", func(w int) launcher { return kernels.Pull{Lists: list, Acc: b, Stride: 8, X: b, Width: w, Max: true} }},
		{"pull_heads4 pull_weights", "pull_heads pull_weights", func(w int) launcher {
			return kernels.PullHeads{Lists: list, Acc: b, X: b, Heads: 4, Part: w}
		}},
		{"pull_begin", "pull_begin", func(w int) launcher { return kernels.PullBegin{Acc: b, Own: b, Heads: 4, Part: w, Rows: 5} }},
		{"pull_unfold", "pull_unfold", func(w int) launcher {
			return kernels.PullUnfold{Acc: b, Stride: w, Wide: b, Width: w, Long: b, Many: 2}
		}},
		{"settle4", "settle", func(w int) launcher {
			return kernels.Settle{Out: b, Stride: 8, Acc: b, Gap: 8, Width: w, Factors: b, Own: b, Owns: b, Rows: 5}
		}},
		{"settle_heads", "settle_heads", func(w int) launcher { return kernels.SettleHeads{Out: b, Acc: b, Heads: 4, Part: w, Rows: 5} }},
		{"scale_rows4", "scale_rows", func(w int) launcher { return kernels.ScaleRows{X: b, Width: w, Factors: b, Rows: 5} }},
		{"fill_floats", "fill_floats", func(w int) launcher { return kernels.FillFloats{X: b, Count: w} }},
		{"sample_seeds", "sample_seeds", func(int) launcher { return kernels.SampleSeeds{Frontier: frontier, Seeds: 5, Count: b} }},
		{samples, samples, func(int) launcher { return hop }},
	} {
		for width, want := range map[int]string{8: c.eight, 7: c.seven} {
			r.names = nil
			check(t, c.launch(width).Launch(r.Stream))
			if got := strings.Join(r.names, " "); got != want {
				t.Errorf("rows of %d: %s, want %s", width, got, want)
			}
		}
	}
}

// TestLaunchesAllocateNothing: a launch of a kernel costs no more garbage than the emulated
// device makes of any launch.
func TestLaunchesAllocateNothing(t *testing.T) {
	d, err := cuda.OpenEmulated(func(string, []uint64, func(uint64) []byte) {}, cuda.Options{Code: kernels.Code})
	check(t, err)
	defer d.Close()
	arena, err := d.NewArena(4096)
	check(t, err)
	defer arena.Free()
	b, err := arena.Take(4096)
	check(t, err)
	s, err := d.NewStream()
	check(t, err)
	defer s.Free()
	frontier := kernels.Frontier{Graph: b, Nodes: b, Degree: b, Start: b, Most: 5, Table: b, Wrong: b}
	hop := kernels.SampleHop{Frontier: frontier, Far: b, Near: b, Destinations: kernels.Count{Most: 5, At: b}, Edges: kernels.Count{Most: 9, At: b}, Sources: kernels.Count{Most: 5, At: b}, Indptr: b, Indices: b, Sums: b}
	launches := func() error {
		return errors.Join(
			kernels.Gather{Out: b, Stride: 4, Table: b, Type: dtype.Float32, Width: 4, Rows: kernels.Rows(5)}.Launch(s),
			kernels.Aggregate{Out: b, Stride: 4, X: b, Width: 4, Indptr: b, Indices: b, Edges: 8, Rows: kernels.Rows(5)}.Launch(s),
			kernels.Tail{Z: b, Width: 4, Bias: b, Activation: kernels.ReLU, Rows: kernels.Rows(5)}.Launch(s),
			kernels.TailBackward{G: b, Y: b, Sums: b, DBias: b, Width: 4, Activation: kernels.ReLU, Rows: kernels.Rows(5)}.Launch(s),             // two
			kernels.CrossEntropy{G: b, Z: b, Classes: 3, Labels: b, Inverse: b, RowLoss: b, Right: b, Score: b, Rows: kernels.Rows(5)}.Launch(s), // two
			kernels.Adam{Weights: b, Grads: b, Moment1: b, Moment2: b, Step: b, Parameters: 5}.Launch(s),
			kernels.Checksum{Sums: b, Data: b, Ranges: b, Rows: kernels.Rows(5)}.Launch(s),
			hop.Launch(s)) // eight
	}
	check(t, launches())
	bare := testing.AllocsPerRun(10, func() {
		for range 17 {
			l := s.Launch("work")
			l.Int(1)
			_ = l.Run(0, cuda.Dims{1, 1}, cuda.Dims{1, 1})
		}
	})
	if n := testing.AllocsPerRun(10, func() { _ = launches() }); n != bare {
		t.Errorf("%v allocations, %v of them the device's", n, bare)
	}
}

// TestKernelsAreInTheirFiles: what Code names is there, and nothing else is. Without a GPU
// nothing else would notice.
func TestKernelsAreInTheirFiles(t *testing.T) {
	generated := regexp.MustCompile(`(?m)^(GATHER|FINISH|UNFINISH|BOTH)\((\w+),`)
	single := regexp.MustCompile(`(?m)^extern "C" __global__ void (\w+)\(`)
	found := make(map[string]bool) // file and kernel
	files, err := filepath.Glob("*.cu")
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
	for _, f := range kernels.Code.Functions {
		want[f.File+"/"+f.Name] = true
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("wanted (−), in the files (+):\n%s", diff)
	}
}
