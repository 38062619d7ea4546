package pack

import (
	"context"
	"fmt"

	"diskgnn/graph"
	"diskgnn/graph/batchcodec"
	"diskgnn/internal/binio"
	"diskgnn/internal/budget"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/fault"
	"diskgnn/internal/ordered"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

// requestsFile is the scratch list of the rows that every chunk will hold: node
// ids, uint32, batch after batch, in the chunk's order.
const requestsFile = "requests.tmp"

// checkBatches refuses samples that a pack has no room for, before any work: batches
// whose edges or bytes are more than their 32 bits in the index, or too many batches.
// What renumbering adds to a graph is looked at when it is known.
func checkBatches(samples string, n int, info func(i int) mbfile.BatchInfo) error {
	if n > packfile.MaxBatches {
		return fault.New(fault.ErrInput, "%s: %d batches; a pack has at most %d: presample fewer epochs, or larger batches", samples, n, packfile.MaxBatches)
	}
	for i := range n {
		b := info(i)
		if err := packfile.CheckCount(b.NumEdges(), "%s: edges of batch %d", samples, i); err != nil {
			return err
		}
		if err := packfile.CheckCount(b.Size, "%s: bytes of the graph of batch %d", samples, i); err != nil {
			return err
		}
	}
	return nil
}

// graphSlot holds what one batch needs on its way through the first pass.
type graphSlot struct {
	renumberer
	batch graph.Batch
	raw   []byte
	codes []uint32
	out   []byte
	rows  int // eval rows, of an evaluation batch
}

// graphPass renumbers the part's batches and writes their graphs and row lists.
type graphPass struct {
	samples *mbfile.Reader
	part    packfile.Part // of the pack that is made here
	open    *fileSet
	slots   []*graphSlot
	index   *packfile.Index
	facts   *packfile.Facts
	files   []stage.File
	task    progress.Task

	segments *segmentPass // nil with segments of one batch
	codes    *batchLists  // under policy min: what becomes of every access

	requests, ssdRequests uint32 // the CRC-32C of the scratch lists
}

// run writes the graphs and the scratch lists of rows, and the index but for chunks.
func (p *graphPass) run(ctx context.Context) error {
	g, inner := errgroup.WithContext(ctx)
	if p.segments != nil {
		g.Go(func() error { return p.share(inner) })
	}
	g.Go(func() error { return p.training(inner) })
	if err := g.Wait(); err != nil {
		return err
	}
	f := p.samples.Facts()
	p.index.Valid, p.index.Test = make([]packfile.Eval, f.ValidBatches), make([]packfile.Eval, f.TestBatches)
	if !p.part.Common {
		return nil
	}
	return p.evaluation(ctx)
}

// share finds the rows of the SSD level and writes their scratch list.
func (p *graphPass) share(ctx context.Context) error {
	list, err := newAppender(p.open, ssdRequestsFile, appendBuffer)
	if err != nil {
		return err
	}
	defer list.close()
	perGroup := packfile.GroupBatches(p.facts.Segment) / p.facts.Segment
	p.index.Segments = make([]packfile.Segment, p.facts.Segments)
	offset := int64(0)
	p.segments.found = func(segment int, nodes []uint32) error {
		if segment%perGroup == 0 {
			offset = 0
		}
		p.index.Segments[segment] = packfile.Segment{Offset: offset, Rows: len(nodes)}
		offset += binio.AlignUp(int64(len(nodes))*int64(p.facts.RowBytes), binio.Page)
		p.facts.SSDRows += int64(len(nodes))
		return list.write(binio.Bytes(nodes))
	}
	if err := p.segments.run(ctx); err != nil {
		return fmt.Errorf("segments: %w", err)
	}
	p.ssdRequests = list.crc
	return list.finish()
}

// training writes the graphs of the training batches and the list of their chunks' rows.
func (p *graphPass) training(ctx context.Context) error {
	p.index.Train = packfile.NewTrain(p.facts.Train, p.index.Bands)
	requests, err := newAppender(p.open, requestsFile, appendBuffer)
	if err != nil {
		return err
	}
	defer requests.close()
	for g := p.part.Lo; g < p.part.Hi; g++ {
		lo, hi := p.facts.GroupSpan(g)
		if err := p.group(ctx, g, lo, hi-lo, requests); err != nil {
			return err
		}
	}
	p.requests = requests.crc
	return requests.finish()
}

// group writes the graph file of group g: n batches from first on.
func (p *graphPass) group(ctx context.Context, g, first, n int, requests *appender) error {
	name := packfile.GraphFile(g)
	out, err := newAppender(p.open, name, appendBuffer)
	if err != nil {
		return err
	}
	defer out.close()
	var crcs []uint32
	chunk := int64(0)
	err = ordered.Run(ctx, n, p.slots, func(ctx context.Context, s *graphSlot, i int) (err error) {
		if s.raw, err = p.samples.Read(ctx, first+i, s.raw, &s.batch); err != nil {
			return err
		}
		if p.segments != nil {
			if s.shared, err = p.segments.of(ctx, first+i); err != nil {
				return err
			}
		}
		if p.codes == nil {
			s.train(&s.batch)
		} else if s.codes, err = p.codes.read(first+i, s.codes); err != nil {
			return err
		} else {
			s.trainMin(&s.batch, s.codes)
		}
		s.out = s.plan.Append(batchcodec.Append(s.out[:0], &s.batch))
		return packfile.CheckCount(int64(len(s.out)), "bytes of the graph and the plan of batch %d", first+i)
	}, func(s *graphSlot, i int) error {
		t := &p.index.Train[first+i]
		if p.segments != nil {
			p.segments.done(first + i)
		}
		copy(t.Bands, s.bands)
		copy(t.SSD, s.ssd)
		t.Inputs, t.Seeds, t.Edges = len(s.batch.Input), s.batch.NumSeeds(), s.batch.NumEdges()
		t.ChunkOffset, t.ChunkBytes = chunk, int64(len(s.cold))*int64(p.facts.RowBytes)
		t.GraphOffset, t.GraphBytes, t.GraphCRC = out.offset, len(s.out), binio.CRC(s.out)
		chunk += binio.AlignUp(t.ChunkBytes, binio.Page)
		p.facts.ColdRows += int64(len(s.cold))
		p.facts.ChunkBytes = max(p.facts.ChunkBytes, t.ChunkBytes)
		p.facts.GraphBytes = max(p.facts.GraphBytes, int64(len(s.out)))
		crcs = append(crcs, t.GraphCRC)
		p.task.Add(1)
		if err := out.write(s.out); err != nil {
			return err
		}
		if err := out.pad(binio.Page); err != nil {
			return err
		}
		return requests.write(binio.Bytes(s.cold))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.files = append(p.files, stage.File{Name: name, Size: out.offset, Checksum: binio.HashSums(crcs)})
	return out.finish()
}

// evaluation writes the graphs of the validation and test batches.
func (p *graphPass) evaluation(ctx context.Context) error {
	f := p.samples.Facts()
	out, err := newAppender(p.open, packfile.EvalGraphFile, appendBuffer)
	if err != nil {
		return err
	}
	defer out.close()
	var crcs []uint32
	err = ordered.Run(ctx, f.ValidBatches+f.TestBatches, p.slots, func(ctx context.Context, s *graphSlot, i int) (err error) {
		if s.raw, err = p.samples.Read(ctx, f.TrainBatches+i, s.raw, &s.batch); err != nil {
			return err
		}
		s.rows = s.evaluation(&s.batch)
		s.out = batchcodec.Append(s.out[:0], &s.batch)
		return packfile.CheckCount(int64(len(s.out)), "bytes of the graph of evaluation batch %d", i)
	}, func(s *graphSlot, i int) error {
		e := packfile.Eval{
			Inputs: len(s.batch.Input), Seeds: s.batch.NumSeeds(), Edges: s.batch.NumEdges(), Rows: s.rows,
			GraphOffset: out.offset, GraphBytes: len(s.out), GraphCRC: binio.CRC(s.out),
		}
		if i < f.ValidBatches {
			p.index.Valid[i] = e
		} else {
			p.index.Test[i-f.ValidBatches] = e
		}
		p.facts.GraphBytes = max(p.facts.GraphBytes, int64(len(s.out)))
		crcs = append(crcs, e.GraphCRC)
		p.task.Add(1)
		if err := out.write(s.out); err != nil {
			return err
		}
		return out.pad(binio.Page)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", packfile.EvalGraphFile, err)
	}
	p.files = append(p.files, stage.File{Name: packfile.EvalGraphFile, Size: out.offset, Checksum: binio.HashSums(crcs)})
	return out.finish()
}

// evalNodes collects the evaluation batches' nodes whose rows are not in hot.bin. Of
// each batch it reads the nodes alone.
func (p *packing) evalNodes(ctx context.Context, hot int64) (*bitset, error) {
	f := p.samples.Facts()
	lo, hi := f.TrainBatches, f.Batches()
	most := int64(0)
	for i := lo; i < hi; i++ {
		most = max(most, p.samples.Info(i).Size)
	}
	if err := budget.Check("collecting the nodes of evaluation", heldMemory(f.Nodes)+recordMemory(f)+most, p.o.Memory); err != nil {
		return nil, err
	}
	set := newBitset(int64(len(p.rank)))
	raw := make([]byte, 0, most)
	for i := lo; i < hi; i++ {
		var nodes []uint32
		var err error
		if nodes, raw, err = p.samples.Inputs(ctx, i, raw); err != nil {
			return nil, err
		}
		for _, v := range nodes {
			if int64(p.rank[v]) >= hot {
				set.add(v)
			}
		}
	}
	return set, nil
}
