package comparison

import (
	"errors"
	"path/filepath"

	"diskgnn/internal/vfs"
)

// chill drops the files of the dataset, the samples and the pack from the page cache, as far
// as no process has them mapped, so that every run finds them on the drive. Where the system
// has no such call, the result says so.
func (c *comparison) chill() error {
	dirs := []string{c.o.Dataset, c.result.Samples}
	pack := filepath.Join(c.o.Out, packDir)
	if ok, err := vfs.Exists(c.fs, pack); err != nil {
		return err
	} else if ok {
		dirs = append(dirs, pack)
	}
	for _, dir := range dirs {
		err := c.files(dir, func(name string, _ int64) error { return uncache(name) })
		if errors.Is(err, errors.ErrUnsupported) {
			c.result.Warm = "this system does not drop files from the page cache"
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
