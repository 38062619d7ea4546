package volume

import (
	"context"

	"diskgnn/internal/progress"
)

// Verify reads every byte of all files and checks it against the volume's checksums. It holds a
// granule.
func (v *Volume) Verify(ctx context.Context, rep progress.Reporter) error {
	task := rep.Task("verify volume", v.contents.Bytes(), progress.Bytes)
	defer task.Done()
	b := make([]byte, Granule)
	for i := range v.contents.Files {
		f := &v.contents.Files[i]
		for at := int64(0); at < f.Size; at += Granule {
			if err := ctx.Err(); err != nil {
				return err
			}
			b := b[:min(Granule, f.Size-at)]
			if err := v.Read(f, b, at); err != nil {
				return err
			}
			if err := f.Sums.Verify(names(v.drives)+": "+f.Name, at, b); err != nil {
				return err
			}
			task.Add(int64(len(b)))
		}
	}
	return nil
}
