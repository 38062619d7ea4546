package decide

import (
	"diskgnn/dataset"
	"diskgnn/train/rundir"
)

// File returns the content of run.json for a run with that setup, without the facts of this
// process. A resumed run keeps the command and the parents of its first process.
func (d *Decision) File(s rundir.Setup) rundir.File {
	o, store, was := &d.Options, &d.Facts.Store, d.Facts.Was
	l := store.Lineage
	f := rundir.File{Command: o.Command, Store: store.Name, Pack: l.Store, Samples: l.Samples, Dataset: l.Dataset,
		LabelKind: dataset.LabelKind(store.MultiLabel()), Preferences: o.Preferences, Setup: s,
		Params: rundir.Params{Recipe: o.Recipe, Network: o.Network()},
		PackFacts: rundir.PackFacts{Dir: store.Dir, Nodes: store.Nodes, Dim: store.Dim, Classes: store.Classes, DType: store.DType, RowBytes: store.RowBytes,
			Types: store.Types, TypeInputs: store.TypeInputs, Fanout: store.Fanout, Epochs: store.Epochs, BatchesPerEpoch: store.BatchesPerEpoch, Description: store.Description}}
	if o.Engine != EngineGPU {
		f.Params.Precision = "" // which the other engines have none of
	}
	if was == nil {
		return f
	}
	f.Pack, f.Samples = was.Pack, was.Samples // which checkpoints name
	if was.Command != nil {
		f.Command = was.Command
	}
	if first := was.First(); first != o.Epochs {
		f.FirstEpochs = first
	}
	return f
}
