package importer

import (
	"math"
	"strconv"
	"strings"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/rng"
)

// Split says how the nodes that have a label are divided at random.
type Split struct {
	Parts    string // shares in percent: "60/20/20"
	Seed     uint64
	Stratify bool // the same shares of every class
}

// splitVersion keys the draw: it changes whenever the same split gives other nodes.
const splitVersion = 1

// shares returns the shares of the nodes to train on, to validate and to test with. What
// they leave of 100 is in no split.
func (s *Split) shares() (shares [3]float64, err error) {
	bad := fault.New(fault.ErrUsage, "--split %s: want three percentages, as in 60/20/20", s.Parts)
	parts := strings.Split(s.Parts, "/")
	if len(parts) != len(shares) {
		return shares, bad
	}
	sum := 0.0
	for i, p := range parts {
		x, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(p), "%"), 64)
		if err != nil || !(x >= 0 && x <= 100) {
			return shares, bad
		}
		shares[i] = x / 100
		sum += x
	}
	if sum > 100+1e-9 || shares[0] == 0 {
		return shares, fault.New(fault.ErrUsage, "--split %s: the shares are more than 100 %% in all, or leave nothing to train on", s.Parts)
	}
	return shares, nil
}

// draw assigns the labelled nodes: each in turn goes to a part with the probability of what
// the part still lacks among the nodes still to come (selection sampling; Fan, Muller and
// Rezucha, 1962). So every division of the sizes is equally likely, in one pass, and the sizes
// are the shares of the labelled nodes, rounded; of each class if stratified.
func (s *Split) draw(l *Labelling) error {
	shares, err := s.shares()
	if err != nil {
		return err
	}
	strata := 1
	if s.Stratify && l.targets == nil {
		if strata = int(l.most) + 1; strata > len(l.classes) {
			return fault.New(fault.ErrInput, "--stratify: labels up to %d for %d nodes", l.most, len(l.classes))
		}
	}
	left := make([][4]int64, max(strata, 1)) // nodes to come of each part; the last part is no split
	of := func(v int) *[4]int64 {
		if strata > 1 {
			return &left[l.classes[v]]
		}
		return &left[0]
	}
	for v, c := range l.classes {
		if c != graph.Unlabelled {
			of(v)[3]++
		}
	}
	for i := range left {
		total, before, share := left[i][3], int64(0), 0.0
		for part, x := range shares {
			share += x
			end := int64(math.Round(min(share, 1) * float64(total)))
			left[i][part] = end - before
			before = end
		}
		left[i][3] = total - before
	}
	src := rng.New(rng.Key(splitVersion, s.Seed))
	for v, c := range l.classes {
		if c == graph.Unlabelled {
			continue
		}
		k := of(v)
		at := int64(src.Uint64n(uint64(k[0] + k[1] + k[2] + k[3])))
		part := 0
		for at >= k[part] {
			at -= k[part]
			part++
		}
		if k[part]--; part < len(dataset.SplitNames) {
			l.part[v] = uint8(part + 1)
		}
	}
	return nil
}

// settleSplit decides which split is drawn, if any.
func (im *importing) settleSplit() error {
	s := &im.shape
	switch {
	case !im.o.Labelled():
		return nil
	case !s.NoSplit && im.o.Split != nil:
		return fault.New(fault.ErrUsage, "--split %s: %s has splits of its own", im.o.Split.Parts, im.name())
	case !s.NoSplit:
		return nil
	case im.o.Split != nil:
		im.split = im.o.Split
	case s.Split != nil:
		im.split = s.Split
	default:
		return fault.New(fault.ErrInput, "%s has no splits: give --split 60/20/20 to draw some", im.name())
	}
	_, err := im.split.shares()
	return err
}
