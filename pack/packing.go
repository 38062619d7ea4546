package pack

import (
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
	"diskgnn/internal/driverate"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/pack/cut"
	"diskgnn/pack/internal/rowfile"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

// request is the input of a packing: the options, settled for a dataset and samples of it. Nothing
// changes it once it is open.
type request struct {
	o   Options
	out string // the directory to make
	fs  vfs.FS
	rep progress.Reporter

	ds      *dataset.Dataset
	samples *mbfile.Reader
	params  packfile.Params
	facts   packfile.Facts // as far as dataset and samples say them

	stack iostack.Stack  // reads the table
	how   string         // and why that one
	read  driverate.Rate // of the table's drive, once it was measured

	start time.Time
	watch *budget.Watch
}

// close releases everything that openParents opened.
func (r *request) close() {
	if r.stack != nil {
		_ = r.stack.Close()
	}
	_ = r.samples.Close() // only read from
	r.watch.Stop()
}

func (r *request) form() packfile.Form {
	return packfile.Form{RowBytes: r.facts.RowBytes, Codec: r.params.Codec}
}

// rawForm returns the form of the chunks that the ranges write.
func (r *request) rawForm() packfile.Form {
	return packfile.Form{RowBytes: r.facts.RowBytes, Codec: packfile.CodecNone}
}

// spec returns the parameters that decide the bytes of the whole pack.
func (r *request) spec() stage.Spec {
	return stage.Spec{Format: packfile.FormatFor(&r.facts), Older: packfile.Older(&r.facts, r.params.EvalChunks), Params: r.params, Parents: map[string]string{
		stage.RoleDataset: r.ds.Fingerprint(), stage.RoleSamples: r.samples.Fingerprint(),
	}}
}

func (r *request) cutRequest() cut.Request {
	return cut.Request{
		Samples: r.samples, Name: r.o.Samples, Params: r.params, Facts: r.facts, Shard: r.o.Shard,
		Workers: r.o.Workers, Memory: r.o.Memory, Reporter: r.rep,
	}
}

// Packing is the transaction that makes a directory: a pack, or a shard of one.
type Packing struct {
	*request
	dir   *stage.Dir
	state stage.State
	files *rowfile.Set // of dir
	kept  *firstPass   // that an interrupted run finished; or nil
}

// end closes the open files of the directory, and ends the transaction with err; see stage.Dir.
func (p *Packing) end(err error) error {
	p.files.Close()
	return p.dir.End(err)
}
