package packed_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"diskgnn/featurestore/packed"
	"diskgnn/graph"
	"diskgnn/graph/batchcodec"
	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/pack/packfile"
)

// TestNeeds decodes every run of sections of every graph. The decoded parts equal the whole graph, and the other ranks are
// UnreadRank.
func TestNeeds(t *testing.T) {
	for name, w := range map[string]*world{"static": small(t, "same"), "sharing": sharing(t), "min": buildMin(t, "int8", "s2")} {
		t.Run(name, func(t *testing.T) {
			for i := range w.reader.Facts().Train {
				w.trainNeeds(t, i)
			}
			raw, err := os.ReadFile(w.reader.Path(packfile.EvalGraphFile))
			if err != nil {
				t.Fatal(err)
			}
			x := w.reader.Index()
			for i := range len(x.Valid) + len(x.Test) {
				w.evalNeeds(t, x.EvalBatch(i), raw)
			}
		})
	}
}

func (w *world) trainNeeds(t *testing.T, i int) {
	r := w.reader
	tr := &r.Index().Train[i]
	file, err := os.ReadFile(r.Path(packfile.GraphFile(r.Group(i))))
	if err != nil {
		t.Fatal(err)
	}
	decode := func(n packfile.Needs) (b graph.Batch, p packfile.Plan, size int) {
		t.Helper()
		off, size := r.TrainGraph(i, n)
		raw := file[off:][:size]
		if err := r.DecodeTrainGraph(i, n, raw, &b, &p); err != nil {
			t.Fatalf("%+v: %v", n, err)
		}
		raw = slices.Clone(raw)
		raw[len(raw)/2] ^= 4
		if err := r.DecodeTrainGraph(i, n, raw, new(graph.Batch), new(packfile.Plan)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%+v, a wrong byte: %v", n, err)
		}
		if err := r.DecodeTrainGraph(i, n, raw[1:], new(graph.Batch), new(packfile.Plan)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%+v, a byte less: %v", n, err)
		}
		return b, p, size
	}
	whole, plan, all := decode(packfile.Everything)
	if all != tr.GraphBytes() {
		t.Errorf("everything is %d bytes of %d", all, tr.GraphBytes())
	}
	bands := len(tr.Bands)
	for through := range bands {
		for _, n := range []packfile.Needs{{Through: through}, {Through: through, Degrees: true}, {Through: through, Ranks: true}} {
			got, gotPlan, size := decode(n)
			bytes, hot := tr.Graph[1].Bytes, 3+bands-1-through
			if n.Degrees {
				bytes += tr.Graph[0].Bytes
			}
			switch {
			case n.Ranks:
				hot = len(tr.Graph)
			case w.reader.Params().Policy == packfile.PolicyMin:
				hot = 2
			}
			for _, s := range tr.Graph[2:hot] {
				bytes += s.Bytes
			}
			if size != int(bytes) {
				t.Errorf("%+v are %d bytes, want %d", n, size, bytes)
			}
			want := whole
			if !n.Degrees {
				want.Degree = nil
			}
			want.Input = slices.Clone(whole.Input)
			if !n.Ranks {
				w.unread(tr, want.Input, through)
			}
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()) + cmp.Diff(plan, gotPlan, cmpopts.EquateEmpty()); d != "" {
				t.Fatalf("batch %d, %+v: %s", i, n, d)
			}
		}
	}
}

// unread replaces the ranks that are not read where bands up to through are on disk: by policy min, all.
func (w *world) unread(tr *packfile.Train, input []uint32, through int) {
	rows, all := 0, w.reader.Params().Policy == packfile.PolicyMin
	for _, list := range [][]int{tr.Bands, tr.SSD} {
		for k, n := range list {
			for range n {
				if all || k <= through {
					input[rows] = packfile.UnreadRank
				}
				rows++
			}
		}
	}
	for ; all && rows < len(input); rows++ {
		input[rows] = packfile.UnreadRank
	}
}

func (w *world) evalNeeds(t *testing.T, e *packfile.Eval, file []byte) {
	var whole, got graph.Batch
	for _, degrees := range []bool{true, false} {
		off, n := e.EvalGraph(degrees)
		to := &whole
		if !degrees {
			to = &got
		}
		if err := w.reader.DecodeEvalGraph(e, packfile.Needs{Degrees: degrees}, file[off:][:n], to); err != nil {
			t.Fatal(err)
		}
		if err := w.reader.DecodeEvalGraph(e, packfile.Needs{Degrees: !degrees}, file[off:][:n], new(graph.Batch)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("other bytes than are needed: %v", err)
		}
	}
	whole.Degree = nil
	if d := cmp.Diff(whole, got, cmpopts.EquateEmpty()); d != "" {
		t.Error(fmt.Errorf("without degrees: %s", d))
	}
	off, n := e.EvalGraph(false)
	input, err := e.DecodeInputs("a file", file[off:][:n], nil)
	if err != nil || !slices.Equal(input, whole.Input) {
		t.Errorf("input nodes alone: %d, %v; want %d", input, err, whole.Input)
	}
	if _, err := e.DecodeInputs("a file", file[off:][:n-1], nil); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("input nodes of a part: %v", err)
	}
}

