package mbfile

import (
	"slices"

	"diskgnn/graph"
	"diskgnn/graph/batchcodec"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/presample/walk"
)

// Limits that a reader accepts: far above any use, and low enough that products of these counts stay
// within 64 bits.
const (
	// MaxBatches is the largest number of batches of a directory.
	MaxBatches     = 1 << 26
	maxBatchSize   = 1 << 28
	maxFile        = 1 << 30 // numbers of files, so that they can be counted on from
	maxTargetBytes = 1<<24 - 1
)

// checkFacts refuses parameters and facts that no directory has, by themselves and
// together, so that everything that follows can compute with them. It comes before
// anything else is read.
func (r *Reader) checkFacts() error {
	p, f := &r.params, &r.facts
	bad := func(format string, args ...any) error { return fault.New(fault.ErrCorrupt, format, args...) }
	_, part := r.meta.Format.Whole()
	counts := []int{f.TrainBatches, f.ValidBatches, f.TestBatches}
	switch {
	case f.TargetBytes < 0 || f.TargetBytes > maxTargetBytes || f.TargetBytes == 0 && !r.version.plain || f.TargetBytes > 0 && !r.version.targets:
		return bad("it has %d bytes of targets for each seed node, which its format %s does not allow", f.TargetBytes, r.meta.Format)
	case f.Nodes < 1 || f.Nodes > graph.MaxNodes:
		return bad("its graph has %d nodes instead of 1 to %d", f.Nodes, int64(graph.MaxNodes))
	case r.version.typed != (f.Types != nil) || f.Types != nil && (f.Nodes != f.Types.NumFeatureRows() || f.Types.NumNodes() > graph.MaxNodes || f.Types.NumRows() > graph.MaxNodes):
		return bad("its graph has %d rows of features, which do not fit its types", f.Nodes)
	case f.SeedType < 0 || f.SeedType > 0 && (f.Types == nil || f.SeedType >= len(f.Types.Nodes)):
		return bad("its seed nodes have the type %d", f.SeedType)
	case badRelations(p, f, false) || badRelations(p, f, true) || p.Merged && f.Types == nil:
		return bad("its fanouts by relation, %v and for evaluation %v, are impossible", p.RelationFanout, p.EvalRelationFanout)
	case f.Types != nil && (p.Method != "" || p.Partitions != 0):
		return bad("its graph is typed, but its sampler is %q and it has %d partitions", p.Method, p.Partitions)
	case f.Layers < 1 || f.Layers > batchcodec.MaxLayers || len(p.Fanout) != f.Layers || len(p.EvalFanout) != f.Layers:
		return bad("it has %d layers, but fanouts of %d layers, and of %d for evaluation", f.Layers, len(p.Fanout), len(p.EvalFanout))
	case badFanout(p.Fanout) || badFanout(p.EvalFanout):
		return bad("its fanouts, %v and for evaluation %v, are impossible", p.Fanout, p.EvalFanout)
	case badMethod(p):
		return bad("its sampler %q, with a batch dependency of %d and layer dependency: %t, is impossible", p.Method, p.BatchDependency, p.LayerDependency)
	case badPartitions(p, f.Nodes):
		return bad("its order %q, with %d partitions, a buffer of %d and the walk %q, is impossible", p.Order, p.Partitions, p.Buffer, p.Walk)
	case p.BatchSize < 1 || p.BatchSize > maxBatchSize:
		return bad("its batches have %d seed nodes instead of 1 to %d", p.BatchSize, maxBatchSize)
	case slices.Min(counts) < 0 || slices.Max(counts) > MaxBatches || f.Batches() > MaxBatches:
		return bad("its numbers of training, validation and test batches, %d, %d and %d, are negative or more than %d", f.TrainBatches, f.ValidBatches, f.TestBatches, MaxBatches)
	case f.Epochs < 1 || f.Epochs > MaxBatches || f.Epochs != p.Epochs || f.BatchesPerEpoch < 0 || f.BatchesPerEpoch > MaxBatches:
		return bad("it has %d epochs of %d batches, but the parameters say %d epochs, and at most %d are possible", f.Epochs, f.BatchesPerEpoch, p.Epochs, MaxBatches)
	case f.Epochs*f.BatchesPerEpoch != f.TrainBatches && !(part && f.TrainBatches < f.Epochs*f.BatchesPerEpoch):
		return bad("it has %d training batches instead of %d epochs of %d batches", f.TrainBatches, f.Epochs, f.BatchesPerEpoch)
	case f.TypeInputs != nil && (f.Types == nil || len(f.TypeInputs) != len(f.Types.Nodes) || slices.Min(f.TypeInputs) < 0 || sum(f.TypeInputs) != f.Train.InputNodes):
		return bad("its types have the input nodes %v, which are not the %d of all training batches", f.TypeInputs, f.Train.InputNodes)
	case f.FirstFile < 0 || f.FirstFile > maxFile || f.FirstFile > 0 && !part:
		return bad("the number of its first file, %d, is impossible", f.FirstFile)
	}
	for _, want := range []stage.File{
		{Name: IndexFile, Size: int64(indexHead) + int64(f.Batches())*int64(recordBytes(f.Layers, f.Types != nil)) + 4},
		{Name: HotnessFile, Size: 4 * f.Nodes},
		{Name: SumsFile, Size: 8 + 16 + 4*((4*f.Nodes+hotnessGranule-1)/hotnessGranule) + 4},
	} {
		if have, ok := r.meta.File(want.Name); !ok || have.Size != want.Size {
			return bad("%s lists %d bytes for %s instead of the %d that its facts call for", stage.MetaFile, have.Size, want.Name, want.Size)
		}
	}
	return nil
}

