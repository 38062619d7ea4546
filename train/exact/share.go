package exact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// ShareFormat is the format of a share of a prediction, a directory as package shard describes it:
//
//	meta.json   the origin of the whole prediction, its rows, and the form of their cells and ids
//	rows.bin    the share's rows, as in the array of NAME.npy: cells of four bytes, or one, row after row
//	ids.bin     their ids: uint32 of the dataset, or original ones, int64
//	names.txt   or names, one a line
//
// Rows that are all nodes, called by their numbers, have no file of ids. The files of a share are the same for all
// forms of the prediction. meta.json has the SHA-256 of each file. The rows are cut into groups of the
// rows that are multiplied together; share i of n has the groups that shard.Shard.Of gives, which may be none.
var ShareFormat = shareFormat.Shard()

// shareFormat is the format of the whole.
var shareFormat = stage.Format{Name: "diskgnn." + stage.Prediction, Version: 1}

// shareVersions are the versions that Merge reads.
var shareVersions = stage.Versions[struct{}]{1: {}}

// Names of a share's files.
const (
	shareRows  = "rows.bin"
	shareIDs   = "ids.bin"
	shareNames = "names.txt"
)

// shareParams are the content parameters of a share: all that is the same in all shares.
type shareParams struct {
	Origin
	Rows       int64    `json:"rows"` // of all shares
	Columns    int      `json:"columns"`
	Group      int      `json:"group"` // rows that are computed together
	MultiLabel bool     `json:"multi_label"`
	IDs        idsKind  `json:"ids"`
	ClassNames []string `json:"class_names,omitempty"` // for tables with the class of a node
	SIMD       string   `json:"simd"`                  // or the GPU
}

// values describe the columns of the rows.
func (p *shareParams) values() values {
	return values{kind: p.Output, multi: p.MultiLabel, columns: p.Columns, names: p.ClassNames}
}

// count returns the rows of a share.
func (p *shareParams) count(s shard.Shard) int64 {
	group := int64(p.Group)
	lo, hi := s.Of(int((p.Rows + group - 1) / group))
	return min(int64(hi)*group, p.Rows) - min(int64(lo)*group, p.Rows)
}

// most bounds rows, and columns, so that their products fit in 64 bits.
const mostRows, mostColumns = math.MaxUint32, 1 << 20

// check refuses parameters that no prediction has.
func (p *shareParams) check() error {
	v := p.values()
	switch {
	case p.Rows < 0 || p.Rows > mostRows+1 || p.Columns < 1 || p.Columns > mostColumns || p.Group < 1 || p.Group > mostRows:
		return fault.New(fault.ErrCorrupt, "%d rows of %d columns, in groups of %d, are no prediction", p.Rows, p.Columns, p.Group)
	case p.Output != Logits && p.Output != Classes && p.Output != Embeddings:
		return fault.New(fault.ErrVersion, "it needs a newer program: its output is %.20q", p.Output)
	case p.IDs != idsNone && p.IDs != idsNodes && p.IDs != idsNumbers && p.IDs != idsNames:
		return fault.New(fault.ErrVersion, "it needs a newer program: its ids are of the kind %.20q", string(p.IDs))
	case p.Output == Classes && !v.multi && p.Columns != 1 || p.ClassNames != nil && (p.Output != Classes || v.multi):
		return fault.New(fault.ErrCorrupt, "%d columns of %s, with %d names of classes, are no prediction", p.Columns, p.Output, len(p.ClassNames))
	}
	return nil
}

// predictShare is predict for a share.
func predictShare(ctx context.Context, fsys vfs.FS, o PredictOptions, rep progress.Reporter, p parts) (Prediction, error) {
	j := &job{fs: fsys, options: o.Options, report: rep, parts: p}
	var result Prediction
	err := j.do(ctx, func(ctx context.Context) (err error) {
		result, err = j.share(ctx, &o)
		return err
	})
	if err != nil {
		return Prediction{}, err
	}
	j.ended(&result)
	return result, nil
}

