package gpu

import (
	"errors"
	"time"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/kernel"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

// input is a batch on the device: the features, a work's frame, the constants of its step, and the
// step's outcome.
type input struct {
	plan      *plan
	at        *frame      // the parts of frame
	x         cuda.Buffer // float32, rows of features
	frame     cuda.Buffer
	constants cuda.Buffer // kernel.Streams of the layers' dropout, then Adam's step
	buckets   []bucket    // the network's
	now       *bucket     // the batch's
	ends      [][]uint32  // of a typed batch: prepare.Block's Ends of every block
	sources   []int       // and the number of its sources
	ids       cuda.Buffer
	shapes    cuda.Buffer // of blocks in bits
	order     cuda.Buffer // uint32: where rows lie in x; none: one after the other

	results *cuda.Pinned // score, logits, then the shapes of blocks in bits
	given   *cuda.Pinned // constants on their way; none in evaluation

	// State of the step under way.
	busy     bool
	step     uint64
	seeds    int
	labelled int
	labels   []int32
	targets  []byte
	outcome  engine.Outcome

	copying   *cuda.Span // none in evaluation, which does all on one stream
	gathering *cuda.Span // the features'; nil: there was none
	computing *cuda.Span // none in evaluation
}

// bucket is the captured work on an input for batches of up to some sizes.
type bucket struct {
	sizes  graph.Sizes
	blocks []block
	graph  *cuda.Graph // of the step; nil: not captured yet
	unpack *cuda.Graph // likewise of decoding
	warm   bool        // a step has run
}

// block is a block of a batch on the device.
type block struct {
	src, dst                  kernels.Count
	edges                     int // at most
	outer, inner, own         cuda.Buffer
	indptr, indices           cuda.Buffer
	tindptr, tindices, tedges cuda.Buffer
	positions, place          cuda.Buffer // none where destinations are the first sources
	base                      cuda.Buffer // by row of a typed block that is attended: the first column of the scores of its relation
}

func (i *input) lay(m *memory, n *plan, f *frame) {
	i.plan, i.at = n, f
	i.x = m.floats(n.sizes.Src[0] * n.model.Features())
	i.frame = m.bytes(f.bytes)
	i.constants = m.bytes(constantsBytes(n))
	i.ids, i.order, i.shapes = f.ids.on(i.frame), f.order.on(i.frame), f.shapes.on(i.frame)
	i.buckets = i.buckets[:0]
	for _, sizes := range n.buckets {
		i.buckets = append(i.buckets, bucket{sizes: sizes, blocks: i.blocks(f, sizes)})
	}
	i.now = &i.buckets[len(i.buckets)-1]
	i.ends, i.sources = make([][]uint32, len(f.blocks)), make([]int, len(f.blocks))
}

// blocks returns the blocks of batches of the given sizes.
func (i *input) blocks(f *frame, sizes graph.Sizes) []block {
	var blocks []block
	for l, b := range f.blocks {
		on := func(s span) cuda.Buffer { return s.on(i.frame) }
		count := func(most, which int) kernels.Count { return kernels.Count{Most: most, At: on(f.count(l, which))} }
		edges := sizes.Edges[l]
		if i.plan.preparer.Loops() {
			edges += sizes.Dst[l]
		}
		blocks = append(blocks, block{src: count(sizes.Src[l], 0), dst: count(sizes.Dst[l], 1), edges: edges,
			outer: on(b.outer), inner: on(b.inner), own: on(b.own), indptr: on(b.indptr), indices: on(b.indices),
			tindptr: on(b.tindptr), tindices: on(b.tindices), tedges: on(b.tedges), positions: on(b.positions), place: on(b.place), base: on(b.base)})
	}
	return blocks
}

// constantsBytes returns the bytes of a batch's constants, which depend on its place and its step's
// number.
func constantsBytes(n *plan) int64 { return 8*streams(n) + kernels.AdamStepBytes }

// streams counts the streams of dropout; the last is the input projection's.
func streams(n *plan) int64 { return int64(n.model.Layers() + 1) }

// parts returns the parts of the results.
func (i *input) parts() (score, logits, shapes []byte) {
	b := i.results.Bytes()
	last := int64(len(b)) - i.shapes.Bytes()
	return b[:kernels.ScoreBytes], b[kernels.ScoreBytes:last], b[last:]
}

// open makes the resources that are not device memory.
func (i *input) open(d *cuda.Device) error {
	var errs [4]error
	n := i.plan
	seeds, classes := n.seeds(), n.model.Classes()
	i.results, errs[0] = d.NewPinned(kernels.ScoreBytes + 4*int64(seeds)*int64(classes) + i.shapes.Bytes())
	if n.training {
		i.given, errs[1] = d.NewPinned(constantsBytes(n))
		i.copying, errs[2] = d.NewSpan()
		i.computing, errs[3] = d.NewSpan()
		i.labels, i.targets = make([]int32, 0, seeds), make([]byte, 0, seeds*graph.TargetBytes(classes))
	}
	return errors.Join(errs[:]...)
}

func (i *input) close() {
	for k := range i.buckets {
		free(i.buckets[k].graph, i.buckets[k].unpack)
	}
	free(i.copying, i.computing)
	free(i.given, i.results)
	*i = input{}
}

// put stores the constants of a batch for copying.
func (i *input) put(seed uint64, at engine.Place, adam *kernels.AdamStep) {
	n := int(streams(i.plan))
	words := binio.View[uint64](i.given.Bytes()[:8*n])
	for l := range words {
		words[l] = uint64(kernel.NewStream(seed, at.Epoch, at.Batch, l))
	}
	adam.Put(i.given.Float32s()[2*n:])
}

// stream returns the buffer of a layer's dropout stream.
func (i *input) stream(layer int) cuda.Buffer {
	if layer == model.InputLayer {
		layer = i.plan.model.Layers()
	}
	return i.constants.Slice(8*int64(layer), 8)
}

func (i *input) adamStep() cuda.Buffer {
	return i.constants.Slice(8*streams(i.plan), kernels.AdamStepBytes)
}

// awaitGather makes a stream wait for the work after the features' copies.
func (i *input) awaitGather(s *cuda.Stream) error {
	if i.gathering == nil {
		return nil
	}
	return s.Wait(i.gathering.Ended())
}

// remember keeps the facts about the step's batch for its outcome.
func (i *input) remember(b *graph.Batch, labelled int, step uint64) {
	i.seeds, i.labelled, i.step = b.NumSeeds(), labelled, step
	i.labels = append(i.labels[:0], b.Labels...)
	i.targets = append(i.targets[:0], b.Targets...)
}

// clock converts marks on the device to the host's time.
type clock struct {
	mark *cuda.Event
	at   time.Time
}

// set makes the present the reference of other times: recent references are more precise. It waits
// for the stream.
func (c *clock) set(s *cuda.Stream) error {
	if err := errors.Join(c.mark.Record(s), c.mark.Synchronize()); err != nil {
		return err
	}
	c.at = time.Now()
	return nil
}

// tell returns the period of a finished span; the zero Period for nil.
func (c *clock) tell(s *cuda.Span) (engine.Period, error) {
	if s == nil {
		return engine.Period{}, nil
	}
	began, took, err := s.Since(c.mark)
	return engine.Period{Began: c.at.Add(began), Took: took}, err
}
