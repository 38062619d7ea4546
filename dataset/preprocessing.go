package dataset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Preprocessing records the changes that import made to the edges and features of a source. Weights
// that were trained on one graph suit another graph with the same Preprocessing.
type Preprocessing struct {
	DType        dtype.Type `json:"dtype"`             // of the features
	Binarize     bool       `json:"binarize"`          // features became ones and zeros
	RowNormalize bool       `json:"row_normalize"`     // feature rows were scaled to the sum 1
	Reverse      bool       `json:"reverse"`           // the reverse of every edge was added
	Dedupe       bool       `json:"dedupe"`            // equal edges were stored once
	SelfLoops    string     `json:"self_loops"`        // what became of them: keep, drop or add
	Feature      string     `json:"feature,omitempty"` // which of several the source has; "" by the format's rule
	Fill         string     `json:"fill,omitempty"`    // how types without features got some, or ""
}

// Values of Preprocessing.SelfLoops and of import's --self-loops.
const (
	loopsKeep = "keep"
	loopsDrop = "drop"
	loopsAdd  = "add"
)

// Preprocessing returns the preprocessing that the dataset's content parameters record. For a
// generated dataset only the dtype and the filling are set, and self-loops are kept.
func (d *Dataset) Preprocessing() (Preprocessing, error) {
	p := Preprocessing{DType: d.facts.DType, SelfLoops: loopsKeep}
	var params struct { // of package importer
		Source       string            `json:"source"`
		Binarize     bool              `json:"binarize"`
		RowNormalize bool              `json:"row_normalize"`
		Symmetrize   bool              `json:"symmetrize"`
		AddReverse   bool              `json:"add_reverse_edges"`
		Dedupe       bool              `json:"dedupe"`
		SelfLoops    string            `json:"self_loops"`
		Fill         string            `json:"fill"`
		Reading      map[string]string `json:"reading"`
	}
	if err := d.meta.DecodeParams(&params); err != nil {
		return p, fmt.Errorf("%s: %w", d.dir, err)
	}
	p.Binarize, p.RowNormalize = params.Binarize, params.RowNormalize
	p.Reverse, p.Dedupe = params.Symmetrize || params.AddReverse, params.Symmetrize || params.Dedupe
	if params.Symmetrize {
		p.SelfLoops = loopsDrop
	}
	if params.SelfLoops != "" {
		p.SelfLoops = params.SelfLoops
	}
	p.Feature, p.Fill = params.Reading["feature"], params.Fill
	return p, nil
}

// RecordedPreprocessing returns the Preprocessing of the dataset from which dir, such as a pack, was
// made: dir's run.json has it. It returns nil if run.json has none, as in earlier versions, or an
// invalid one. No checksum covers run.json.
func RecordedPreprocessing(fsys vfs.FS, dir string) *Preprocessing {
	var p Preprocessing
	if b := stage.RunFact(fsys, dir, stage.PreprocessingFact); b == nil || json.Unmarshal(b, &p) != nil || p.Check() != nil {
		return nil
	}
	return &p
}

// PreprocessingNames are the possible values of PreprocessingDifference.Name.
var PreprocessingNames = []string{"dtype", "binarize", "row-normalize", "reverse-edges", "dedupe", "self-loops", "feature", "fill"}

// PreprocessingDifference is one difference between the preprocessing of two graphs.
type PreprocessingDifference struct {
	Name  string // one of PreprocessingNames
	Value string // of this graph, as text
	Than  string // of the other graph, as text
}

func (d PreprocessingDifference) String() string {
	return fmt.Sprintf("%s: %s, not %s", d.Name, d.Value, d.Than)
}

// Differences returns the fields in which p differs from other, in the order of PreprocessingNames.
func (p *Preprocessing) Differences(other *Preprocessing) []PreprocessingDifference {
	var list []PreprocessingDifference
	yes := map[bool]string{false: "no", true: "yes"}
	chosen := func(name string) string {
		if name == "" {
			return "the format's default"
		}
		return name
	}
	for i, v := range [][2]string{
		{string(p.DType), string(other.DType)},
		{yes[p.Binarize], yes[other.Binarize]},
		{yes[p.RowNormalize], yes[other.RowNormalize]},
		{yes[p.Reverse], yes[other.Reverse]},
		{yes[p.Dedupe], yes[other.Dedupe]},
		{p.SelfLoops, other.SelfLoops},
		{chosen(p.Feature), chosen(other.Feature)},
		{cmp.Or(p.Fill, "no"), cmp.Or(other.Fill, "no")},
	} {
		if v[0] != v[1] {
			list = append(list, PreprocessingDifference{PreprocessingNames[i], v[0], v[1]})
		}
	}
	return list
}

// Check returns an error of kind fault.ErrCorrupt if a field has an impossible value.
func (p *Preprocessing) Check() error {
	switch {
	case !FeatureType(p.DType):
		return fault.New(fault.ErrCorrupt, "the preprocessing has the dtype %.20q, not float32, float16 or bfloat16", p.DType)
	case !slices.Contains([]string{loopsKeep, loopsDrop, loopsAdd}, p.SelfLoops):
		return fault.New(fault.ErrCorrupt, "the preprocessing has the self-loops %.20q, not keep, drop or add", p.SelfLoops)
	}
	return nil
}