// badRelations reports whether the fanouts by relation do not fit the types and the largest fanouts.
func badRelations(p *Params, f *Facts, eval bool) bool {
	have, most := p.RelationFanout, p.Fanout
	if eval {
		have, most = p.EvalRelationFanout, p.EvalFanout
	}
	if have == nil {
		return false
	}
	if f.Types == nil || p.Merged || len(have) != len(f.Types.Relations) {
		return true
	}
	by := p.ByRelation(f.Types, eval)
	return slices.ContainsFunc(by, func(l []int) bool { return len(l) != f.Layers || badFanout(l) }) || !slices.Equal(Most(by), most)
}

func badFanout(fanout []int) bool {
	return slices.ContainsFunc(fanout, func(n int) bool { return n != AllNeighbours && (n < 1 || n > maxBatchSize) })
}

// badMethod reports whether no samples are drawn so.
func badMethod(p *Params) bool {
	switch p.Method {
	case "":
		return p.BatchDependency != 0 || p.LayerDependency
	case Labor:
		return p.BatchDependency != 0 && (p.BatchDependency < 2 || p.BatchDependency > MaxBatchDependency)
	}
	return true
}

// badPartitions reports whether no samples are drawn from such a buffer.
func badPartitions(p *Params, nodes int64) bool {
	walks := []string{""} // that the order may have
	switch p.Order {
	case Dispersed:
		walks = []string{walk.Sweep, walk.Beta, walk.Comet}
	case Sequential:
	default:
		return p.Partitions != 0 || p.Buffer != 0 || p.Walk != ""
	}
	return p.Partitions > walk.MaxPartitions || int64(p.Partitions) > nodes || p.Buffer < 2 || p.Buffer > p.Partitions ||
		p.Method != "" || !slices.Contains(walks, p.Walk)
}

