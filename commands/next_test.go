package commands

import (
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/internal/shard"
	"diskgnn/pack"
	"diskgnn/presample"
	"diskgnn/train"
	"diskgnn/train/rundir"
)

// TestNextCommands proposes commands about directories whose names a shell reads
// otherwise.
func TestNextCommands(t *testing.T) {
	const dir, word = "my $(runs)/it's", `'my $(runs)/it'\''s'`
	for name, o := range map[string]outcome{
		"generate":  datasetMade(dataset.Result{Out: dir}, 0),
		"presample": sampled(presample.Options{Dataset: dir}, presample.Result{Out: "s"}),
		"pack":      packed(pack.Options{}, pack.Result{Out: dir}),
		"a shard":   sampled(presample.Options{Out: dir, Shard: shard.Shard{Index: 0, Count: 2}}, presample.Result{}),
	} {
		if !strings.Contains(o.next, " "+word+" ") {
			t.Errorf("%s: %s", name, o.next)
		}
	}
	half := shard.Shard{Index: 0, Count: 2}
	for name, c := range map[string]struct {
		o    outcome
		want string
	}{
		"half of the memory":   {sampled(presample.Options{Dataset: dir, Memory: 8}, presample.Result{Out: "s", FeatureBytes: 4}), "diskgnn train --dataset " + word + " --samples s --out run"},
		"more than half of it": {sampled(presample.Options{Dataset: dir, Memory: 8}, presample.Result{Out: "s", FeatureBytes: 5}), ""},
		"a shard of samples":   {sampled(presample.Options{Dataset: dir, Memory: 8, Shard: half}, presample.Result{Out: "s"}), ""},
		"a pack":               {packed(pack.Options{Dataset: "d", Samples: dir, Memory: 8}, pack.Result{Out: "p", FeatureBytes: 4}), "diskgnn train --dataset d --samples " + word + " --out run"},
		"a large pack":         {packed(pack.Options{Dataset: "d", Samples: dir, Memory: 8}, pack.Result{Out: "p", FeatureBytes: 5}), ""},
		"a shard of a pack":    {packed(pack.Options{Dataset: "d", Samples: dir, Memory: 8, Shard: half}, pack.Result{Out: "p"}), ""},
	} {
		var out strings.Builder
		c.o.human(&out)
		if c.o.noPack != c.want || strings.HasSuffix(out.String(), "needs no pack: "+c.want+"\n") != (c.want != "") {
			t.Errorf("%s: %q, want %q, in\n%s", name, c.o.noPack, c.want, out.String())
		}
	}
	for format, next := range map[string]string{"diskgnn.samples": "pack", "diskgnn.pack": "train"} {
		if got := afterMerge(shard.Result{Out: dir, Format: format}); !strings.HasPrefix(got, "diskgnn "+next+" ") || !strings.Contains(got, " "+word+" ") {
			t.Errorf("merge of %s: %s", format, got)
		}
	}
	engine := rundir.Result{Setup: rundir.Setup{Engine: train.EngineCPU}}
	for want, o := range map[string]train.Options{
		"diskgnn eval --run " + word + " --pack p":            {Out: dir, Pack: "p"},
		"diskgnn eval --run " + word + " --dataset d --exact": {Out: dir, Dataset: "d"},
	} {
		if got := trainedLines(o, engine).next; got != want {
			t.Errorf("train: %s, want %s", got, want)
		}
	}
}
