package packed

import (
	"context"
	"errors"
	"fmt"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/internal/binio"
	"diskgnn/iostack"
	"diskgnn/pack/packfile"
)

// graphs are the graphs of training batches, or of evaluation batches.
type graphs interface {
	// at returns the file of a graph, its offset and its size.
	at(ref featurestore.Ref) (file string, off int64, bytes int)
	// decode checks and decodes the graph of the batch.
	decode(b *batch, raw []byte) error
}

type trainGraphs struct {
	pack  *packfile.Reader
	needs packfile.Needs
}

func (g trainGraphs) at(ref featurestore.Ref) (string, int64, int) {
	off, n := g.pack.TrainGraph(ref.Index, g.needs)
	return packfile.GraphFile(g.pack.Group(ref.Index)), off, n
}

func (g trainGraphs) decode(b *batch, raw []byte) error {
	return g.pack.DecodeTrainGraph(b.ref.Index, g.needs, raw, &b.decoded, &b.plan)
}

type evalGraphs struct {
	pack  *packfile.Reader
	needs packfile.Needs
}

// evaluated returns the index entry of an evaluation batch.
func evaluated(r *packfile.Reader, ref featurestore.Ref) *packfile.Eval {
	list := r.Index().Valid
	if ref.Split == featurestore.Test {
		list = r.Index().Test
	}
	return &list[ref.Index]
}

func (g evalGraphs) at(ref featurestore.Ref) (string, int64, int) {
	off, n := evaluated(g.pack, ref).EvalGraph(g.needs.Degrees)
	return packfile.EvalGraphFile, off, n
}

func (g evalGraphs) decode(b *batch, raw []byte) error {
	return g.pack.DecodeEvalGraph(evaluated(g.pack, b.ref), g.needs, raw, &b.decoded)
}

// graphReader reads the graphs of batches.
type graphReader struct {
	graphs graphs
	raw    *device.Host // a graph in the form on disk
	from   int          // where the present graph begins in raw, which begins with a page
	bytes  int
	group  iostack.Group
	file   *cachedFile // nil: no read is under way
}

func newGraphReader(r *packfile.Reader, g graphs, m *memory) graphReader {
	return graphReader{graphs: g, raw: m.land(r.Facts().GraphBytes)}
}

// start submits the read of the batch's graph. Call end afterwards, even after an error.
func (r *graphReader) start(b *batch) error {
	name, off, n := r.graphs.at(b.ref)
	var err error
	if r.file, err = b.src.files.Take(name); err == nil {
		r.from, r.bytes = int(off%binio.Page), n
		err = b.submit(&r.group, iostack.Request{File: r.file.File, Offset: off - int64(r.from), Buf: r.raw.Bytes()[:r.from+n]})
		b.GraphRead = b.BytesRead
	}
	if err != nil {
		return fmt.Errorf("graph of %v: %w", b, err)
	}
	return nil
}

// load waits for the graph, checks and decodes it.
func (r *graphReader) load(ctx context.Context, b *batch) error {
	if err := r.end(ctx, b); err != nil {
		return fmt.Errorf("graph of %v: %w", b, err)
	}
	b.UsefulBytes += int64(r.bytes)
	return r.graphs.decode(b, r.raw.Bytes()[r.from:][:r.bytes])
}

// end returns when no read is in flight any more.
func (r *graphReader) end(ctx context.Context, b *batch) error {
	f := r.file
	r.file = nil
	return errors.Join(b.src.stack.Wait(ctx, &r.group), b.src.files.Give(f))
}
