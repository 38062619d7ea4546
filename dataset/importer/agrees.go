package importer

import (
	"context"
	"encoding/json"
	"errors"

	"diskgnn/dataset"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// Agrees returns the error by which Import would refuse what is there of the dataset out, nil where
// it would make it, go on, or find it finished. It opens the source, but takes its content for
// what was imported, since reading that is half of importing it. Of a source whose nodes have names,
// which must be numbered to open it, nothing is compared. It changes nothing.
func Agrees(ctx context.Context, fsys vfs.FS, out string, f Format, o Options) (err error) {
	o.EnsureDefaults()
	if err := o.Validate(); err != nil {
		return err
	}
	for _, name := range o.Sources {
		if _, err := StatFile(fsys, name); err != nil {
			return err
		}
	}
	was, ok := stage.Made(fsys, out)
	if !ok || o.NodeIDs != "" {
		return nil
	}
	im := &importing{format: f, o: o, fs: vfs.ReadOnly(fsys), rep: progress.Discard}
	if err := im.open(out); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, im.closeSource()) }()
	var made importParams
	if raw, ok := was.Params.(json.RawMessage); ok {
		_ = json.Unmarshal(raw, &made) // what is not an import's differs in other parameters
	}
	return dataset.Agrees(ctx, fsys, out, im.params(made.Content), im.form(), o.Force)
}
