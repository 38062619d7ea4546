package main

import (
	"errors"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"diskgnn/device"
	"diskgnn/internal/vfs"
)

// Writes for the rate: as many at a time, each so long.
const (
	rateDepth = 8
	rateWrite = 1 << 20
)

// writeFile writes size bytes, a multiple of rateWrite, and makes them durable.
func writeFile(name string, size int64) (err error) {
	f, err := vfs.OS.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := vfs.Reserve(f, size); err != nil {
		return err
	}
	to := f
	if d, err := vfs.OpenDirect(vfs.OS, name); err == nil {
		defer d.Close()
		to = d
	}
	mem, err := device.NewHost(rateWrite)
	if err != nil {
		return err
	}
	defer mem.Free()
	for i := range mem.Bytes() {
		mem.Bytes()[i] = byte(i * 7)
	}
	var next atomic.Int64
	var g errgroup.Group
	for range rateDepth {
		g.Go(func() error {
			for off := next.Add(rateWrite) - rateWrite; off+rateWrite <= size; off = next.Add(rateWrite) - rateWrite {
				if _, err := to.WriteAt(mem.Bytes(), off); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return f.Sync()
}
