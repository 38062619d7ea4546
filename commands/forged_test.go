package commands

import (
	"context"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/datasettest"
	"diskgnn/dataset/importer"
	formats "diskgnn/dataset/importer/all"
	"diskgnn/internal/budget"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage/stagetest"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

// makeEveryKind makes datasets, samples, packs and shards of them in the working directory.
func makeEveryKind(t *testing.T) {
	t.Helper()
	ctx, quiet := context.Background(), vfs.Unsynced(vfs.OS)
	generate := func(out string, change func(o *dataset.GenerateOptions)) {
		o := dataset.GenerateOptions{Nodes: 100, AvgDegree: 5, Dim: 4, Classes: 3, TrainRatio: 0.2}
		change(&o)
		_, err := dataset.Generate(ctx, quiet, out, o, progress.Discard)
		must(t, err)
	}
	sample := func(out string, change func(o *presample.Options)) {
		o := presample.Options{Dataset: "graph", Out: out, BatchSize: 8, Fanout: []int{3, 4}, Epochs: 2}
		change(&o)
		_, err := presample.Run(ctx, quiet, o, progress.Discard)
		must(t, err)
	}
	lay := func(out string, change func(o *pack.Options)) {
		o := pack.Options{Dataset: "graph", Samples: "samples", Out: out, Cache: &budget.Size{Value: 5, Unit: budget.UnitPercent}}
		change(&o)
		_, err := pack.Run(ctx, quiet, o, progress.Discard)
		must(t, err)
	}
	generate("graph", func(*dataset.GenerateOptions) {})
	generate("many labels", func(o *dataset.GenerateOptions) { o.MultiLabel, o.Classes, o.Compress = true, 12, true })
	must(t, dataset.Create(quiet, "memory", datasettest.Params{Nodes: 40, AvgDegree: 3, Dim: 3, Classes: 3, Seed: 1}.Raw()))
	tree(t, "tree")
	_, err := formats.Import(ctx, quiet, "imported", "graphbolt", importer.Options{Sources: []string{"tree"}}, progress.Discard)
	must(t, err)
	sample("samples", func(*presample.Options) {})
	sample("labor", func(o *presample.Options) { o.Fanout, o.Sampler = []int{3, -1}, presample.SamplerLabor })
	generate("typed graph", func(o *dataset.GenerateOptions) { o.Nodes, o.Types, o.Featureless = 160, 3, 1 })
	typed := func(o *presample.Options) { o.Dataset, o.Fanout = "typed graph", []int{3, 4, 3} }
	sample("typed samples", func(o *presample.Options) {
		typed(o)
		o.RelationFanout = map[string][]int{"type1:to:type0": {1, 4, 2}}
	})
	sample("merged samples", func(o *presample.Options) { typed(o); o.Merged = true })
	sample("part of samples", func(o *presample.Options) { o.Shard, o.Out = shard.Shard{Index: 1, Count: 2}, "s" })
	lay("pack", func(*pack.Options) {})
	lay("min", func(o *pack.Options) { o.Policy = packfile.PolicyMin })
	lay("shared rows", func(o *pack.Options) { o.MaxDisk = &budget.Size{Value: 49.4, Unit: budget.UnitTimes} })
	lay("typed pack", func(o *pack.Options) { o.Dataset, o.Samples = "typed graph", "typed samples" })
	lay("typed min", func(o *pack.Options) {
		o.Dataset, o.Samples, o.Policy = "typed graph", "typed samples", packfile.PolicyMin
	})
	lay("first shard", func(o *pack.Options) { o.Shard, o.Out = shard.Shard{Index: 0, Count: 2}, "p" })
	lay("last shard", func(o *pack.Options) { o.Shard, o.Out = shard.Shard{Index: 1, Count: 2}, "p" })
}

// TestForgedParameters changes each content parameter and each fact of a directory of every kind, and
// makes the fingerprint anew: verify finds it, but for what shows in nothing that the directory has. In samples and packs of
// a typed graph these are names, and the number of nodes of a type without features.
func TestForgedParameters(t *testing.T) {
	t.Chdir(vfstest.TempDir(t))
	makeEveryKind(t)
	drawn := []string{"params.order", "params.sampler", "params.seed"}
	packed := []string{"facts.classes", "facts.eval_fanout", "facts.fanout", "facts.metric"}
	unnamed := []string{"facts.type_input_nodes", "facts.types.node_types.name", "facts.types.node_types.nodes", "facts.types.relations.name"}
	part := append([]string{"facts.train_means", "facts.train_sizes", "params.bands"}, packed...)
	for dir, want := range map[string][]string{
		"graph":          nil,
		"many labels":    {"params.compression"},
		"typed graph":    nil,
		"typed samples":  append([]string{"params.eval_relation_fanout", "params.relation_fanout", "facts.type_input_nodes", "facts.types.node_types.nodes"}, drawn...),
		"merged samples": slices.Concat([]string{"params.eval_fanout", "params.fanout", "params.merged"}, unnamed, drawn),
		"typed pack":     slices.Concat([]string{"params.bands"}, unnamed, packed),
		"typed min":      append(unnamed, packed...),
		"memory":         nil,
		"imported":       {"facts.classes", "params.binarize", "params.dtype", "params.format", "params.importer", "params.row_normalize", "params.symmetrize"},
		"samples":        drawn,
		"labor":          append([]string{"params.method"}, drawn...),
		"s.shard-1-of-2": drawn,
		"pack":           append([]string{"params.bands"}, packed...),
		"min":            packed,
		"shared rows":    append([]string{"params.bands", "params.max_disk"}, packed...),
		"p.shard-0-of-2": append([]string{"params.codec"}, part...),
		"p.shard-1-of-2": append([]string{"facts.eval_rows", "facts.eval_sizes"}, part...),
	} {
		s := &session{rep: progress.Discard}
		var got []string
		for _, change := range stagetest.Forgeries(t, dir, func() error {
			m, err := readMeta(dir)
			if err != nil {
				return err
			}
			return s.verifyFiles(t.Context(), vfs.OS, dir, m)
		}) {
			key, _, _ := strings.Cut(change, ":")
			parts := strings.Split(key, ".")
			if strings.HasPrefix(key, "facts.types") {
				parts = slices.DeleteFunc(parts, func(s string) bool { return s[0] <= '9' }) // the numbers of types and relations
			} else {
				parts = parts[:2]
			}
			got = append(got, strings.Join(parts, "."))
		}
		slices.Sort(got)
		got = slices.Compact(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: not found are changes of %q, want %q", dir, got, want)
		}
	}
}
