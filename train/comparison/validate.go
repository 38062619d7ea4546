package comparison

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
)

// longest is the most seconds of measuring the drive.
const longest = 3600

// Validate returns an error that names the first invalid flag. Call EnsureDefaults before.
func (o *Options) Validate() error {
	usage := func(format string, args ...any) error { return fault.New(fault.ErrUsage, format, args...) }
	switch {
	case o.Dataset == "":
		return usage("--dataset is missing: name the directory that `diskgnn generate` or `diskgnn import` made")
	case o.Out == "":
		return usage("--out is missing: name the directory to make for the comparison")
	case len(o.Stores) == 0:
		return usage("--stores is empty: name one or more of %s", strings.Join(o.names(), ", "))
	case o.Rounds < 1:
		return usage("--rounds %d: give a positive number", o.Rounds)
	case o.DriveSeconds < 0 || o.DriveSeconds > longest:
		return usage("--drive-seconds %v: give a number from 0 to %d", o.DriveSeconds, longest)
	case o.Live && o.Samples != "":
		return usage("--live draws batches while training, but --samples %s has batches already: leave one of the two out", o.Samples)
	}
	for i, name := range o.Stores {
		if !slices.Contains(o.names(), name) {
			return usage("--stores %s is not one of %s", name, strings.Join(o.names(), ", "))
		}
		if slices.Contains(o.Stores[:i], name) {
			return usage("--stores names %s twice", name)
		}
	}
	variants, err := o.variants()
	if err != nil {
		return err
	}
	for _, v := range variants {
		if err := v.validate(); err != nil {
			return err
		}
	}
	return nil
}

// validate names the first flag that is invalid for a store, or for drawing samples.
func (v *variant) validate() error {
	o := &v.o
	for _, name := range o.Stores {
		t := o.Train
		t.Store, t.Out, t.Pack, t.Dataset, t.Samples = name, o.Out, "", o.Dataset, samplesDir
		if !t.Stores.Design(name).Maps {
			t.PageCache = ""
		}
		switch {
		case o.needsPack(name):
			t.Pack, t.Dataset, t.Samples, t.Topology = packDir, "", "", topology.Choice{Level: topology.Mapped}
		case o.Live:
			t.Samples, t.Fanout = "", sampler.FormatFanout(o.Sampling.Fanout)
			t.BatchSize, t.EvalFanout, t.SampleSeed = o.Sampling.BatchSize, o.Sampling.EvalFanout, t.Seed
			t.Recipe.EnsureDefaults()
		}
		if err := t.Validate(); err != nil {
			return err
		}
	}
	if o.Samples != "" {
		return nil
	}
	s := o.Sampling
	s.Dataset, s.Out, s.Memory = o.Dataset, filepath.Join(o.Out, samplesDir), o.Train.Memory
	return s.Validate()
}

// variants returns the options as given, followed by each ablation's.
func (o *Options) variants() ([]*variant, error) {
	list := []*variant{{o: *o}}
	for i, name := range o.Ablations {
		v := &variant{name: name, o: *o}
		parts := strings.Split(name, joint)
		for _, before := range o.Ablations[:i] {
			if sameParts(parts, strings.Split(before, joint)) {
				return nil, fault.New(fault.ErrUsage, "--ablate names %s twice", before)
			}
		}
		for j, part := range parts {
			if slices.Contains(parts[:j], part) {
				return nil, fault.New(fault.ErrUsage, "--ablate %s names %s twice", name, part)
			}
			k := slices.IndexFunc(ablations, func(a ablation) bool { return a.name == part })
			if k < 0 {
				return nil, fault.New(fault.ErrUsage, "--ablate %s is not one of %s", cmp.Or(part, `""`), strings.Join(Ablations(), ", "))
			}
			if err := ablations[k].apply(v); err != nil {
				return nil, fault.New(fault.ErrUsage, "--ablate %s: %v", part, err)
			}
		}
		list = append(list, v)
	}
	return list, nil
}

// sameParts reports whether two lists have the same parts, in any order.
func sameParts(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
