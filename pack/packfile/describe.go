package packfile

import (
	"strings"

	"diskgnn/graph"
)

// Description has the sizes and contents of a pack. For a shard they are the shard's own, except Segments.
type Description struct {
	Policy   string `json:"policy"`
	DType    string `json:"dtype"`
	Codec    string `json:"codec"`
	Nodes    int64  `json:"nodes"`
	RowBytes int    `json:"row_bytes"`
	Epochs   int    `json:"epochs"`
	Batches  int    `json:"batches"` // all batches, with evaluation
	Segment  int    `json:"segment"` // training batches of a segment
	Segments int    `json:"segments"`

	Levels []Level `json:"levels"`
	Caches []Cache `json:"caches"` // caches that a trainer may choose from, smallest first

	// Types and TypeInputs are the Facts of a typed graph.
	Types      *graph.Types `json:"types,omitempty"`
	TypeInputs []int64      `json:"type_input_nodes,omitempty"`

	DiskBytes int64 `json:"disk_bytes"`
	// Blowup is DiskBytes over the bytes of the dataset's feature table.
	Blowup float64 `json:"blowup"`
}

// Level is one part of a pack.
type Level struct {
	Name  string `json:"name"` // hot, ssd, cold, evaluation, graphs or index
	Rows  int64  `json:"rows"` // 0 for graphs and the index
	Bytes int64  `json:"bytes"`
}

// Cache has the reads of a trainer with Rows rows in memory. Bytes is the memory of
// these rows; the other bytes cover the training batches of all epochs.
type Cache struct {
	Rows  int64   `json:"rows"`
	Bytes int64   `json:"bytes"`
	Share float64 `json:"share"` // Rows over the number of nodes
	// Hits is the share of the batches' rows that memory serves. Over all caches of a pack it is the curve
	// of hotness.
	Hits      float64 `json:"hits"`
	ColdRows  int64   `json:"cold_rows"`
	ColdBytes int64   `json:"cold_bytes"` // stored bytes of the chunks that are read
	SSDRows   int64   `json:"ssd_rows"`   // rows that are read, counted for each batch
	SSDBytes  int64   `json:"ssd_bytes"`  // bytes of SSDRows, without the rest of their pages
	// GraphBytes are read for a model that uses no degrees and no ids of input nodes.
	GraphBytes int64 `json:"graph_bytes"`
}

// Describe computes the description from the metadata and the index.
func (r *Reader) Describe() Description {
	f, x := &r.facts, r.index
	lo, hi := r.part.Batches(f)
	hot, eval, evals := f.HotRows, f.EvalRows, f.Valid+f.Test
	if !r.part.Common {
		hot, eval, evals = 0, 0, 0
	}
	d := Description{
		Policy: r.params.Policy, DType: string(f.DType), Codec: r.params.Codec,
		Nodes: f.Nodes, RowBytes: f.RowBytes, Epochs: f.Epochs, Batches: hi - lo + evals,
		Segment: f.Segment, Segments: f.Segments, Types: f.Types, TypeInputs: f.TypeInputs,
	}
	d.Levels = []Level{{Name: "hot", Rows: hot}, {Name: "ssd", Rows: f.SSDRows}, {Name: "cold", Rows: f.ColdRows},
		{Name: "evaluation", Rows: eval}, {Name: "graphs"}, {Name: "index"}}
	level := map[string]*Level{}
	for i := range d.Levels {
		level[d.Levels[i].Name] = &d.Levels[i]
	}
	for _, file := range r.meta.Files {
		level[levelOf(file.Name)].Bytes += file.Size
		d.DiskBytes += file.Size
	}
	d.Blowup = float64(d.DiskBytes) / float64(max(f.TableBytes, 1))
	for e := len(x.Edges) - 1; e >= 0; e-- {
		through := e
		if r.params.Policy == PolicyMin {
			through = x.Bands - 1
		}
		d.Caches = append(d.Caches, r.cache(x.Edges[e], through))
	}
	return d
}

// levelOf returns the level that a file belongs to.
func levelOf(name string) string {
	switch {
	case strings.HasPrefix(name, "hot.") || strings.HasPrefix(name, "refill."):
		return "hot"
	case strings.HasPrefix(name, "ssd-"):
		return "ssd"
	case strings.HasPrefix(name, "cold-"):
		return "cold"
	case strings.HasPrefix(name, "eval.") || strings.HasPrefix(name, "eval-cold."):
		return "evaluation"
	case strings.HasPrefix(name, "graph-") || name == EvalGraphFile:
		return "graphs"
	}
	return "index"
}

// cache describes the cache of the given rows, with which bands 0 … through are read.
func (r *Reader) cache(rows int64, through int) Cache {
	c := Cache{Rows: rows, Bytes: rows * int64(r.facts.RowBytes), Share: float64(rows) / float64(max(r.facts.Nodes, 1))}
	inputs := int64(0)
	for i := range r.index.Train {
		t := &r.index.Train[i]
		inputs += int64(t.Inputs)
		c.ColdRows += int64(t.ColdRows(through))
		c.SSDRows += int64(t.SSDRows(through))
		c.ColdBytes += t.Extent(r.Form(), through)
		_, bytes := r.TrainGraph(i, Needs{Through: through})
		c.GraphBytes += int64(bytes)
	}
	c.SSDBytes = c.SSDRows * int64(r.facts.RowBytes)
	c.Hits = 1 - float64(c.ColdRows+c.SSDRows)/float64(max(inputs, 1))
	return c
}
