package devrows

import (
	"context"
	"fmt"

	"diskgnn/featurestore"
	"diskgnn/internal/binio"
)

// Flight is the reads of the batch in a slot: who carries them out, and whether some may be
// under way.
type Flight struct {
	GPU  *Slot // nil: the host reads
	Host Host

	of    featurestore.Ref
	under bool
}

// Host is what reads on the host.
type Host interface {
	// Finish returns when everything has landed, checked. After an error Drop must follow.
	Finish(ctx context.Context) error
	// Drop gives the reads up: nothing lands any more once it returns.
	Drop()
}

// Begin begins the reads of a batch: submit has, or tried to. It returns the error, after which
// nothing is under way.
func (f *Flight) Begin(r featurestore.Ref, submit func() error) error {
	f.of, f.under = r, true
	return f.ended(submit())
}

// ended gives the reads up if there is an error, which it returns.
func (f *Flight) ended(err error) error {
	if err == nil {
		return nil
	}
	if f.GPU != nil {
		f.GPU.End()
	} else {
		f.Host.Drop()
	}
	f.under = false
	return fmt.Errorf("rows of %v: %w", f.of, err)
}

// Wait returns when the host has read everything. The reads of a GPU go on until Fill has
// completed them. Of a batch that is given up it ends the reads.
func (f *Flight) Wait(ctx context.Context) error {
	switch {
	case !f.under:
		return nil
	case f.GPU != nil:
		return f.ended(ctx.Err())
	}
	err := f.ended(f.Host.Finish(ctx))
	f.under = false
	return err
}

// Landed is featurestore.Landing's: it compares the checksums of what a GPU has read, whose
// damage is said by damaged.
func (f *Flight) Landed(sums *binio.Sums, damaged func(error) error) error {
	if f.GPU == nil || !f.under {
		return nil
	}
	if err := f.GPU.Landed(sums); err != nil {
		return f.ended(damaged(err))
	}
	f.under = false
	return nil
}
