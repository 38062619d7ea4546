// Package all is the registry of stores. It finds a store by its name or by the directories of a run.
package all

import (
	"cmp"
	"fmt"
	"strings"

	"diskgnn/dataset"
	"diskgnn/featurestore"
	"diskgnn/featurestore/agnes"
	"diskgnn/featurestore/gids"
	"diskgnn/featurestore/ginex"
	"diskgnn/featurestore/gnndrive"
	"diskgnn/featurestore/hyperion"
	"diskgnn/featurestore/live"
	"diskgnn/featurestore/marius"
	"diskgnn/featurestore/memory"
	"diskgnn/featurestore/mmap"
	"diskgnn/featurestore/packed"
	"diskgnn/featurestore/rows"
	"diskgnn/featurestore/sampled"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Auto is the value of --store that selects a store by the directories.
const Auto = "auto"

// Places are the directories of a run, as its flags give them; "" if a flag is not given. Live reports
// whether batches are drawn while training, which --fanout sets.
type Places struct {
	Pack, Dataset, Samples string
	Live                   bool
}

// stores lists the stores of this build.
var stores = []struct {
	name  string
	needs string // the flags of its directories
	given func(p *Places) bool
	// find finds a store with a directory of its own; on finds a store on the batches of a source.
	find func(fsys vfs.FS, p *Places) (featurestore.Candidate, error)
	on   func(s featurestore.Source, d *dataset.Dataset) (featurestore.Candidate, error)
	// policies are the values of --cache-policy, the default first; nil: there is no choice.
	policies []string
}{
	{packed.Name, "--pack",
		func(p *Places) bool { return p.Pack != "" && p.Dataset == "" && p.Samples == "" },
		func(fsys vfs.FS, p *Places) (featurestore.Candidate, error) { return packed.Find(fsys, p.Pack) },
		nil, nil},
	{memory.Name, ofSource, hasSource, nil, memory.On, nil},
	{rows.Name, ofSource, hasSource, nil, rows.On, rows.Policies()},
	{ginex.Name, ofSource, hasSource, nil, ginex.On, ginex.Policies()},
	{gnndrive.Name, ofSource, hasSource, nil, gnndrive.On, gnndrive.Policies()},
	{agnes.Name, ofSource, hasSource, nil, agnes.On, nil},
	{gids.Name, ofSource, hasSource, nil, gids.On, gids.Modes()},
	{hyperion.Name, ofSource, hasSource, nil, hyperion.On, nil},
	{marius.Name, ofSource, hasSource, nil, marius.On, nil},
	{mmap.Name, ofSource, hasSource, nil, mmap.On, nil},
}

// ofSource are the flags of a source of batches, with the dataset that has their rows.
const ofSource = "--dataset with --samples or --fanout"

func hasSource(p *Places) bool {
	return p.Pack == "" && p.Dataset != "" && (p.Samples != "" || p.Live)
}

// Names returns the values that --store accepts, Auto first.
func Names() []string {
	names := []string{Auto}
	for _, s := range stores {
		names = append(names, s.name)
	}
	return names
}

// Choose returns the name of the store to open: name itself, or for Auto the first store that needs
// exactly the directories in p. Directories that the store does not use, or lacks, are an error of kind
// fault.ErrUsage.
func Choose(name string, p Places) (string, error) {
	if from := cmp.Or(p.Pack, p.Samples); p.Live && from != "" {
		return "", fault.New(fault.ErrUsage, "--fanout draws batches while training, but %s has batches already: give --fanout with --dataset alone, or leave it out", from)
	}
	if from := cmp.Or(p.Dataset, p.Samples); p.Pack != "" && from != "" && (name == Auto || name == packed.Name) {
		return "", fault.New(fault.ErrUsage, "--pack %s has all that training reads: leave %s out, or train without --pack on --dataset with --samples or --fanout", p.Pack, from)
	}
	for _, s := range stores {
		switch {
		case name == s.name && !s.given(&p):
			return "", fault.New(fault.ErrUsage, "--store %s takes %s, and no other directories", name, s.needs)
		case name == s.name || name == Auto && s.given(&p):
			return s.name, nil
		}
	}
	if name != Auto {
		return "", fault.New(fault.ErrUsage, "--store %s is not one of %s", name, strings.Join(Names(), ", "))
	}
	if p == (Places{}) {
		return "", fault.New(fault.ErrUsage, "--pack is missing: name the directory that `diskgnn pack` made, or give --dataset with --samples or --fanout")
	}
	return "", fault.New(fault.ErrUsage, "these flags do not select a store: give %s", ways())
}

func ways() string {
	var list []string
	needs := ""
	for _, s := range stores {
		if s.needs == needs {
			list[len(list)-1] += ", " + s.name
			continue
		}
		needs = s.needs
		list = append(list, needs+" for "+s.name)
	}
	return strings.Join(list, ", or ")
}

// Policies returns the values of --cache-policy for a store, the default first, or nil if there is no
// choice. name is a result of Choose.
func Policies(name string) []string {
	for _, s := range stores {
		if s.name == name {
			return s.policies
		}
	}
	return nil
}

// HoldsAll reports whether a store always holds all rows, and needs no size of a cache. name is a result
// of Choose.
func HoldsAll(name string) bool { return name == memory.Name }

// Maps reports whether a store maps its rows, and has threads that wait for page faults. name is a result
// of Choose.
func Maps(name string) bool { return name == mmap.Name }

// Divides reports whether a store divides its memory between rows and lists of in-neighbours. name is a
// result of Choose.
func Divides(name string) bool { return name == hyperion.Name }

// Particular reports whether a store needs samples that were drawn for it. name is a result of Choose.
func Particular(name string) bool { return name == marius.Name }

// Find reads the metadata of the store that Choose returns. For batches drawn while training, see On. The
// reason is one line for the log: the name of the store and its directory.
func Find(fsys vfs.FS, name string, p Places) (c featurestore.Candidate, reason string, err error) {
	if name, err = Choose(name, p); err != nil {
		return nil, "", err
	}
	for _, s := range stores {
		if s.name != name {
			continue
		}
		if s.on == nil {
			c, err = s.find(fsys, &p)
		} else if source, wrong := sampled.Find(fsys, p.Dataset, p.Samples); wrong != nil {
			err = wrong
		} else {
			c, err = s.on(source, source.Dataset())
		}
	}
	if err != nil {
		return nil, "", err
	}
	return c, fmt.Sprintf("%s: %s", name, c.Dir()), nil
}

// On is Find for batches that the given source draws while training.
func On(name string, p Places, source *live.Source) (c featurestore.Candidate, reason string, err error) {
	if name, err = Choose(name, p); err != nil {
		return nil, "", err
	}
	for _, s := range stores {
		if s.name == name && s.on != nil {
			c, err = s.on(source, source.Dataset())
		}
	}
	if err != nil {
		return nil, "", err
	}
	return c, fmt.Sprintf("%s: %s, batches drawn while training", name, source.Dir()), nil
}
