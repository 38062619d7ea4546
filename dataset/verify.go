package dataset

import (
	"context"
	"errors"

	"diskgnn/internal/progress"
)

// Verify reads every byte of the dataset and checks it against its checksum,
// and what the format promises of the topology, the labels and the splits. It
// holds 4 bytes a node, 4 more for every node of a split, and a few MiB.
func (d *Dataset) Verify(ctx context.Context, rep progress.Reporter, workers int) error {
	t, err := d.Topology(ctx, rep, workers)
	if err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	labels, err := d.Labels()
	if err != nil {
		return err
	}
	if err := d.checkSplits(labels); err != nil {
		return err
	}
	if err := d.verifyTargets(ctx, labels); err != nil {
		return err
	}
	return d.verifyFeatures(ctx, rep)
}

func (d *Dataset) verifyFeatures(ctx context.Context, rep progress.Reporter) (err error) {
	r, err := d.Features()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	size := r.pieces.size
	task := rep.Task("verify features", size, progress.Bytes)
	defer task.Done()
	buf := make([]byte, min(4*Granule, size))
	s := newScratch()
	for off := int64(0); off < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.read(s, buf[:min(int64(len(buf)), size-off)], off)
		if err != nil {
			return err
		}
		off += n
		task.Add(n)
	}
	return nil
}
