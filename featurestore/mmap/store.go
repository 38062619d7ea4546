package mmap

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"diskgnn/device"
	"diskgnn/featurestore"
	"diskgnn/featurestore/internal/machine"
	"diskgnn/internal/mapped"
	"diskgnn/internal/progress"
	"diskgnn/iostack"
)

// store is the store and its one view.
type store struct {
	*levels
	machine.Files
	machine.Stateless
	confined bool         // the kernel evicts pages, and counts its reads
	mapping  *mapped.File // of the features
	threads  *threads
	sets     *device.Host // memory of pages

	mu    sync.Mutex // held while a batch is gathered
	pages *pages
}

func (s *store) open(o own, stack iostack.Stack) (err error) {
	if s.sets, err = device.NewHost(int(2 * 4 * words(s.filePages()))); err != nil {
		return err
	}
	if err = s.OpenBatches(s.Table, stack); err != nil {
		return err
	}
	s.pages = newPages(s.Size(), s.page, int64(s.Facts.RowBytes), o.pages, s.sets.Uint32s())
	if s.mapping, err = mapped.Open(s.Data.FeaturesPath()); err != nil {
		return err
	}
	if err = s.Whole(s.Data.FeaturesPath(), int64(len(s.mapping.Data()))); err != nil {
		return err
	}
	s.mapping.Advise(mapped.Random)
	s.confined = o.confined
	s.threads = newThreads(o.threads, s.mapping, s.Facts.DType, s.Facts.Dim)
	s.threads.counts = o.confined
	return nil
}

func (s *store) View(int) featurestore.View { return s }

// Fill reads the ranks, and drops the features from the page cache, which begins empty.
func (s *store) Fill(context.Context, int, progress.Reporter) (int64, error) {
	if err := s.ReadRanks(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return 0, s.drop()
}

// drop drops the pages from the page cache.
func (s *store) drop() error {
	s.pages.drop()
	return dropPages(s.mapping.Handle(), s.mapping.Data())
}

// gather fills `to` with the rows of some nodes, and adds its reads to counts.
func (s *store) gather(ctx context.Context, nodes []uint32, to []float32, counts *featurestore.Counts) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.confined {
		err := s.threads.gather(ctx, nodes, to)
		s.count(s.threads.faults.Load(), s.threads.cold.Load(), len(nodes), counts)
		return s.Damaged(err)
	}
	s.pages.begin()
	for {
		t := s.pages.take(nodes)
		if err := s.threads.gather(ctx, nodes[:t.rows], to[:t.rows*s.Facts.Dim]); err != nil {
			return s.Damaged(err)
		}
		counts.Requests += t.pages
		counts.BytesRead += t.bytes
		counts.UsefulBytes += t.useful
		counts.RAMRows += t.warm
		if nodes, to = nodes[t.rows:], to[t.rows*s.Facts.Dim:]; len(nodes) == 0 {
			return nil
		}
		if err := s.drop(); err != nil {
			return err
		}
	}
}

// count adds the kernel's reads for some rows to counts: whole pages. cold is the number of rows that waited
// for a read.
func (s *store) count(pages, cold int64, rows int, counts *featurestore.Counts) {
	counts.Requests += pages
	counts.BytesRead += pages * s.page
	counts.UsefulBytes += min(cold*int64(s.Facts.RowBytes), pages*s.page)
	counts.RAMRows += rows - int(cold)
}

// Unchanged implements featurestore.Mapped.
func (s *store) Unchanged() error { return mapped.Unchanged(s.mapping) }

// Close releases files and memory.
func (s *store) Close() error {
	var errs []error
	if s.threads != nil {
		s.threads.close()
	}
	errs = append(errs, s.Files.Close())
	if s.mapping != nil {
		errs = append(errs, s.mapping.Close())
	}
	if s.sets != nil {
		s.sets.Free()
	}
	return errors.Join(errs...)
}

// slot implements featurestore.Slot.
type slot struct {
	featurestore.HostSlot
	store   *store
	waiting bool // LoadGraph has succeeded, and Wait has not gathered yet
}

func (s *store) NewSlot(eval bool) (featurestore.Slot, error) {
	sl := &slot{store: s}
	if err := sl.Open(s.Loaders, &s.Facts, eval); err != nil {
		sl.Free()
		return nil, err
	}
	return sl, nil
}

// Start submits the read of the graph. The rows to touch follow from the graph.
func (sl *slot) Start(r featurestore.Ref) error {
	sl.waiting = false
	return sl.HostSlot.Start(r)
}

func (sl *slot) LoadGraph(ctx context.Context) error {
	if err := sl.LoadRanked(ctx, sl.store.Ranks()); err != nil {
		return err
	}
	sl.waiting = true
	return nil
}

// Wait gathers the rows. Batches are gathered one at a time: pages that a batch leaves in the page cache
// serve the next batch, so the counts follow from the order of the calls.
func (sl *slot) Wait(ctx context.Context) error {
	if err := sl.Loader.Wait(ctx); err != nil || !sl.waiting {
		return err
	}
	sl.waiting = false
	if err := sl.store.gather(ctx, sl.Nodes(), sl.X(), &sl.Rows); err != nil {
		return fmt.Errorf("rows of %v: %w", sl.Ref, err)
	}
	return nil
}

// Assemble has nothing left to do.
func (sl *slot) Assemble(ctx context.Context) error { return ctx.Err() }

// Open maps the features and opens the batches.
func (v *levels) Open(stack iostack.Stack, l featurestore.Layout) (featurestore.Store, error) {
	s := &store{levels: v}
	if err := s.open(l.Own.(own), stack); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}
