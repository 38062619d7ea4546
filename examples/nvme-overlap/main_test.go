package main

import (
	"context"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/spec"
)

var small = work{batches: 5, micro: 3, reads: 4, bytes: 4096}

// drive makes a file and returns what it has, and its name.
func drive(t *testing.T) (content []byte, name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "drive")
	if err := make64MiB(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 1<<20); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content, name
}

func open(t *testing.T, name string, o soft.Options) *nvme.Controller {
	t.Helper()
	d, err := soft.OpenFile(name, o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := nvme.Open(t.Context(), d, nvme.Options{Depth: small.batch() + 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// The checksums are those of the file's bytes, in either order of work, by the twin and by the
// kernel on an emulated device.
func TestOverlap(t *testing.T) {
	content, name := drive(t)
	var want []uint32
	for batch := range small.batches {
		for read := range small.batch() {
			at := small.first(1<<20/512, 512, batch, read) * 512
			want = append(want, crc32.Checksum(content[at:][:small.bytes], crc32.MakeTable(crc32.Castagnoli)))
		}
	}
	test := func(t *testing.T, o *overlap) {
		defer o.close()
		for _, overlapped := range []bool{false, true} {
			if got, err := o.run(t.Context(), overlapped); err != nil || !slices.Equal(got, want) {
				t.Errorf("overlapped %v: other checksums, or %v", overlapped, err)
			}
		}
	}
	t.Run("by itself", func(t *testing.T) { // the twin, unless there is a GPU
		o, err := newOverlap(open(t, name, soft.Options{}), small)
		if err != nil {
			t.Fatal(err)
		}
		test(t, o)
	})
	t.Run("emulated", func(t *testing.T) {
		cudatest.Late(t, 20, func(t *testing.T, d *cuda.Device) {
			o, err := newOverlap(open(t, name, soft.Options{}), small)
			if err != nil {
				t.Fatal(err)
			}
			o.kernel.close()
			if o.kernel, err = newGPU(d, o.slots, small); err != nil {
				t.Fatal(err)
			}
			test(t, o)
		})
	})
}

// A read that fails ends the run with its status, a context ends it too.
func TestFailures(t *testing.T) {
	_, name := drive(t)
	c := open(t, name, soft.Options{Fate: func(cmd *spec.Command) soft.Fate {
		return soft.Fate{Status: spec.UnrecoveredReadError}
	}})
	o, err := newOverlap(c, small)
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	if _, err := o.run(t.Context(), true); !errors.Is(err, spec.UnrecoveredReadError) {
		t.Error(err)
	}
	o, err = newOverlap(open(t, name, soft.Options{Fate: func(*spec.Command) soft.Fate { return soft.Fate{Drop: true} }}), small)
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := o.run(ctx, true); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestRun(t *testing.T) {
	_, name := drive(t)
	var out strings.Builder
	if err := run(t.Context(), &out, []string{"soft:" + name}, small); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"diskgnn soft controller, 2048 blocks of 512 bytes\n", "kernel: ", "5 batches of 3 × 4 reads of 4096 bytes\n", "\noverlapped ", "the checksums of 60 reads agree\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	for target, want := range map[string]string{
		"nothing": "is no target", "soft:" + name + "x": "no such file", "libnvm:/dev/libnvm99": "BaM's module is not loaded",
	} {
		if err := run(t.Context(), &out, []string{target}, small); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", target, err)
		}
	}
	for _, w := range []work{{0, 1, 1, 512}, {1, 1, 1, 100}, {1, 1, 1, 1 << 20}, {1, 100, 100, 512}} {
		if err := run(t.Context(), &out, []string{"soft:" + name}, w); err == nil {
			t.Errorf("%+v is done", w)
		}
	}
}
