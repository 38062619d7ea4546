package stores

import (
	"strings"

	"diskgnn/featurestore"
)

// Usage returns the meaning of --store for its help: every store with its directories.
func (l List) Usage() string {
	var list []string
	for _, g := range l.groups(source) {
		list = append(list, either(g.names)+" ("+g.text+")")
	}
	return "source of the rows: " + either(append(list, Auto))
}

// source returns the place of a store's rows, in the words of the help.
func source(d *featurestore.Design) string {
	switch {
	case d.On == nil:
		return "--pack"
	case d.HoldsAll:
		return "--dataset, all rows in memory"
	case d.Maps:
		return "--dataset, by page faults"
	case d.OwnSamples:
		return "--dataset, and --samples of some orders"
	}
	return "--dataset, read while training"
}

// PolicyUsage adds to the meaning of --cache-policy the policies of every store that has any.
func (l List) PolicyUsage(meaning string) string {
	list := []string{meaning}
	for i := range l {
		if names := l[i].Policies; len(names) == 1 {
			list = append(list, l[i].Name+" has "+names[0])
		} else if len(names) > 1 {
			list = append(list, l[i].Name+" has "+either(append([]string{names[0] + " (its default)"}, names[1:]...)))
		}
	}
	return strings.Join(append(list, "other stores have none"), "; ")
}

// OrderUsage adds to the usual default of --topology-order the defaults of the stores that have another one.
func (l List) OrderUsage(usual string) string {
	text := usual
	for i := range l {
		if order := l[i].ListOrder; order != "" {
			text += "; with --store " + l[i].Name + ": " + order
		}
	}
	return text
}

// either joins words by commas and "or".
func either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