// share makes the directory of a share, unless it is finished.
func (j *job) share(ctx context.Context, o *PredictOptions) (_ Prediction, err error) {
	a, err := j.choose(ctx, o)
	if err != nil {
		return Prediction{}, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := j.fitsGPU(ctx, o, a); err != nil {
		return Prediction{}, err
	}
	_, library, processor := j.libraries()
	params := shareParams{Origin: j.origin(o, a, library), Rows: a.rows, Columns: a.columns, Group: j.group(), MultiLabel: a.multi, IDs: a.calls, ClassNames: a.names, SIMD: processor}
	spec, err := o.Shard.Spec(stage.Spec{Format: shareFormat, Params: params, Words: shareWords})
	if err != nil {
		return Prediction{}, err
	}
	spec.Check = func(dir string, m *stage.Meta, look stage.Look) error { return CheckShare(ctx, j.fs, dir, m, look) }
	p := j.describe(o, a, nil)
	dir, state, err := stage.Begin(j.fs, p.Out, spec, o.Force)
	if err != nil {
		return Prediction{}, err
	}
	if p.State = state.String(); state == stage.StateDone {
		j.report.Logf("%s is finished already: nothing to do", p.Out)
		m, err := stage.Open(j.fs, p.Out, "shard of a prediction", spec.Format)
		if err != nil {
			return Prediction{}, err
		}
		p.Fingerprint = m.Fingerprint
	} else {
		if note := dir.Note(); note != "" {
			j.report.Logf("%s", note)
		}
		p.Fingerprint, err = j.makeShare(ctx, o, a, dir)
		if err := dir.Drop(err); err != nil { // no later process goes on from rows
			return Prediction{}, err
		}
	}
	p.Outcome = j.outcome()
	return *p, nil
}

// fitsGPU is an error of kind noGPURoom if the layers do not fit on the GPU: the library is a parameter of the directory,
// and the groups of the share are the engine's, so the engine is settled before.
func (j *job) fitsGPU(ctx context.Context, o *PredictOptions, a *asked) error {
	if j.gpu == nil {
		return nil
	}
	before := j.fixed
	err := j.ready(ctx, o, a, j.decide)
	j.fixed = before
	return err
}

// shareWords names the parameters of a share by the flags of predict that decide them.
func shareWords(param string, value json.RawMessage) (name, text string) {
	name, text = stage.Plain(param, value)
	switch param {
	case "weights", "nodes", "output", "state_dtype", "blas", "shard":
		return name, text
	case "weights_sha256":
		return "the hash of the weights", text
	case "dataset":
		return "the dataset", text
	}
	return "", ""
}

// shareFacts are the facts of run.json.
type shareFacts struct {
	Started string  `json:"started"`
	Seconds float64 `json:"seconds"`
}

// makeShare computes and commits a share, and returns its fingerprint.
func (j *job) makeShare(ctx context.Context, o *PredictOptions, a *asked, dir *stage.Dir) (string, error) {
	if err := j.ready(ctx, o, a, j.prepare); err != nil {
		return "", err
	}
	dir.Watch(j.topology.Unchanged)
	out, err := newShareSink(dir, &a.targets)
	if err != nil {
		return "", fmt.Errorf("write %s: %w", dir.Path(), err)
	}
	if err := j.write(ctx, dir.Path(), a, out); err != nil {
		return "", err
	}
	return dir.Commit(out.files, nil, shareFacts{j.began.UTC().Format(time.RFC3339), time.Since(j.began).Seconds()})
}

// shareSink writes the files of a share.
type shareSink struct {
	array
	files []stage.File
}

func newShareSink(dir *stage.Dir, ids rowIDs) (_ *shareSink, err error) {
	s := &shareSink{}
	create := func(name string) (*newFile, error) {
		f, err := createFile(dir.FS(), dir.File(name))
		if err == nil {
			f.beside(func(sum string, size int64) error {
				s.files = append(s.files, stage.File{Name: name, Size: size, Checksum: sum})
				return nil
			})
		}
		return f, err
	}
	if s.newFile, err = create(shareRows); err != nil || ids.kind() == idsNone {
		return s, err
	}
	if s.ids, err = create(idsOfShare(ids.kind())); err != nil {
		return nil, errors.Join(err, s.newFile.abandon())
	}
	if err := writeIDs(s.ids.buf, ids, false); err != nil {
		return nil, errors.Join(err, s.abandon())
	}
	return s, nil
}

// idsOfShare returns the name of the file of ids in a share, or "".
func idsOfShare(kind idsKind) string {
	switch kind {
	case idsNone:
		return ""
	case idsNames:
		return shareNames
	}
	return shareIDs
}

// CheckShare checks a share that has a meta.json, as thoroughly as look says: it is a Check of stage.Spec.
func CheckShare(ctx context.Context, fsys vfs.FS, dir string, m *stage.Meta, look stage.Look) error {
	if _, err := openShare(dir, m); err != nil || look == stage.Tables {
		return err
	}
	for _, f := range m.Files {
		path := filepath.Join(dir, f.Name)
		if err := stage.CheckFile(ctx, fsys, path, f.Size, binio.CheckHash(path, f.Checksum), nil); err != nil {
			return err
		}
	}
	return nil
}

// openShare returns the parameters of a share, and checks that it has the files that they call for.
func openShare(dir string, m *stage.Meta) (*shareParams, error) {
	if whole, ok := m.Format.Whole(); !ok || whole.Name != shareFormat.Name {
		return nil, fault.New(fault.ErrInput, "%s is no shard of a prediction", dir)
	} else if _, err := shareVersions.Decoder(whole.Version, "version %d, this program merges version %s: make the shards again, or use the program that made them"); err != nil {
		return nil, fmt.Errorf("%s is a shard of a %s, %w", dir, whole.Name, err)
	}
	var p struct {
		shareParams
		Shard string `json:"shard"`
	}
	if err := m.DecodeParams(&p); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	s, err := shard.Parse(p.Shard)
	if err != nil {
		return nil, fault.New(fault.ErrCorrupt, "%s does not say which shard it is (%v)", filepath.Join(dir, stage.MetaFile), err)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	v, n := p.values(), p.count(s)
	sizes := map[string]int64{shareRows: n * int64(v.rowBytes())}
	switch name := idsOfShare(p.IDs); p.IDs {
	case idsNodes:
		sizes[name] = 4 * n
	case idsNumbers:
		sizes[name] = 8 * n
	case idsNames:
		sizes[name] = -1 // any
	}
	for name, size := range sizes {
		if f, ok := m.File(name); !ok || size >= 0 && f.Size != size {
			return nil, fault.New(fault.ErrCorrupt, "%s: %s does not have the %d rows of shard %s", dir, name, n, s)
		}
	}
	return &p.shareParams, nil
}
