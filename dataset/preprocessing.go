package dataset

import (
	"encoding/json"
	"fmt"
	"slices"

	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Preprocessing is the record of the changes to a source's edges and features when a dataset was made
// of it. Weights trained on one graph are of use on another graph that was prepared likewise.
type Preprocessing struct {
	DType        dtype.Type `json:"dtype"`             // of the features
	Binarize     bool       `json:"binarize"`          // features became ones and zeros
	RowNormalize bool       `json:"row_normalize"`     // feature rows were scaled to the sum 1
	Reverse      bool       `json:"reverse"`           // the reverse of every edge was added
	Dedupe       bool       `json:"dedupe"`            // equal edges were stored once
	SelfLoops    string     `json:"self_loops"`        // what became of them: keep, drop or add
	Feature      string     `json:"feature,omitempty"` // which of several the source has; "" by the format's rule
}

// What Preprocessing.SelfLoops says, as import's --self-loops does.
const (
	loopsKeep = "keep"
	loopsDrop = "drop"
	loopsAdd  = "add"
)

// Preprocessing returns how the dataset was prepared. One that was not imported is as it was made:
// only its dtype was chosen.
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
	p.Feature = params.Reading["feature"]
	return p, nil
}

// RecordedPreprocessing returns the Preprocessing that a directory which was made of a dataset, such as
// a pack, keeps in its run.json: nil if it has none, as in directories of earlier versions. No checksum
// covers it.
func RecordedPreprocessing(fsys vfs.FS, dir string) *Preprocessing {
	var p Preprocessing
	if b := stage.RunFact(fsys, dir, stage.PreprocessingFact); b == nil || json.Unmarshal(b, &p) != nil || p.Check() != nil {
		return nil
	}
	return &p
}

// PreprocessingNames are the names by which Differences reports differences.
var PreprocessingNames = []string{"dtype", "binarize", "row-normalize", "reverse-edges", "dedupe", "self-loops", "feature"}

// PreprocessingDifference is one respect in which two graphs were prepared differently.
type PreprocessingDifference struct {
	Name  string // one of PreprocessingNames
	Value string // of the one, as messages have it
	Than  string // of the other
}

func (d PreprocessingDifference) String() string {
	return fmt.Sprintf("%s: %s, not %s", d.Name, d.Value, d.Than)
}

// Differences returns in which respects the graph was prepared otherwise than the other.
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
	} {
		if v[0] != v[1] {
			list = append(list, PreprocessingDifference{PreprocessingNames[i], v[0], v[1]})
		}
	}
	return list
}

// Check refuses a Preprocessing that no dataset has.
func (p *Preprocessing) Check() error {
	switch {
	case !FeatureType(p.DType):
		return fault.New(fault.ErrCorrupt, "the preprocessing has the dtype %.20q, not float32, float16 or bfloat16", p.DType)
	case !slices.Contains([]string{loopsKeep, loopsDrop, loopsAdd}, p.SelfLoops):
		return fault.New(fault.ErrCorrupt, "the preprocessing has the self-loops %.20q, not keep, drop or add", p.SelfLoops)
	}
	return nil
}
