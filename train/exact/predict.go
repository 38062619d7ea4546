package exact

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"diskgnn/dataset"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/all"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/decide"
	"diskgnn/train/trained"
)

// Predict writes a row for every node, or for the nodes of a split or a list, in node order. The
// file appears only when it is complete. Without Force, Predict does nothing if Finished finds the file.
// With a Shard, Predict writes the directory of this share instead: see Merge.
func Predict(ctx context.Context, fsys vfs.FS, o PredictOptions, rep progress.Reporter) (Prediction, error) {
	return predict(ctx, fsys, o, rep, parts{stack: all.Open})
}

func predict(ctx context.Context, fsys vfs.FS, o PredictOptions, rep progress.Reporter, p parts) (Prediction, error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return Prediction{}, err
	}
	if !o.Shard.Whole() {
		return predictShare(ctx, fsys, o, rep, p)
	}
	if !o.Force {
		if done, err := Finished(ctx, fsys, o); err != nil {
			return Prediction{}, err
		} else if done != nil {
			rep.Logf("%s is finished already: nothing to do", o.Out)
			return *done, nil
		}
	}
	c, err := o.claim(fsys)
	if err != nil {
		return Prediction{}, err
	}
	j := &job{fs: fsys, options: o.Options, report: rep, parts: p}
	var result Prediction
	err = j.do(ctx, func(ctx context.Context) (err error) {
		result, err = j.predict(ctx, &o, c)
		return err
	})
	if err := errors.Join(err, c.close()); err != nil {
		return Prediction{}, err
	}
	j.ended(&result)
	return result, nil
}

// Finished returns the description of the file o.Out if that is the prediction of these options, and nil
// if it is not, or if an input cannot be read. The lineage file must name the bytes of o.Out, the present
// weights of the run, the present graph, the output, the nodes, and the engine and the library that the options name.
// An error is of kind fault.ErrInterrupted.
func Finished(ctx context.Context, fsys vfs.FS, o PredictOptions) (*Prediction, error) {
	o.EnsureDefaults()
	j := &job{fs: fsys, options: o.Options, report: progress.Discard, began: time.Now()}
	p, err := j.finished(ctx, &o)
	switch {
	case fault.EndedBy(ctx, err):
		return nil, fault.New(fault.ErrInterrupted, "interrupted: nothing was kept")
	case err != nil:
		return nil, nil
	}
	return p, nil
}

func (j *job) finished(ctx context.Context, o *PredictOptions) (_ *Prediction, err error) {
	if _, err := j.fs.Stat(o.Out); err != nil {
		return nil, err // before the nodes are read, perhaps from a pipe
	}
	was, err := readLineage(j.fs, o.Out)
	if err != nil {
		return nil, err
	}
	if j.run, err = trained.Open(j.fs, o.Run); err != nil {
		return nil, err
	}
	if j.data, err = dataset.OpenAny(j.fs, o.Dataset); err != nil {
		return nil, err
	}
	if _, err := j.run.HashWeights(o.Weights); err != nil {
		return nil, err
	}
	j.other, j.model = !j.run.TrainedOn(j.data.Fingerprint()), j.run.Model()
	f := j.data.Facts()
	if err := j.checkTypes(&f); err != nil {
		return nil, err
	}
	a, err := j.choose(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	library := was.BLAS
	if o.BLAS != blas.Auto && !strings.HasPrefix(library, o.BLAS) {
		return nil, errOther
	}
	// Engines differ by rounding. A GPU's library is none of the CPU's kinds.
	if made := blas.KindOf(library) != ""; o.Engine != decide.EngineAuto && made != (o.Engine == decide.EngineCPU) {
		return nil, errOther
	}
	p := j.describe(o, a, was)
	p.State = stage.StateDone.String()
	if err := was.describes(ctx, j.fs, o.Out, p.IDs, newLineage(o.Out, j.origin(o, a, library))); err != nil {
		return nil, err
	}
	p.Run, p.RunState, p.BLAS, p.Weights, p.StateDType, p.OtherGraph, p.Seconds = o.Run, j.run.State(), library, o.Weights, o.StateDType, j.other, time.Since(j.began).Seconds()
	return p, nil
}

// checkOut refuses an output that exists or cannot be made, and makes its parent directory.
func (o *PredictOptions) checkOut(fsys vfs.FS) error {
	if err := vfs.MakeParents(fsys, o.Out); err != nil {
		return err
	}
	return o.Agrees(fsys)
}

// Agrees returns the error with which Predict would refuse an existing output. It changes nothing. The
// directory of a share is compared when its prediction begins.
func (o *PredictOptions) Agrees(fsys vfs.FS) error {
	if !o.Shard.Whole() {
		return nil
	}
	ok, err := vfs.Exists(fsys, o.Out)
	if err != nil || !ok {
		return err
	}
	if st, err := fsys.Stat(o.Out); err != nil || !st.Mode().IsRegular() {
		return fault.New(fault.ErrExists, "%s exists and is not a file", o.Out)
	}
	if !o.Force {
		return fault.New(fault.ErrExists, "%s exists; --force replaces it", o.Out)
	}
	return vfs.CheckRenameable(o.Out)
}

// claim is the right to make an output: the lock of the file that becomes it.
type claim struct {
	fs   vfs.FS
	temp string
	lock io.Closer
	used bool // a sink has begun the file, and gives it its name or removes it
}

// claim claims the output, if checkOut permits it. If another process makes it, the error is of
// kind fault.ErrLocked.
func (o *PredictOptions) claim(fsys vfs.FS) (*claim, error) {
	if err := o.checkOut(fsys); err != nil {
		return nil, err
	}
	c := &claim{fs: fsys, temp: o.Out + vfs.TempSuffix}
	var err error
	switch c.lock, err = fsys.Lock(c.temp); {
	case errors.Is(err, fault.ErrLocked):
		return nil, fault.New(fault.ErrLocked, "another process is writing %s (it holds %s)", o.Out, c.temp)
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("--out %s: %w: name a directory that you may write to", o.Out, err)
	case err != nil:
		return nil, fmt.Errorf("write %s: %w", o.Out, err)
	}
	// Another process may have made it before the lock.
	if err := o.checkOut(fsys); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// close gives the claim up, and removes the file that nothing was written to.
func (c *claim) close() (err error) {
	if !c.used {
		err = c.fs.Remove(c.temp)
	}
	return errors.Join(err, c.lock.Close())
}

// predict computes and writes the values of the options.
func (j *job) predict(ctx context.Context, o *PredictOptions, c *claim) (_ Prediction, err error) {
	a, err := j.ask(ctx, o, j.prepare)
	if err != nil {
		return Prediction{}, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	_, library, _ := j.libraries()
	p := j.describe(o, a, newLineage(o.Out, j.origin(o, a, library)))
	c.used = true
	out, err := newSink(j.fs, o.Out, a.values, &a.targets)
	if err != nil {
		return Prediction{}, fmt.Errorf("write %s: %w", o.Out, err)
	}
	out.beside(func(sum string, size int64) error { return p.Lineage.write(j.fs, o.Out, sum, size) })
	if err := j.write(ctx, o.Out, a, out); err != nil {
		return Prediction{}, err
	}
	p.Outcome = j.outcome()
	return *p, nil
}