// checkIndex compares the index with the facts and with the files in meta.json. Every batch must be
// one that the parameters can give, have a number of bytes that fits its counts, and be in a listed
// file; and the facts must be the sums over the batches.
func (r *Reader) checkIndex() error {
	f, ix := &r.facts, r.index
	bad := func(format string, args ...any) error { return fault.New(fault.ErrCorrupt, format, args...) }
	if ix.batches() != f.Batches() || ix.layers != f.Layers {
		return bad("%s has %d batches of %d layers, but %s says %d batches of %d layers", IndexFile, ix.batches(), ix.layers, stage.MetaFile, f.Batches(), f.Layers)
	}
	for i := range ix.batches() {
		b, fanout := ix.info(i), r.params.Fanout
		if i >= f.TrainBatches {
			fanout = r.params.EvalFanout
		}
		if !f.has(&b, fanout, r.params.BatchSize) {
			return bad("%s: batch %d of %d bytes has the nodes %v and the edges %v by layer, which is impossible for the fanout %v, %d seed nodes and a graph of %d nodes",
				IndexFile, i, b.Size, b.Nodes, b.Edges, fanout, r.params.BatchSize, f.Nodes)
		}
	}
	if train, eval := summarize(ix, 0, f.TrainBatches), summarize(ix, f.TrainBatches, f.Batches()); !train.equal(&f.Train) || !eval.equal(&f.Eval) {
		return bad("the sums over %s do not match %s", IndexFile, stage.MetaFile)
	}
	// In a shard, files are numbered as in the whole directory.
	ix.firstFile = f.FirstFile
	if len(r.meta.Files) != ix.files()+3 {
		return bad("%s lists %d files instead of %d", stage.MetaFile, len(r.meta.Files), ix.files()+3)
	}
	listed := make(map[string]stage.File, len(r.meta.Files))
	for _, file := range r.meta.Files {
		listed[file.Name] = file
	}
	for i := range ix.files() {
		if want := ix.file(i); listed[want.Name] != want {
			return bad("%s and %s contradict each other about %s", IndexFile, stage.MetaFile, want.Name)
		}
	}
	return nil
}

// has reports whether a batch of the given fanout may be one of the directory's.
func (f *Facts) has(b *BatchInfo, fanout []int, seeds int) bool {
	if b.Seeds() < 1 || b.Seeds() > seeds {
		return false
	}
	// Arrays have elements of one to four bytes; input nodes four, labels too.
	least := batchcodec.HeadSize(f.Layers, f.numTypes())
	most := least
	for l, edges := range b.Edges {
		src, dst, rows := int64(b.Nodes[l]), int64(b.Nodes[l+1]), int64(b.Nodes[l+1])
		if f.Types != nil {
			if rows = int64(b.Rows[l]); rows > dst*graph.MostRelations {
				return false
			}
		}
		n := int64(edges)
		if src > f.numbers(l) || src > dst+n || fanout[l] != AllNeighbours && n > rows*int64(fanout[l]) {
			return false
		}
		least, most = least+rows+n, most+4*rows+4*n
	}
	input, labels := int64(b.InputNodes()), int64(b.Seeds())*int64(4+f.TargetBytes)
	degrees := input
	if f.Types != nil {
		degrees = 0
	}
	return b.Size >= least+4*input+degrees+labels && b.Size <= most+4*input+4*degrees+labels
}

// numTypes returns the number of types of a typed graph, else 0.
func (f *Facts) numTypes() int {
	if f.Types == nil {
		return 0
	}
	return len(f.Types.Nodes)
}

// numbers returns the number of different nodes that the sources of layer l may be.
func (f *Facts) numbers(l int) int64 {
	if l > 0 && f.Types != nil {
		return f.Types.NumNodes()
	}
	return f.Nodes
}

func (s *Summary) equal(t *Summary) bool {
	return s.SeedNodes == t.SeedNodes && s.InputNodes == t.InputNodes && s.Edges == t.Edges && s.Bytes == t.Bytes &&
		equalSizes(s.Max, t.Max) && equalSizes(s.Mean, t.Mean)
}

func equalSizes(a, b graph.Sizes) bool {
	return slices.Equal(a.Src, b.Src) && slices.Equal(a.Dst, b.Dst) && slices.Equal(a.Edges, b.Edges) && slices.Equal(a.Rows, b.Rows)
}

func sum(list []int64) (n int64) {
	for _, x := range list {
		n += x
	}
	return n
}
