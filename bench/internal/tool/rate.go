package tool

import (
	"context"
	"time"

	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/pack/packfile"
)

// SequentialCold reads a pack's cold files from front to back through a backend of the
// given kind, at most some gigabytes,
// and returns the bytes per second. Requests are as long as large chunks: shorter ones
// measured slower on a virtual drive, and loaders should be held against the drive's
// best.
func SequentialCold(ctx context.Context, kind string, r *packfile.Reader) (float64, error) {
	stack, _, err := all.Open(kind, iostack.Options{})
	if err != nil {
		return 0, err
	}
	defer stack.Close()
	var bytes int64
	began := time.Now()
	for g := 0; bytes < 4<<30; g++ {
		f, ok := r.Meta().File(packfile.ColdFile(g))
		if !ok {
			break
		}
		if _, err := iostack.Sequential(ctx, stack, r.Path(f.Name), 128<<20, 3); err != nil {
			return 0, err
		}
		bytes += f.Size
	}
	return float64(bytes) / time.Since(began).Seconds(), nil
}
