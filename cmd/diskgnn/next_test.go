package main

import (
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/internal/shard"
	"diskgnn/pack"
	"diskgnn/presample"
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
}
