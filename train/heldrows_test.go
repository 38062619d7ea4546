package train

import (
	"context"
	"fmt"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/internal/progress"
	"diskgnn/pack"
	"diskgnn/train/decide"
	"diskgnn/train/rundir"
	"diskgnn/train/trained"
)

// holding decides for the least memory, in steps of 64 KiB, in which at least the given bytes of rows are held.
func holding(bytes int64) func(*parts) {
	return func(p *parts) {
		inner := p.decide
		p.decide = func(o decide.Options, f decide.Facts) (d decide.Decision, err error) {
			most := o.Memory
			for o.Memory = 16 << 20; o.Memory <= most; o.Memory += 64 << 10 {
				if d, err = inner(o, f); err == nil && d.Memory.Layout.HeldBytes >= bytes {
					break
				}
			}
			return d, err
		}
	}
}

// holdingNothing takes the memory for held rows away.
func holdingNothing(p *parts) {
	inner := p.decide
	p.decide = func(o decide.Options, f decide.Facts) (decide.Decision, error) {
		plan := f.Plan
		f.Plan = func(o featurestore.PlanOptions) (featurestore.Layout, error) {
			o.Hold = featurestore.Hold{}
			return plan(o)
		}
		return inner(o, f)
	}
}

// TestScoresAtAnyMemory: runs that hold all, a part and none of the rows of evaluation have the same losses,
// scores and weights, also on two ranks, and if a run goes on in less memory; and so has `eval --pack`.
func TestScoresAtAnyMemory(t *testing.T) {
	w := newWorld(t, worldParams{dim: 1200, nodes: 400, batch: 24})
	for name, p := range map[string]string{
		"static": w.pack(10),
		"min":    w.pack(10, func(o *pack.Options) { o.Policy = "min" }),
	} {
		o := w.options(p, func(o *Options) { o.Epochs, o.RAMCache, o.Slots = 2, percent(10), 2 })
		whole, losses := w.mustRun(o, nil)
		if whole.HeldSize < 1<<20 || whole.PreloadBytes < whole.HeldSize*9/10 {
			t.Fatalf("%s: %d bytes are held, %d read before the first batch", name, whole.HeldSize, whole.PreloadBytes)
		}
		scores := func(out string, memory int64) string {
			e, err := trained.EvaluatePack(context.Background(), disk, trained.PackOptions{Stores: builtin, Run: out, Pack: p, BLAS: "gonum", Memory: memory}, progress.Discard)
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(e.ValidAccuracy, e.TestAccuracy)
		}
		same := func(what string, out string, r *rundir.Result) {
			t.Helper()
			if r.ValidAccuracy != whole.ValidAccuracy || r.TestAccuracy != whole.TestAccuracy {
				t.Errorf("%s, %s: other scores", name, what)
			}
			for _, file := range []string{rundir.WeightsFile, rundir.FinalFile} {
				if string(w.file(out, file)) != string(w.file(o.Out, file)) {
					t.Errorf("%s, %s: other weights in %s", name, what, file)
				}
			}
		}
		read := whole.Epochs[0].ValidBytesRead
		for _, part := range []int64{3, 1, 0} { // quarters
			o := w.fresh(o)
			r, got := w.mustRun(o, holding(whole.HeldSize*part/4))
			what := fmt.Sprint(part, " quarters")
			same(what, o.Out, &r)
			if fmt.Sprint(got) != fmt.Sprint(losses) {
				t.Errorf("%s, %s: other losses", name, what)
			}
			if v := r.Epochs[0].ValidBytesRead; r.HeldSize >= whole.HeldSize*(part+1)/4 || v <= read {
				t.Errorf("%s, %s: of %d bytes %d are held; a validation reads %d bytes, with more memory %d", name, what, whole.HeldSize, r.HeldSize, v, read)
			}
			read = r.Epochs[0].ValidBytesRead
			if a, b := scores(o.Out, r.Planned+32<<20), fmt.Sprint(whole.ValidAccuracy, whole.TestAccuracy); a != b {
				t.Errorf("%s, %s: eval has the scores %s, the run %s", name, what, a, b)
			}
		}
		resumed := w.fresh(o)
		w.interrupt(resumed, 9)
		resumed.Resume = true
		r, _ := w.mustRun(resumed, holding(0))
		same("resumed in less memory", resumed.Out, &r)
		if name == "static" { // the order of batches is free
			o := w.fresh(o, func(o *Options) { o.Accumulate = 2 })
			alone := party{w: w}.must(1, o)
			o = w.fresh(o)
			two := party{w: w}.must(2, o)
			if alone.HeldSize == 0 || two.HeldSize == 0 || alone.ValidAccuracy != two.ValidAccuracy {
				t.Errorf("two ranks: %d and %d bytes are held, scores %v and %v", alone.HeldSize, two.HeldSize, alone.ValidAccuracy, two.ValidAccuracy)
			}
		}
	}
}
