package grid

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unsafe"

	"pgregory.net/rapid"

	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/iostack/pieces"
	"diskgnn/train/cpu"
	"diskgnn/train/engine"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
	"diskgnn/train/recipe"
)

func check(t datasettest.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// set gives the package's bounds other values for a test.
func set(t *testing.T) {
	group, fold := Group, Fold
	t.Cleanup(func() { Group, Fold = group, fold })
}

// plainFile is a file in pieces of a few bytes.
type plainFile struct {
	path          string
	size, granule int64
}

func (t *plainFile) Path() string     { return t.path }
func (t *plainFile) Compressed() bool { return false }
func (t *plainFile) Piece(i int) (offset, size int64) {
	offset = int64(i) * t.granule
	return offset, min(t.granule, t.size-offset)
}
func (t *plainFile) Decode(_ int, b, _ []byte) ([]byte, error) { return b, nil }

// kit is the resources of layers.
type kit struct {
	stack iostack.Stack
	wires *pieces.Buffers
	path  string
}

func newKit(t *testing.T) *kit {
	stack, _, err := all.Open("pread", iostack.Options{Direct: iostack.DirectNever})
	check(t, err)
	wires, err := pieces.NewBuffers(1<<12, false)
	check(t, err)
	t.Cleanup(func() { wires.Free(); check(t, stack.Close()) })
	return &kit{stack, wires, filepath.Join(t.TempDir(), "table")}
}

// problem is a layer to compute, of any model and graph.
type problem struct {
	Layer
	sizes   Sizes
	wide    []float32 // the table's rows
	model   model.Model
	weights []float32
}

var kinds = []model.Model{
	{Kind: model.SAGE, Orders: []model.Order{model.Aggregate}}, {Kind: model.SAGE, Orders: []model.Order{model.Multiply}},
	{Kind: model.SAGE, Aggregator: model.Max, Orders: []model.Order{model.Aggregate}},
	{Kind: model.GCN, Orders: []model.Order{model.Aggregate}}, {Kind: model.GCN, Residual: true, Orders: []model.Order{model.Multiply}},
	{Kind: model.GAT, Heads: 2, Orders: []model.Order{model.Multiply}}, {Kind: model.GAT, Heads: 1, Residual: true, Orders: []model.Order{model.Multiply}},
}

// draw draws a problem, with its table in memory or in a file.
func (k *kit) draw(t *rapid.T) *problem {
	n := rapid.IntRange(1, 70).Draw(t, "nodes")
	g := &graph.CSC{Indptr: []int64{0}}
	node := rapid.Uint32Range(0, uint32(n-1))
	for v := range n {
		list := rapid.SliceOfN(node, 0, 4).Draw(t, "list")
		if v == n/2 {
			list = rapid.SliceOfN(node, 0, 60).Draw(t, "hub")
		}
		slices.Sort(list)
		g.Indices = append(g.Indices, list...)
		g.Indptr = append(g.Indptr, int64(len(g.Indices)))
	}
	m := rapid.SampledFrom(kinds).Draw(t, "kind")
	m.Dims = []int{rapid.IntRange(1, 6).Draw(t, "in"), rapid.IntRange(1, 5).Draw(t, "out")}
	l := 0
	if m.Kind != model.GAT && rapid.IntRange(0, 5).Draw(t, "projects") == 0 {
		l, m.InputProjection = model.InputLayer, 3
	}
	ones := []int{1}
	e, err := cpu.New(engine.Config{Network: m, Sizes: graph.Sizes{Src: ones, Dst: ones, Edges: ones}, Threads: 1 + n%2, BLAS: "gonum", Recipe: recipe.Recipe{LR: 1}})
	check(t, err)
	p := &problem{Layer: Layer{Graph: g, Guard: func(fn func() error) error { return fn() }, Threads: e.Threads(), Stack: k.stack, Wires: k.wires}}
	p.Pull = e.NewPull(l, Group, &prepare.Whole{Graph: g, Weighing: m.Weighing()})
	p.model = m
	p.weights, err = e.Snapshot(nil)
	check(t, err)
	e.Close()
	typ := rapid.SampledFrom([]dtype.Type{dtype.Float32, dtype.BFloat16}).Draw(t, "dtype")
	padded := int(binio.AlignUp(int64(n), int64(Group)))
	p.wide = make([]float32, padded*p.Pull.In)
	for i := range p.wide[:n*p.Pull.In] {
		p.wide[i] = float32(i%37)/4 - 3
	}
	content := make([]byte, len(p.wide)*typ.Size())
	dtype.Convert(content, typ, binio.Bytes(p.wide), dtype.Float32)
	p.Table = Table{Rows: int64(n), Width: p.Pull.In, DType: typ, Granule: 4 * rapid.Int64Range(1, 30).Draw(t, "granule"), Held: content}
	if rapid.IntRange(0, 3).Draw(t, "on disk") > 0 {
		content = content[:n*p.Pull.In*typ.Size()]
		check(t, os.WriteFile(k.path, content, 0o666))
		p.Table.Held, p.Table.File = nil, &plainFile{k.path, int64(len(content)), p.Table.Granule}
	}
	if l == model.InputLayer {
		p.Graph = nil
	} else if rapid.Bool().Draw(t, "some") {
		p.Targets = []uint32{}
		for v := range uint32(n) {
			if rapid.Bool().Draw(t, "target") {
				p.Targets = append(p.Targets, v)
			}
		}
		if p.Table.File != nil && rapid.Bool().Draw(t, "needed alone") {
			p.need()
		}
	}
	for i := range p.targets() {
		if len(g.Neighbors(p.node(i))) > Fold {
			p.Long++
		}
	}
	p.sizes = Sizes{Nodes: int64(n), Targets: int64(p.targets()), IDs: p.Targets, Long: p.Long, Shape: p.Pull.PullShape, Edges: l >= 0,
		Threads: p.Threads, Table: &p.Table, Need: p.Need, Lists: 1000}
	return p
}

// need sets the pieces with sources of targets and, if Finish reads them, with their own rows.
func (p *problem) need() {
	row := int64(p.Table.DType.RowBytes(p.Table.Width))
	p.Need = make([]bool, (p.Table.Rows*row+p.Table.Granule-1)/p.Table.Granule)
	for _, v := range p.Targets {
		rows := p.Graph.Neighbors(v)
		if p.Pull.Last {
			rows = append(slices.Clone(rows), v)
		}
		for _, u := range rows {
			for at := int64(u) * row; at < int64(u+1)*row; at++ {
				p.Need[at/p.Table.Granule] = true
			}
		}
	}
}

// plain computes the rows with everything in memory, list by list.
func (p *problem) plain() (rows []float32) {
	s, n := p.Pull.PullShape, int(p.Table.Rows)
	x, from := p.wide, p.wide
	if s.Maps {
		from = make([]float32, len(x)/s.In*s.Row)
		for lo := 0; lo < n; lo += Group {
			p.Pull.Map(0, from[lo*s.Row:], x[lo*s.In:], uint32(lo), min(Group, n-lo))
		}
	}
	switch {
	case p.Graph == nil:
		return from[:n*s.Row]
	case p.Parts != nil:
		return p.plainTyped()
	}
	for lo := 0; lo < p.targets(); lo += Group {
		var nodes []uint32
		own := make([]float32, Group*s.In)
		for i := lo; i < min(lo+Group, p.targets()); i++ {
			v := p.node(i)
			copy(own[len(nodes)*s.In:], x[int(v)*s.In:int(v+1)*s.In])
			nodes = append(nodes, v)
		}
		acc, out := make([]float32, len(nodes)*s.Acc), make([]float32, Group*s.Out)
		p.Pull.Begin(0, acc, own, len(nodes), nil)
		for i, v := range nodes {
			p.pullPlainly(acc[i*s.Acc:(i+1)*s.Acc], from, v)
		}
		p.Pull.Finish(0, out, acc, own, nodes, nil)
		rows = append(rows, out[:len(nodes)*s.Out]...)
	}
	return rows
}

func (p *problem) pullPlainly(acc, from []float32, v uint32) {
	s, list := p.Pull.PullShape, p.Graph.Neighbors(v)
	wide := make([]float64, s.Wide)
	if len(list) <= Fold {
		wide = nil
	}
	for some := range slices.Chunk(list, Fold) {
		if s.Loops {
			some = slices.DeleteFunc(slices.Clone(some), func(u uint32) bool { return u == v })
		}
		p.Pull.Add(0, acc, wide, from, some, 0)
		for c := range wide {
			wide[c] += float64(acc[c])
			acc[c] = 0
		}
	}
	for c, sum := range wide {
		acc[c] = float32(sum)
	}
}

// Any layer has the bits of a plain computation, with any memory; it takes the memory and reads the bytes of
// its plan.
func TestGrid(t *testing.T) {
	set(t)
	k := newKit(t)
	tiles, held, skipped := 0, 0, 0
	property := func(t *rapid.T) {
		Group, Fold = 1<<rapid.IntRange(0, 4).Draw(t, "group"), rapid.SampledFrom([]int{3, 8, 1 << 12}).Draw(t, "fold")
		var p *problem
		if typed := rapid.IntRange(0, 2).Draw(t, "typed") == 0; typed {
			p = k.drawTyped(t)
		} else {
			p = k.draw(t)
		}
		least, _ := p.sizes.Choose(0)
		most := p.sizes.Most()
		memory := least.Memory + int64(rapid.Float64Range(0, 1).Draw(t, "room")*float64(max(0, most-least.Memory)))
		var ok bool
		if p.Plan, ok = p.sizes.Choose(memory); !ok || p.Plan.Memory > memory {
			t.Fatalf("of %d bytes, %d at least: %+v, %t", memory, least.Memory, p.Plan, ok)
		}
		if _, ok := p.sizes.Choose(least.Memory - 1); ok && memory > 0 && least.Memory > 1 {
			t.Fatalf("%d bytes are enough, %d were the least", least.Memory-1, least.Memory)
		}
		var got []float32
		passed, at := int64(0), 0
		p.Passed = func(n int64) { passed += n }
		before := device.HostBytes()
		cost, err := p.Run(context.Background(), func(_ context.Context, lo int, rows []float32) error {
			if lo*p.Pull.Out != len(got) && p.Graph != nil {
				t.Fatalf("rows from %d on after %d values", lo, len(got))
			}
			held := device.HostBytes() - before
			if planned := p.Plan.Memory - int64(p.Threads)*workerBytes; held < planned || held > planned+device.PageSize {
				t.Fatalf("%d bytes are held, %d planned", held, planned)
			}
			at++
			got = append(got, rows...)
			return nil
		})
		check(t, err)
		if want := p.plain(); !slices.Equal(binio.Bytes(got), binio.Bytes(want)) {
			t.Fatalf("%+v: %v, want %v", p.Plan, got, want)
		}
		if cost.BytesRead != p.Plan.Read() {
			t.Fatalf("%+v: %d bytes were read", p.Plan, cost.BytesRead)
		}
		if p.Need == nil && p.targets() > 0 && passed != p.Plan.Tiles*p.Table.Rows {
			t.Fatalf("%d rows passed %d tiles of %d", passed, p.Plan.Tiles, p.Table.Rows)
		}
		if device.HostBytes() != before {
			t.Fatal("memory was not given back")
		}
		if p.Plan.Tiles > 1 {
			tiles++
		}
		if p.Plan.Hold {
			held++
		}
		if p.Need != nil && slices.Contains(p.Need, false) {
			skipped++
		}
	}
	// Few draws leave out pieces: a round may have one.
	few := func() bool { return tiles < 5 || held < 2 || skipped < 2 }
	for round := 0; round < 8 && few(); round++ {
		rapid.Check(t, property)
	}
	if few() {
		t.Errorf("%d with several tiles, %d held tables, %d with pieces that were left out", tiles, held, skipped)
	}
}

// tiny is a sum over a graph of three nodes with rows of one element, with its table on disk.
func (k *kit) tiny(t *testing.T, g *graph.CSC) *problem {
	t.Helper()
	e, err := cpu.New(engine.Config{Network: model.Model{Kind: model.SAGE, Aggregator: model.Sum, Dims: []int{1, 1}, Orders: []model.Order{model.Aggregate}},
		Sizes: graph.Sizes{Src: []int{1}, Dst: []int{1}, Edges: []int{1}}, Threads: 1, BLAS: "gonum", Recipe: recipe.Recipe{LR: 1}})
	check(t, err)
	defer e.Close()
	p := &problem{Layer: Layer{Graph: g, Guard: func(fn func() error) error { return fn() }, Threads: 1, Stack: k.stack, Wires: k.wires, Passed: func(int64) {},
		Pull: e.NewPull(0, Group, &prepare.Whole{Graph: g, Weighing: model.Unweighed})}}
	check(t, os.WriteFile(k.path, make([]byte, 12), 0o666))
	p.Table = Table{Rows: 3, Width: 1, DType: dtype.Float32, Granule: 4, File: &plainFile{k.path, 12, 4}}
	p.sizes = Sizes{Nodes: 3, Targets: 3, Shape: p.Pull.PullShape, Edges: true, Threads: 1, Table: &p.Table, Lists: 100}
	p.Plan, _ = p.sizes.Choose(0)
	return p
}

// Lists that changed after they were verified are refused, whatever is wrong with them.
func TestChangedLists(t *testing.T) {
	set(t)
	Group, Fold = 1, 2
	k := newKit(t)
	for what, g := range map[string]*graph.CSC{
		"an id out of range":        {Indptr: []int64{0, 1, 1, 1}, Indices: []uint32{3}},
		"a list that descends":      {Indptr: []int64{0, 2, 2, 2}, Indices: []uint32{2, 0}},
		"one that descends later":   {Indptr: []int64{0, 0, 0, 2}, Indices: []uint32{1, 0}},
		"an offset out of range":    {Indptr: []int64{0, 0, 9, 9}, Indices: []uint32{1}},
		"a descending offset":       {Indptr: []int64{0, 1, 0, 1}, Indices: []uint32{1}},
		"more long lists than were": {Indptr: []int64{0, 3, 6, 6}, Indices: []uint32{0, 1, 2, 0, 1, 2}},
	} {
		p := k.tiny(t, g)
		p.Long, p.sizes.Long = 1, 1
		p.Plan.Tile = 3
		p.Plan = p.sizes.count(p.Plan)
		_, err := p.Run(t.Context(), func(context.Context, int, []float32) error { return nil })
		if !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Offsets that are wrong for a moment only end the layer, too, whichever of its parts meets them: with their own
// error, not with its consequence.
func TestListsChangeForAMoment(t *testing.T) {
	set(t)
	Group, Fold = 1, 2
	k := newKit(t)
	failed := 0
	for moment := range 20 {
		g := &graph.CSC{Indptr: []int64{0, 3, 4, 5}, Indices: []uint32{0, 1, 2, 0, 1}}
		p := k.tiny(t, g)
		p.Long, p.sizes.Long = 1, 1
		p.Plan = p.sizes.count(p.Plan)
		calls := 0
		p.Guard = func(fn func() error) error {
			if calls++; calls-1 == moment {
				defer func(is int64) { g.Indptr[1] = is }(g.Indptr[1])
				g.Indptr[1] = 9
			}
			return fn()
		}
		_, err := p.Run(t.Context(), func(context.Context, int, []float32) error { return nil })
		if err != nil {
			failed++
		}
		if err != nil && !(errors.Is(err, fault.ErrCorrupt) && strings.Contains(err.Error(), "but the graph has 5 edges")) {
			t.Errorf("moment %d: %v", moment, err)
		}
	}
	if failed < 4 {
		t.Errorf("%d moments", failed)
	}
}

// Whatever fails ends the layer with its error, and the memory is given back.
func TestFailures(t *testing.T) {
	set(t)
	Group = 1
	k := newKit(t)
	boom := errors.New("boom")
	good := &graph.CSC{Indptr: []int64{0, 1, 2, 3}, Indices: []uint32{2, 0, 1}}
	ok := func(context.Context, int, []float32) error { return nil }
	for what, c := range map[string]struct {
		change func(p *problem, cancel func())
		emit   func(context.Context, int, []float32) error
		want   error
	}{
		"emit":          {func(*problem, func()) {}, func(context.Context, int, []float32) error { return boom }, boom},
		"the guard":     {func(p *problem, _ func()) { p.Guard = func(func() error) error { return boom } }, ok, boom},
		"a read":        {func(p *problem, _ func()) { check(t, os.Truncate(k.path, 6)) }, ok, fault.ErrCorrupt},
		"no file":       {func(p *problem, _ func()) { check(t, os.Remove(k.path)) }, ok, os.ErrNotExist},
		"the context":   {func(p *problem, cancel func()) { cancel() }, ok, context.Canceled},
		"in the middle": {func(p *problem, cancel func()) { p.Passed = func(int64) { cancel() } }, ok, context.Canceled},
	} {
		p := k.tiny(t, good)
		ctx, cancel := context.WithCancel(t.Context())
		c.change(p, cancel)
		before := device.HostBytes()
		if _, err := p.Run(ctx, c.emit); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		if device.HostBytes() != before {
			t.Errorf("%s: memory was not given back", what)
		}
		cancel()
	}
}

// A context that ends between two windows, while the filling waits for room, ends the layer with its cause: a
// result without the last rows is no result.
func TestEndsBetweenWindows(t *testing.T) {
	set(t)
	Group = 1
	k := newKit(t)
	p := k.tiny(t, &graph.CSC{Indptr: []int64{0, 0, 0, 0, 0, 0, 0, 0}})
	p.Pull.Maps, p.Graph = true, nil
	p.Table = Table{Rows: 7, Width: 1, DType: dtype.BFloat16, Held: make([]byte, 16)}
	p.sizes.Nodes, p.sizes.Targets, p.sizes.Edges, p.sizes.Shape = 7, 7, false, p.Pull.PullShape
	p.Plan, _ = p.sizes.Choose(0)
	enough := errors.New("enough")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		rows := 0
		_, err := p.Run(ctx, func(_ context.Context, _ int, x []float32) error {
			if rows += len(x); rows == 2 {
				synctest.Wait() // all windows are full
				cancel(enough)
				synctest.Wait() // the filling has ended
			}
			return nil
		})
		if !errors.Is(err, enough) || rows != 2 {
			t.Errorf("%d rows, %v", rows, err)
		}
	})
}

// Plans by hand: 1000 nodes of 10 floats, sums of 10, aggregated first with own rows, in groups of 10.
func TestPlanByHand(t *testing.T) {
	set(t)
	Group = 8
	table := &Table{Rows: 1000, Width: 10, DType: dtype.Float32, Granule: 1000, File: &plainFile{size: 40_000, granule: 1000}}
	s := Sizes{Nodes: 1000, Targets: 1000, Shape: prepare.PullShape{In: 10, Row: 10, Acc: 10, Out: 4, Wide: 10, Last: true, Group: 8}, Edges: true, Threads: 1, Table: table, Lists: 500}
	// A tile of 8: sums of 320 bytes, cursors and next sources of 32 each, rounded up to 64; windows of 2
	// blocks of 320 bytes, and the output's 128.
	least, _ := s.Choose(0)
	if want := int64(320 + 64 + 64 + 2*320 + 128 + workerBytes); least.Memory != want || least.Tile != 8 || least.Block != 8 {
		t.Errorf("%+v, want %d bytes", least, want)
	}
	// 125 tiles and blocks; own rows of 320 bytes lie in pieces of 1000: one, or two where they cross.
	crossings := 0
	for lo := 0; lo < 1000; lo += 8 {
		if lo*40/1000 != (lo*40+319)/1000 {
			crossings++
		}
	}
	if least.Tiles != 125 || least.Blocks != 125 || least.TableBytes != 125*40_000 || least.OwnBytes != int64(125+crossings)*1000 || least.ListBytes != 125*500 {
		t.Errorf("%+v", least)
	}
	// With memory for all: the table is read once and held.
	all, _ := s.Choose(s.Most())
	if all.Tiles != 1 || !all.Hold || all.Read() != 40_000 {
		t.Errorf("%+v", all)
	}
	if all.Cost(&s) != 40_000+all.Blocks*1000 {
		t.Errorf("%+v costs %d", all, all.Cost(&s))
	}
	// A table of one block takes that block: sums, cursors and next sources, output rows, and the table.
	few := s
	few.Nodes, few.Targets = 8, 8
	few.Table = &Table{Rows: 8, Width: 10, DType: dtype.Float32, Granule: 1000, File: &plainFile{size: 320, granule: 1000}}
	if got, want := few.Most(), int64(320+64+64+128+320+workerBytes); got != want {
		t.Errorf("a table of one block takes %d bytes, want %d", got, want)
	}
	// Two windows of 838,860 rows of 40 bytes have 64 MiB but for 64 bytes: longer blocks are not tried.
	if s.last(838_860) || !s.last(838_861) {
		t.Error("the longest block")
	}
	// A worker's indices, pieces and nodes.
	if want := 4096*(4+int(unsafe.Sizeof(piece{}))) + 4096; workerBytes != want {
		t.Errorf("a worker has %d bytes, want %d", workerBytes, want)
	}
	// No targets are no work.
	s.Targets, s.IDs = 0, []uint32{}
	if none, ok := s.Choose(least.Memory); !ok || none.Read() != 0 || none.Tiles != 0 {
		t.Errorf("of nothing: %+v, %t", none, ok)
	}
}
