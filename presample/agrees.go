package presample

import (
	"context"

	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
)

// Agrees returns the error by which Run would refuse what is there of the samples, nil where it
// would draw them, go on, or find them finished. Where the dataset is not made yet, samples that
// are there are taken to be of it. It changes nothing.
func Agrees(ctx context.Context, fsys vfs.FS, o Options) error {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return err
	}
	out := o.Shard.DirName(o.Out)
	if stage.Kind(fsys, o.Dataset) != "" {
		s, err := begin(fsys, o, progress.Discard)
		if err != nil {
			return err
		}
		spec, err := o.Shard.Spec(s.spec(ctx, mbfile.FormatFor(s.data.TargetBytes()), map[string]string{stage.RoleDataset: s.data.Fingerprint()}))
		if err != nil {
			return err
		}
		return stage.Agrees(fsys, out, spec, o.Force)
	}
	was, ok := stage.Made(fsys, out)
	if !ok || !o.Shard.Whole() {
		return nil
	}
	s := &sampling{o: o, fs: fsys}
	var err error
	if s.params, err = o.params(); err != nil {
		return err
	}
	return stage.Agrees(fsys, out, s.spec(ctx, was.Format, was.Parents), o.Force)
}
