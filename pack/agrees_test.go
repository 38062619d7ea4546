package pack_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/stage/stagetest"
	"diskgnn/pack"
)

// TestAgrees compares what is refused ahead of a packing with what the packing refuses.
func TestAgrees(t *testing.T) {
	ds, samples := inputs(t, graphOf)
	other, _ := inputs(t, datasettest.Params{Nodes: 120, AvgDegree: 4, Dim: 9, Seed: 6})
	o := options(ds, samples, filepath.Join(t.TempDir(), "P"))
	if err := pack.Agrees(t.Context(), disk, o); err != nil {
		t.Error("nothing is there:", err)
	}
	o.Compress = "auto"
	if err := pack.Agrees(t.Context(), disk, o); err != nil {
		t.Error("nothing is there, and the codec is not known:", err)
	}
	o.Compress = "s2"
	if left, err := filepath.Glob(o.Out + "*"); err != nil || len(left) > 0 {
		t.Error("something was made:", left, err)
	}
	if _, err := pack.Run(t.Context(), disk, o, progress.Discard); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(o *pack.Options)
		kind   error
	}{
		"the same":                   {func(*pack.Options) {}, nil},
		"the codec that was chosen":  {func(o *pack.Options) { o.Compress = "auto" }, nil},
		"another codec":              {func(o *pack.Options) { o.Compress = "zstd" }, fault.ErrExists},
		"another codec, forced":      {func(o *pack.Options) { o.Compress, o.Force = "zstd", true }, nil},
		"a codec, and another dtype": {func(o *pack.Options) { o.Compress, o.DType = "auto", "bf16" }, fault.ErrExists},
		"another dataset":            {func(o *pack.Options) { o.Dataset = other }, fault.ErrLineage},
		"no dataset yet":             {func(o *pack.Options) { o.Dataset, o.DType = "absent", "bf16" }, nil},
		"no samples yet":             {func(o *pack.Options) { o.Samples, o.DType = "absent", "bf16" }, nil},
		"a shard":                    {func(o *pack.Options) { o.Shard.Count = 2 }, nil},
	} {
		with := o
		c.change(&with)
		err := pack.Agrees(t.Context(), disk, with)
		if (err == nil) != (c.kind == nil) || !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			continue
		}
		if _, late := pack.Run(t.Context(), disk, with, progress.Discard); !errors.Is(late, c.kind) {
			t.Errorf("%s: agrees says %v, the packing %v", name, err, late)
		}
	}
	if _, err := os.Stat(o.Out); err != nil {
		t.Error(err)
	}
}

// Samples of a graph with other types are refused, though their meta.json says that they are of this one.
func TestOtherTypes(t *testing.T) {
	p := graphOf
	p.Typed = true
	for book, want := range map[string]error{`"paper"`: nil, `"book"`: fault.ErrLineage} {
		ds, samples := inputs(t, p)
		name := filepath.Join(samples, stage.MetaFile)
		b, err := os.ReadFile(name)
		var m stage.Meta
		if err := errors.Join(err, json.Unmarshal(b, &m)); err != nil {
			t.Fatal(err)
		}
		m.Facts = bytes.ReplaceAll(m.Facts, []byte(`"paper"`), []byte(book))
		stagetest.WriteMeta(t, name, &m)
		if _, err := pack.Run(t.Context(), disk, options(ds, samples, filepath.Join(t.TempDir(), "P")), progress.Discard); !errors.Is(err, want) {
			t.Errorf("papers are named %s: %v", book, err)
		}
	}
}