// TestDecodingAllocates: decoding again allocates the file's name alone.
func TestDecodingAllocates(t *testing.T) {
	for name, w := range map[string]*world{"static": small(t, "same"), "sharing": sharing(t), "min": buildMin(t, "int8", "s2")} {
		r := w.reader
		path := r.Path(packfile.GraphFile(0))
		file, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		most := testing.AllocsPerRun(10, func() { path = r.Path(packfile.GraphFile(0)) })
		for _, n := range []packfile.Needs{packfile.Everything, {}, {InBits: true}} {
			var b graph.Batch
			var p packfile.Plan
			off, size := r.TrainGraph(0, n)
			got := math.Inf(1)
			for range 5 { // goroutines that made the pack may still end
				got = min(got, testing.AllocsPerRun(10, func() { _ = r.DecodeTrainGraph(0, n, file[off:][:size], &b, &p) }))
			}
			if got > most {
				t.Errorf("%s, %+v: %v allocations, the name takes %v", name, n, got, most)
			}
		}
	}
}

// TestInBits: blocks that are left in bits are the decoded ones, for training and for evaluation, and the rest of a batch is the
// same. The slots of such batches are smaller.
func TestInBits(t *testing.T) {
	for name, w := range map[string]*world{"static": small(t, "same"), "sharing": sharing(t), "min": buildMin(t, "int8", "s2")} {
		t.Run(name, func(t *testing.T) {
			r, x := w.reader, w.reader.Index()
			same := func(left, want *graph.Batch) {
				t.Helper()
				// A batch in bits, with labels and all, is coded as the bytes that it is left in.
				d := binio.NewDecoder(batchcodec.AppendBlocks(nil, want))
				again := graph.Batch{Input: want.Input, Degree: want.Degree}
				batchcodec.BlocksInBits(d, &again)
				if diff := cmp.Diff(again, *left, cmpopts.EquateEmpty()); diff != "" || left.NumEdges() != want.NumEdges() {
					t.Fatal(diff)
				}
			}
			for i := range x.Train {
				var b, want graph.Batch
				var p, plan packfile.Plan
				n := packfile.Needs{Degrees: true, Ranks: true, InBits: true}
				file, err := os.ReadFile(r.Path(packfile.GraphFile(r.Group(i))))
				off, size := r.TrainGraph(i, n)
				err = errors.Join(err, r.DecodeTrainGraph(i, n, file[off:][:size], &b, &p), r.DecodeTrainGraph(i, packfile.Everything, file[off:][:size], &want, &plan))
				if err != nil {
					t.Fatal(err)
				}
				same(&b, &want)
				if diff := cmp.Diff(plan, p, cmpopts.EquateEmpty()); diff != "" {
					t.Error(diff)
				}
			}
			file, err := os.ReadFile(r.Path(packfile.EvalGraphFile))
			for i := range x.Valid {
				var b, want graph.Batch
				e := &x.Valid[i]
				off, size := e.EvalGraph(true)
				err = errors.Join(err, r.DecodeEvalGraph(e, packfile.Needs{Degrees: true, InBits: true}, file[off:][:size], &b),
					r.DecodeEvalGraph(e, packfile.Everything, file[off:][:size], &want))
				if err != nil {
					t.Fatal(err)
				}
				same(&b, &want)
			}
			o := packed.PlanOptions{Memory: 1 << 30, Slots: 1, EvalSlots: 1}
			decoded, err := packed.Plan(r, o)
			o.InBits = true
			left, other := packed.Plan(r, o)
			if err := errors.Join(err, other); err != nil || left.SlotBytes >= decoded.SlotBytes || left.EvalSlotBytes >= decoded.EvalSlotBytes || !packed.Facts(r).InBits {
				t.Errorf("%v: slots of %d and %d bytes, of decoded batches %d and %d", err, left.SlotBytes, left.EvalSlotBytes, decoded.SlotBytes, decoded.EvalSlotBytes)
			}
		})
	}
}
