package comparison

import (
	"errors"
)

// chill drops the files of the dataset, and of a variant's samples and pack, from the page cache, as far
// as no process has them mapped, so that every run finds them on the drive. Where the system
// has no such call, the result says so.
func (c *comparison) chill(v *variant) error {
	for _, dir := range []string{c.o.Dataset, v.samples, v.pack} {
		if dir == "" || c.broken[dir] != nil {
			continue
		}
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
