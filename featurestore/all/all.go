// Package all lists the stores of the program. It finds a store by its name or by the directories of a run.
package all

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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

// Stores are the stores to choose from. The first one with a directory of its own, and the first one on batches of a
// source, are chosen by Auto.
type Stores []featurestore.Design

// Builtin returns the stores of this program.
func Builtin() Stores {
	return Stores{packed.Design(), memory.Design(), rows.Design(), ginex.Design(), gnndrive.Design(), agnes.Design(), gids.Design(),
		hyperion.Design(), marius.Design(), mmap.Design()}
}

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
func (s Stores) Names() []string {
	names := []string{Auto}
	for i := range s {
		names = append(names, s[i].Name)
	}
	return names
}

// Choose returns the store to open: the named one, or for Auto the first store that needs exactly the
// directories in p. Directories that the store does not use, or lacks, are an error of kind
// fault.ErrUsage.
func (s Stores) Choose(name string, p Places) (d featurestore.Design, err error) {
	if from := cmp.Or(p.Pack, p.Samples); p.Live && from != "" {
		return d, fault.New(fault.ErrUsage, "--fanout draws batches while training, but %s has batches already: give --fanout with --dataset alone, or leave it out", from)
	}
	if from := cmp.Or(p.Dataset, p.Samples); p.Pack != "" && from != "" && (name == Auto || name == packed.Name) {
		return d, fault.New(fault.ErrUsage, "--pack %s has all that training reads: leave %s out, or train without --pack on --dataset with --samples or --fanout", p.Pack, from)
	}
	for i := range s {
		switch one := &s[i]; {
		case name == one.Name && !given(one, &p):
			return d, fault.New(fault.ErrUsage, "--store %s takes %s, and no other directories", name, needs(one))
		case name == one.Name || name == Auto && given(one, &p):
			return *one, nil
		}
	}
	if name != Auto {
		return d, fault.New(fault.ErrUsage, "--store %s is not one of %s", name, strings.Join(s.Names(), ", "))
	}
	if p == (Places{}) {
		return d, fault.New(fault.ErrUsage, "--pack is missing: name the directory that `diskgnn pack` made, or give --dataset with --samples or --fanout")
	}
	return d, fault.New(fault.ErrUsage, "these flags do not select a store: give %s", s.ways())
}

func (s Stores) ways() string {
	var list []string
	for i := range s {
		if way := needs(&s[i]); i > 0 && way == needs(&s[i-1]) {
			list[len(list)-1] += ", " + s[i].Name
		} else {
			list = append(list, way+" for "+s[i].Name)
		}
	}
	return strings.Join(list, ", or ")
}

// Design returns the design of a store. It is empty for another name.
func (s Stores) Design(name string) featurestore.Design {
	if i := slices.IndexFunc(s, func(d featurestore.Design) bool { return d.Name == name }); i >= 0 {
		return s[i]
	}
	return featurestore.Design{}
}

// Find reads the metadata of the store that Choose returns. For batches drawn while training, see On. The
// reason is one line for the log: the name of the store and its directory.
func (s Stores) Find(fsys vfs.FS, name string, p Places) (c featurestore.Candidate, reason string, err error) {
	d, err := s.Choose(name, p)
	if err != nil {
		return nil, "", err
	}
	if d.On == nil {
		c, err = d.Find(fsys, p.Pack)
	} else {
		var source *sampled.Source
		if source, err = sampled.Find(fsys, p.Dataset, p.Samples); err == nil {
			c, err = d.On(source, source.Dataset())
		}
	}
	if err != nil {
		return nil, "", err
	}
	return c, fmt.Sprintf("%s: %s", d.Name, c.Dir()), nil
}

// On is Find for batches that the given source draws while training.
func (s Stores) On(name string, p Places, source *live.Source) (c featurestore.Candidate, reason string, err error) {
	d, err := s.Choose(name, p)
	if err != nil {
		return nil, "", err
	}
	if c, err = d.On(source, source.Dataset()); err != nil {
		return nil, "", err
	}
	return c, fmt.Sprintf("%s: %s, batches drawn while training", d.Name, source.Dir()), nil
}
