package all_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"diskgnn/featurestore"
	"diskgnn/featurestore/all"
	"diskgnn/featurestore/onthefly"
	"diskgnn/featurestore/stores"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
)

// The directories that are given choose the store; others than the named store's are
// refused by their flags.
func TestChoose(t *testing.T) {
	pack, samples, drawn := stores.Places{Pack: "P"}, stores.Places{Dataset: "D", Samples: "S"}, stores.Places{Dataset: "D", Live: true}
	both := stores.Places{Pack: "P", Dataset: "D", Samples: "S"}
	for _, c := range []struct {
		name   string
		places stores.Places
		want   string // or what the error says
	}{
		{stores.Auto, pack, "packed"},
		{stores.Auto, samples, "memory"},
		{"packed", pack, "packed"},
		{"rows", samples, "rows"},
		{"mmap", samples, "mmap"},
		{"mmap", pack, "--store mmap takes --dataset with --samples"},
		{"rows", pack, "--store rows takes --dataset with --samples"},
		{"ginex", samples, "ginex"},
		{"gnndrive", samples, "gnndrive"},
		{"agnes", samples, "agnes"},
		{"marius", samples, "marius"},
		{"hyperion", samples, "hyperion"},
		{"gids", samples, "gids"},
		{"memory", samples, "memory"},
		{"packed", samples, "--store packed takes --pack, and no other directories"},
		{"memory", pack, "--store memory takes --dataset with --samples"},
		{"memory", both, "--store memory takes"},
		{stores.Auto, drawn, "memory"},
		{"memory", drawn, "memory"},
		{"packed", drawn, "--store packed takes --pack, and no other directories"},
		{stores.Auto, stores.Places{Dataset: "D", Samples: "S", Live: true}, "--fanout draws batches while training, but S has batches already: give --fanout with --dataset alone"},
		{stores.Auto, stores.Places{Pack: "P", Live: true}, "--fanout draws batches while training, but P has batches already"},
		{stores.Auto, stores.Places{Live: true}, "these flags do not select a store: give --pack"},
		{stores.Auto, both, "--pack P has all that training reads: leave D out, or train without --pack"},
		{"packed", both, "--pack P has all that training reads: leave D out"},
		{stores.Auto, stores.Places{Pack: "P", Samples: "S"}, "--pack P has all that training reads: leave S out"},
		{"cloud", both, "--store cloud is not one of auto"},
		{stores.Auto, stores.Places{Dataset: "D"}, "give --pack for packed, or --dataset with --samples or --fanout for memory"},
		{stores.Auto, stores.Places{}, "--pack is missing"},
		{stores.Auto, stores.Places{Samples: "S"}, "--dataset with --samples or --fanout for memory"},
		{"cloud", pack, "--store cloud is not one of auto, packed, memory, rows, ginex, gnndrive, agnes, gids, hyperion, marius, mmap"},
	} {
		chosen, err := all.Builtin().Choose(c.name, c.places)
		got := chosen.Name
		switch {
		case slices.Contains(all.Builtin().Names(), c.want):
			if got != c.want || err != nil {
				t.Errorf("%s of %+v: %s, %v", c.name, c.places, got, err)
			}
		case !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s of %+v: %v, want %q", c.name, c.places, err, c.want)
		}
	}
}

// A store with a choice of policies lists them, the default first; one store alone has each other fact.
func TestDesigns(t *testing.T) {
	for name, want := range map[string][]string{"packed": nil, "memory": nil, "agnes": nil, "hyperion": nil, "marius": nil, "mmap": nil, stores.Auto: nil,
		"rows":     {"s3fifo", "lru", "clock", "sieve"},
		"ginex":    {"belady"},
		"gnndrive": {"standby"},
		"gids":     {"paper", "script"},
	} {
		d := all.Builtin().Design(name)
		if !slices.Equal(d.Policies, want) {
			t.Errorf("%s: %v, want %v", name, d.Policies, want)
		}
		for fact, of := range map[string]struct {
			is   bool
			only string
		}{"holds all rows": {d.HoldsAll, "memory"}, "maps its rows": {d.Maps, "mmap"}, "holds lists": {d.HoldsLists, "hyperion"},
			"takes no samples but its own": {d.OwnSamples, "marius"}, "is shared by GPUs": {d.Shared, "packed"}, "has a directory": {d.Find != nil, "packed"},
			"holds lists in an order of its own": {d.ListOrder != "", "ginex"}} {
			if of.is != (name == of.only) {
				t.Errorf("%s %s: %t", name, fact, of.is)
			}
		}
	}
}

// The store that is found says in one line which it is, and of what.
func TestFind(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, sample)
	c, reason, err := all.Builtin().Find(storetest.Disk, stores.Auto, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
	if err != nil || c.Name() != "memory" || reason != "memory: "+w.Samples {
		t.Errorf("%v, %q, %v", c, reason, err)
	}
	source, err := onthefly.Open(t.Context(), storetest.Disk, onthefly.Options{Dataset: w.Dataset, Params: mbfile.Params{BatchSize: 16, Fanout: []int{3, 4}, EvalFanout: []int{3, 4}, Epochs: 2, TrainRatio: 1, Order: "random"},
		DryEpochs: 1, Workers: 1, Memory: 1 << 30}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	c, reason, err = all.Builtin().On(stores.Auto, stores.Places{Dataset: w.Dataset, Live: true}, source)
	if err != nil || c.Name() != "memory" || c.Facts().Train != source.Facts().Train || reason != "memory: "+w.Dataset+", batches drawn while training" {
		t.Errorf("%v, %q, %v", c, reason, err)
	}
	if _, _, err := all.Builtin().On("packed", stores.Places{Dataset: w.Dataset, Live: true}, source); !errors.Is(err, fault.ErrUsage) {
		t.Errorf("a pack of drawn batches: %v", err)
	}
	if _, _, err := all.Builtin().Find(storetest.Disk, stores.Auto, stores.Places{Pack: w.Dataset}); !errors.Is(err, fault.ErrInput) {
		t.Errorf("a dataset as a pack: %v", err)
	}
}

// Which stores begin with an empty cache, that batches fill.
func TestByUse(t *testing.T) {
	w := storetest.NewWorld(t, storetest.Params{}, sample)
	for name, want := range map[string]bool{"memory": false, "hyperion": false, "rows": true, "ginex": true, "gnndrive": true, "agnes": true, "gids": true, "mmap": true} {
		c, _, err := all.Builtin().Find(storetest.Disk, name, stores.Places{Dataset: w.Dataset, Samples: w.Samples})
		if err != nil {
			t.Fatal(err)
		}
		l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30, Slots: 2, EvalSlots: 1})
		if err != nil || l.ByUse != want {
			t.Errorf("%s: filled by use: %v, %v", name, l.ByUse, err)
		}
	}
}

// sample makes the samples of a world.
func sample(dataset, out string, p storetest.Params) error {
	_, err := presample.Run(context.Background(), storetest.Disk, presample.Options{Dataset: dataset, Out: out,
		BatchSize: p.Batch, Epochs: p.Epochs, Fanout: p.Fanout, Workers: 2}, progress.Discard)
	return err
}
