package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sort"

	"diskgnn/graph"
	"diskgnn/internal/binio"
	"diskgnn/internal/errgroup"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/pack/cut"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

// graphs runs the first pass, or takes over the one that an interrupted run finished.
func (p *Packing) graphs(ctx context.Context, d *cut.Decision, m allotment) (_ *firstPass, err error) {
	if p.kept != nil {
		p.rep.Logf("resuming: the graphs are packed already")
		return p.kept, p.kept.check(ctx, p.dir, d.Part)
	}
	// The saved state of an earlier second pass is useless without its first pass.
	for _, name := range []string{stateFile, compressFile} {
		if err := p.fs.Remove(p.dir.File(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	f := &d.Facts
	lo, hi := d.Part.Batches(f)
	batches := hi - lo
	if d.Part.Common {
		batches += f.Valid + f.Test
	}
	task := p.rep.Task("renumber graphs", int64(batches), progress.Batches)
	defer task.Done()
	g := &graphPass{samples: p.samples, part: d.Part, open: p.files, task: task}
	g.facts, g.files, g.entries = d.Facts, d.Record.Files, d.Record.Entries
	g.index = &packfile.Index{Edges: d.Edges, Bands: d.Bands, EvalChunks: p.params.EvalChunks}
	g.index.Clear(f.Train, f.Valid, f.Test)
	hot := f.HotRows
	if p.params.Policy == packfile.PolicyMin {
		if g.codes, err = rowfile.OpenLists(p.fs, d.Record.Codes); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, g.codes.Remove()) }()
		hot = 0 // evaluation does not look at the cache
	}
	for range m.slots {
		g.slots = append(g.slots, &graphSlot{renumberer: renumberer{rank: d.Rank, edges: d.Edges, hot: hot, base: uint32(f.HotRows), eval: d.Eval, classes: d.Classes}})
	}
	if f.Segment > 1 {
		g.segments = cut.NewSegments(p.samples, lo, hi, d.Rank, d.Edges, f.Segment, m.lanes, m.slots)
	}
	if err := g.run(ctx); err != nil {
		return nil, err
	}
	return &g.firstPass, g.save(p.dir, p.rawForm())
}

// graphSlot holds the memory of one batch on its way through the first pass.
type graphSlot struct {
	renumberer
	batch graph.Batch
	raw   []byte
	codes []uint32
	out   []byte
	parts []packfile.Section // of out
	rows  int                // eval rows, of an evaluation batch
}

// graphPass renumbers the part's batches and writes their graphs and row lists.
type graphPass struct {
	firstPass
	samples *mbfile.Reader
	part    packfile.Part // of the pack that is made here
	open    *rowfile.Set
	slots   []*graphSlot
	task    progress.Task

	segments *cut.Segments  // nil with segments of one batch
	codes    *rowfile.Lists // under policy min: the code of every access
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
	if !p.part.Common {
		return nil
	}
	return p.evaluation(ctx)
}

// share finds the rows of the SSD level and writes their scratch list.
func (p *graphPass) share(ctx context.Context) error {
	list, err := rowfile.NewAppender(p.open, ssdRequestsFile, rowfile.Buffer)
	if err != nil {
		return err
	}
	defer list.Close()
	perGroup := packfile.GroupBatches(p.facts.Segment) / p.facts.Segment
	p.index.Segments = make([]packfile.Segment, p.facts.Segments)
	offset := int64(0)
	err = p.segments.Run(ctx, func(segment int, nodes []uint32) error {
		if segment%perGroup == 0 {
			offset = 0
		}
		p.index.Segments[segment] = packfile.Segment{Offset: offset, Rows: len(nodes)}
		offset += binio.AlignUp(int64(len(nodes))*int64(p.facts.RowBytes), binio.Page)
		p.facts.SSDRows += int64(len(nodes))
		return list.Write(binio.Bytes(nodes))
	})
	if err != nil {
		return fmt.Errorf("segments: %w", err)
	}
	p.ssdRequests = list.CRC
	return list.Finish()
}

// training writes the graphs of the training batches and the list of their chunks' rows.
func (p *graphPass) training(ctx context.Context) error {
	requests, err := rowfile.NewAppender(p.open, requestsFile, rowfile.Buffer)
	if err != nil {
		return err
	}
	defer requests.Close()
	for g := p.part.Lo; g < p.part.Hi; g++ {
		lo, hi := p.facts.GroupSpan(g)
		if err := p.group(ctx, g, lo, hi-lo, requests); err != nil {
			return err
		}
	}
	p.requests = requests.CRC
	return requests.Finish()
}

// group writes the graph file of group g: n batches from first on.
func (p *graphPass) group(ctx context.Context, g, first, n int, requests *rowfile.Appender) error {
	name := packfile.GraphFile(g)
	out, err := rowfile.NewAppender(p.open, name, rowfile.Buffer)
	if err != nil {
		return err
	}
	defer out.Close()
	var crcs []uint32
	chunk := int64(0)
	err = errgroup.Ordered(ctx, n, p.slots, func(ctx context.Context, s *graphSlot, i int) (err error) {
		if s.raw, err = p.samples.Read(ctx, first+i, s.raw, &s.batch); err != nil {
			return err
		}
		if p.segments != nil {
			if s.shared, err = p.segments.Of(ctx, first+i); err != nil {
				return err
			}
		}
		if p.codes == nil {
			s.train(&s.batch)
		} else if s.codes, err = p.codes.Read(first+i, s.codes); err != nil {
			return err
		} else {
			s.trainMin(&s.batch, s.codes)
		}
		s.out, s.parts = s.append(s.out[:0], s.parts[:0], &s.batch)
		return packfile.CheckCount(int64(len(s.out)), "bytes of the graph and the plan of batch %d", first+i)
	}, func(s *graphSlot, i int) error {
		t := &p.index.Train[first+i]
		if p.segments != nil {
			p.segments.Done(first + i)
		}
		copy(t.Bands, s.bands)
		copy(t.SSD, s.ssd)
		t.Inputs, t.Seeds, t.Edges = len(s.batch.Input), s.batch.NumSeeds(), s.batch.NumEdges()
		t.ChunkOffset, t.ChunkBytes = chunk, int64(len(s.cold))*int64(p.facts.RowBytes)
		t.GraphOffset = out.Offset
		copy(t.Graph, s.parts)
		chunk += binio.AlignUp(t.ChunkBytes, binio.Page)
		p.facts.ColdRows += int64(len(s.cold))
		p.facts.ChunkBytes = max(p.facts.ChunkBytes, t.ChunkBytes)
		p.facts.GraphBytes = max(p.facts.GraphBytes, int64(len(s.out)))
		crcs = packfile.AppendSums(crcs, s.parts)
		p.task.Add(1)
		if err := out.Write(s.out); err != nil {
			return err
		}
		if err := out.Pad(binio.Page); err != nil {
			return err
		}
		return requests.Write(binio.Bytes(s.cold))
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.files = append(p.files, stage.File{Name: name, Size: out.Offset, Checksum: binio.HashSums(crcs)})
	return out.Finish()
}

// evaluation writes the graphs of the validation and test batches.
func (p *graphPass) evaluation(ctx context.Context) error {
	f := p.samples.Facts()
	out, err := rowfile.NewAppender(p.open, packfile.EvalGraphFile, rowfile.Buffer)
	if err != nil {
		return err
	}
	defer out.Close()
	var crcs []uint32
	chunk, least := int64(0), p.index.Edges[len(p.index.Edges)-1]
	err = errgroup.Ordered(ctx, f.ValidBatches+f.TestBatches, p.slots, func(ctx context.Context, s *graphSlot, i int) (err error) {
		if s.raw, err = p.samples.Read(ctx, f.TrainBatches+i, s.raw, &s.batch); err != nil {
			return err
		}
		s.rows = s.evaluation(&s.batch)
		s.out, s.parts = packfile.AppendEvalGraph(s.out[:0], s.parts[:0], &s.batch, s.rows)
		return packfile.CheckCount(int64(len(s.out)), "bytes of the graph of evaluation batch %d", i)
	}, func(s *graphSlot, i int) error {
		e := p.index.EvalBatch(i)
		e.Inputs, e.Seeds, e.Edges, e.Rows = len(s.batch.Input), s.batch.NumSeeds(), s.batch.NumEdges(), s.rows
		e.GraphOffset = out.Offset
		copy(e.Graph, s.parts)
		if i < f.ValidBatches && p.index.EvalChunks {
			hot := s.batch.Input[s.rows:]
			e.Cold, e.ChunkOffset = s.rows+sort.Search(len(hot), func(k int) bool { return int64(hot[k]) < least }), chunk
			chunk += binio.AlignUp(int64(e.Cold)*int64(p.facts.RowBytes), binio.Page)
			p.facts.EvalColdRows += int64(e.Cold)
		}
		p.facts.GraphBytes = max(p.facts.GraphBytes, int64(len(s.out)))
		crcs = packfile.AppendSums(crcs, s.parts)
		p.task.Add(1)
		if err := out.Write(s.out); err != nil {
			return err
		}
		return out.Pad(binio.Page)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", packfile.EvalGraphFile, err)
	}
	p.files = append(p.files, stage.File{Name: packfile.EvalGraphFile, Size: out.Offset, Checksum: binio.HashSums(crcs)})
	return out.Finish()
}
