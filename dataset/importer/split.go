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

// Split describes the random division of the labelled nodes into training, validation and test nodes.
type Split struct {
	Parts    string // percentages, like "60/20/20", or shares, like "0.6/0.2/0.2"
	Seed     uint64
	Stratify bool // divide the nodes of every class by the same shares
}

// splitVersion keys the draw: it changes whenever the same split gives other nodes.
const splitVersion = 1

// shares returns the shares of training, validation and test nodes. Nodes beyond their sum are in no
// split.
func (s *Split) shares() (shares [3]float64, err error) {
	percent, _, err := s.percent()
	for i, x := range percent {
		shares[i] = x / 100
	}
	return shares, err
}

// nearOne is how far shares may be below 1 in all: rounded thirds are.
const nearOne = 0.01 + 1e-9

// percent reads Parts. Numbers below 1 that are 1 in all are shares, others are percentages; small
// ones that may be either need the sign. The content parameters have the split as it was written, but
// shares as the percentages that they are equal to.
func (s *Split) percent() (percent [3]float64, content string, err error) {
	bad := fault.New(fault.ErrUsage, "--split %s: needs three percentages, as in 60/20/20, or shares, as in 0.6/0.2/0.2", s.Parts)
	parts := strings.Split(s.Parts, "/")
	if len(parts) != len(percent) {
		return percent, "", bad
	}
	sum, most, signs := 0.0, 0.0, 0
	for i, p := range parts {
		number, sign := strings.CutSuffix(strings.TrimSpace(p), "%")
		x, err := strconv.ParseFloat(number, 64)
		if err != nil || !(x >= 0 && x <= 100) {
			return percent, "", bad
		}
		if sign {
			signs++
		}
		percent[i], sum, most = x, sum+x, max(most, x)
	}
	whole := sum <= 1+1e-9 && sum >= 1-nearOne
	switch {
	case sum > 100+1e-9 || percent[0] == 0:
		return percent, "", fault.New(fault.ErrUsage, "--split %s: the sum is more than 100 %%, or the training share is 0", s.Parts)
	case signs == len(parts):
	case signs > 0 || most < 1 && !whole || most == 1 && whole || math.Abs(sum-10) < 1e-9: // 8/1/1
		return percent, "", fault.New(fault.ErrUsage, "--split %s: the numbers may be percentages or shares: write %s", s.Parts, ways(percent, sum))
	case most < 1:
		percent = ofShares(percent)
		return percent, written(percent, ""), nil
	}
	return percent, s.Parts, nil
}

// ofShares returns shares in percent: of 0.07 it is 7, which 100 · 0.07 is not.
func ofShares(shares [3]float64) (percent [3]float64) {
	for i, x := range shares {
		percent[i] = math.Round(x*1e12) / 1e10
	}
	return percent
}

// ways returns the spellings that make ambiguous numbers percentages only, or shares only.
func ways(numbers [3]float64, sum float64) string {
	way := written(numbers, "%")
	switch {
	case sum <= 1+1e-9:
		way += " or " + written(ofShares(numbers), "%")
	case math.Abs(sum-10) < 1e-9:
		way += " or " + written([3]float64{10 * numbers[0], 10 * numbers[1], 10 * numbers[2]}, "%")
	}
	return way
}

func written(percent [3]float64, sign string) string {
	var parts []string
	for _, x := range percent {
		parts = append(parts, strconv.FormatFloat(x, 'f', -1, 64)+sign)
	}
	return strings.Join(parts, "/")
}

// draw assigns the labelled nodes to the splits. Each node in turn goes to a part with the probability
// of the nodes that the part still lacks, among the nodes still to come (selection sampling; Fan,
// Muller and Rezucha, 1962). So every division into these sizes is equally likely, in one pass. The
// sizes are the shares of the labelled nodes, rounded; if stratified, of the nodes of each class.
func (s *Split) draw(l *Labelling) error {
	shares, err := s.shares()
	if err != nil {
		return err
	}
	strata := 1
	if s.Stratify && l.targets == nil {
		if strata = int(l.most) + 1; strata > len(l.classes) {
			return fault.New(fault.ErrInput, "--stratify: too many classes: labels are up to %d, but there are %d nodes", l.most, len(l.classes))
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
		err := fault.New(fault.ErrInput, "%s has no splits: give --split, like --split 60/20/20, to draw them", im.name())
		if s.OtherSets != "" {
			err = fault.New(err, "%v; %s", err, s.OtherSets)
		}
		return err
	}
	_, err := im.split.shares()
	return err
}
