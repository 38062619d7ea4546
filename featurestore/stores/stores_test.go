package stores

import (
	"errors"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// some are stores of each kind, as a program outside this repository may list them.
var some = List{
	{Name: "dir", Find: func(vfs.FS, string) (featurestore.Candidate, error) { return nil, nil }},
	{Name: "whole", On: on, HoldsAll: true},
	{Name: "one", On: on, Policies: []string{"new", "old"}},
	{Name: "two", On: on, Policies: []string{"best"}, ListOrder: "degree"},
	{Name: "mapped", On: on, Maps: true},
	{Name: "own", On: on, OwnSamples: true},
}

func on(featurestore.Source, *dataset.Dataset) (featurestore.Candidate, error) { return nil, nil }

// The texts of the help name the stores of the list, and no others.
func TestUsage(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{some.Usage(), "source of the rows: dir (--pack), whole (--dataset, all rows in memory), one or two (--dataset, read while training), mapped (--dataset, by page faults), own (--dataset, and --samples of some orders) or auto"},
		{some[2:3].Usage(), "source of the rows: one (--dataset, read while training) or auto"},
		{List{}.Usage(), "source of the rows: auto"},
		{some.PolicyUsage("rows to keep"), "rows to keep; one has new (its default) or old; two has best; other stores have none"},
		{some[:2].PolicyUsage("rows to keep"), "rows to keep; other stores have none"},
		{some.OrderUsage("reach"), "reach; with --store two: degree"},
		{some[:3].OrderUsage("reach"), "reach"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// A list without a store of packs, or with one store alone, chooses by its own stores, and refuses others by name.
func TestListsOfFew(t *testing.T) {
	pack, samples := Places{Pack: "P"}, Places{Dataset: "D", Samples: "S"}
	for _, c := range []struct {
		list   List
		name   string
		places Places
		store  string
		says   string // a part of the error
	}{
		{some[2:3], Auto, samples, "one", ""},
		{some[2:3], "one", Places{Dataset: "D", Live: true}, "one", ""},
		{some[2:3], "two", samples, "", "--store two is not one of auto, one"},
		{some[2:3], Auto, pack, "", "these flags do not select a store: give --dataset with --samples or --fanout for one"},
		{some[2:3], "one", pack, "", "--store one takes --dataset with --samples or --fanout, and no other directories"},
		{some[2:3], Auto, Places{}, "", "these flags do not select a store: give --dataset"},
		{some[2:3], Auto, Places{Pack: "P", Dataset: "D"}, "", "these flags do not select a store: give --dataset"},
		{some[:1], Auto, pack, "dir", ""},
		{some[:1], Auto, Places{}, "", "--pack is missing"},
		{some[:1], "dir", samples, "", "--store dir takes --pack, and no other directories"},
		{some[:1], Auto, Places{Samples: "S"}, "", "give --pack for dir"},
		{some[:1], Auto, Places{Pack: "P", Samples: "S"}, "", "leave S out"},
		{some[:1], "dir", Places{Pack: "P", Dataset: "D"}, "", "--pack P has all that training reads: leave D out"},
		{some, "two", Places{Pack: "P", Dataset: "D"}, "", "--store two takes --dataset"},
		{some, "own", samples, "own", ""},
		{List{}, Auto, samples, "", "these flags do not select a store"},
		{List{}, "one", samples, "", "--store one is not one of auto"},
	} {
		d, err := c.list.Choose(c.name, c.places)
		if (err == nil) != (c.says == "") || d.Name != c.store || err != nil && (!errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v, --store %s, %+v: %q, %v, want %q, %q", c.list.Names(), c.name, c.places, d.Name, err, c.store, c.says)
		}
	}
}
