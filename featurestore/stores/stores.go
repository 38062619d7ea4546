// Package stores is the list of stores that a program offers. It finds a store by its name or by the
// directories of a run.
package stores

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"diskgnn/featurestore"
	"diskgnn/featurestore/onthefly"
	"diskgnn/featurestore/presampled"
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

// List has the stores to choose from, with different names. The first one with a directory of its own, and the
// first one on batches of a source, are chosen by Auto.
type List []featurestore.Design

// needs returns the flags of a store's directories.
func needs(d *featurestore.Design) string {
	if d.On == nil {
		return "--pack"
	}
	return "--dataset with --samples or --fanout"
}

// given reports whether a store needs exactly the directories in p.
func given(d *featurestore.Design, p *Places) bool {
	if d.On == nil {
		return p.Pack != "" && p.Dataset == "" && p.Samples == ""
	}
	return p.Pack == "" && p.Dataset != "" && (p.Samples != "" || p.Live)
}

// Names returns the values that --store accepts, Auto first.
func (l List) Names() []string {
	names := []string{Auto}
	for i := range l {
		names = append(names, l[i].Name)
	}
	return names
}

// Choose returns the store to open: the named one, or for Auto the first store that needs exactly the
// directories in p. Directories that the store does not use, or lacks, are an error of kind
// fault.ErrUsage.
func (l List) Choose(name string, p Places) (d featurestore.Design, err error) {
	usage := func(format string, args ...any) (featurestore.Design, error) {
		return featurestore.Design{}, fault.New(fault.ErrUsage, format, args...)
	}
	if from := cmp.Or(p.Pack, p.Samples); p.Live && from != "" {
		return usage("--fanout draws batches while training, but %s has batches already: give --fanout with --dataset alone, or leave it out", from)
	}
	packs := slices.ContainsFunc(l, func(d featurestore.Design) bool { return d.Find != nil && (name == Auto || name == d.Name) })
	if from := cmp.Or(p.Dataset, p.Samples); p.Pack != "" && from != "" && packs {
		return usage("--pack %s has all that training reads: leave %s out, or train without --pack on --dataset with --samples or --fanout", p.Pack, from)
	}
	for i := range l {
		switch one := &l[i]; {
		case name == one.Name && !given(one, &p):
			return usage("--store %s takes %s, and no other directories", name, needs(one))
		case name == one.Name || name == Auto && given(one, &p):
			return *one, nil
		}
	}
	switch {
	case name != Auto:
		return usage("--store %s is not one of %s", name, strings.Join(l.Names(), ", "))
	case p == (Places{}) && packs:
		return usage("--pack is missing: name the directory that `diskgnn pack` made, or give --dataset with --samples or --fanout")
	}
	return usage("these flags do not select a store: give %s", l.ways())
}

// ways returns the directories of every store, for a message.
func (l List) ways() string {
	var list []string
	for _, g := range l.groups(needs) {
		list = append(list, g.text+" for "+strings.Join(g.names, ", "))
	}
	return strings.Join(list, ", or ")
}

// group has the names of stores that follow each other in a list and share a text.
type group struct {
	text  string
	names []string
}

func (l List) groups(text func(*featurestore.Design) string) (groups []group) {
	for i := range l {
		t, last := text(&l[i]), len(groups)-1
		if last < 0 || groups[last].text != t {
			groups, last = append(groups, group{text: t}), last+1
		}
		groups[last].names = append(groups[last].names, l[i].Name)
	}
	return groups
}

// Design returns the design of a store. It is empty for another name.
func (l List) Design(name string) featurestore.Design {
	if i := slices.IndexFunc(l, func(d featurestore.Design) bool { return d.Name == name }); i >= 0 {
		return l[i]
	}
	return featurestore.Design{}
}

// Find reads the metadata of the store that Choose returns. For batches drawn while training, see On. The
// reason is one line for the log: the name of the store and its directory.
func (l List) Find(fsys vfs.FS, name string, p Places) (c featurestore.Candidate, reason string, err error) {
	d, err := l.Choose(name, p)
	if err != nil {
		return nil, "", err
	}
	if d.On == nil {
		c, err = d.Find(fsys, p.Pack)
	} else {
		var source *presampled.Source
		if source, err = presampled.Find(fsys, p.Dataset, p.Samples); err == nil {
			c, err = d.On(source, source.Dataset())
		}
	}
	if err != nil {
		return nil, "", err
	}
	return c, fmt.Sprintf("%s: %s", d.Name, c.Dir()), nil
}

// On is Find for batches that the given source draws while training.
func (l List) On(name string, p Places, source *onthefly.Source) (c featurestore.Candidate, reason string, err error) {
	d, err := l.Choose(name, p)
	if err != nil {
		return nil, "", err
	}
	if c, err = d.On(source, source.Dataset()); err != nil {
		return nil, "", err
	}
	return c, fmt.Sprintf("%s: %s, batches drawn while training", d.Name, source.Dir()), nil
}
