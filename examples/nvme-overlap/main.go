// Command nvme-overlap reads an NVMe drive from user space while a kernel computes: it submits
// micro-batches of reads one after another, computes on the previous batch meanwhile, and completes
// all reads at once.
//
//	go run . TARGET            on a GPU: go run -tags gpu . TARGET
//
// TARGET is soft:FILE, a file that a controller in software serves, or libnvm:/dev/libnvm0, a
// drive behind BaM's kernel module. Without one, a file is made and served.
//
// It is a module of its own, which uses the storage stack of diskgnn and its kernels, but nothing about
// training: a starting point for other programs. The kernel computes a checksum of each read; without
// a GPU its plain twin runs beside the reads.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/libnvm"
	"diskgnn/iostack/nvme/soft"
)

func main() {
	w := work{}
	flag.IntVar(&w.batches, "batches", 16, "batches to read and compute on")
	flag.IntVar(&w.micro, "micro", 4, "micro-batches of a batch")
	flag.IntVar(&w.reads, "reads", 64, "reads of a micro-batch")
	flag.IntVar(&w.bytes, "bytes", 4096, "bytes of a read")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout, flag.Args(), w); err != nil {
		fmt.Fprintln(os.Stderr, "nvme-overlap:", err)
		stop()
		os.Exit(1)
	}
}

// run reads a target twice, one batch after another and overlapped, and compares the checksums.
func run(ctx context.Context, out io.Writer, args []string, w work) (err error) {
	if len(args) > 1 {
		return fmt.Errorf("give at most one target, not %d", len(args))
	}
	if len(args) == 0 {
		dir, err := os.MkdirTemp("", "nvme-overlap")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		name := filepath.Join(dir, "drive")
		if err := make64MiB(name); err != nil {
			return err
		}
		args = []string{"soft:" + name}
	}
	t, err := reach(args[0])
	if err != nil {
		return err
	}
	if caution := nvme.Caution(t); caution != "" {
		fmt.Fprintln(out, "note:", caution)
	}
	// One entry of a queue stays empty.
	c, err := nvme.Open(ctx, t, nvme.Options{Depth: w.micro*w.reads + 1})
	if err != nil {
		return err // the transport is closed
	}
	defer func() {
		if e := c.Close(); err == nil {
			err = e
		}
	}()
	space := c.Namespace()
	fmt.Fprintf(out, "%s: %s, %d blocks of %d bytes\n", t.Name(), c.Identity().Model, space.Blocks, space.BlockBytes)
	o, err := newOverlap(c, w)
	if err != nil {
		return err
	}
	defer o.close()
	fmt.Fprintf(out, "kernel: %s\n%d batches of %d × %d reads of %d bytes\n", o.kernel.name(), w.batches, w.micro, w.reads, w.bytes)
	var sums [2][]uint32
	for i, how := range []string{"one after the other", "overlapped"} {
		began := time.Now()
		if sums[i], err = o.run(ctx, i == 1); err != nil {
			return err
		}
		fmt.Fprintf(out, "%-20s %v\n", how, time.Since(began).Round(time.Microsecond))
	}
	if !slices.Equal(sums[0], sums[1]) {
		return fmt.Errorf("the checksums differ")
	}
	fmt.Fprintf(out, "the checksums of %d reads agree\n", len(sums[0]))
	return nil
}

// reach returns the transport to a target.
func reach(target string) (nvme.Transport, error) {
	kind, name, _ := strings.Cut(target, ":")
	switch kind {
	case "soft":
		return soft.OpenFile(name, soft.Options{ReadOnly: true})
	case "libnvm":
		return libnvm.Open(name)
	}
	return nil, fmt.Errorf("%q is no target: give soft:FILE or libnvm:/dev/libnvm0", target)
}

// make64MiB makes a file of random bytes.
func make64MiB(name string) error {
	b := make([]byte, 64<<20)
	rand.NewChaCha8([32]byte{}).Read(b)
	return os.WriteFile(name, b, 0o600)
}
