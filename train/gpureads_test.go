package train

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/featurestore/gids"
	"diskgnn/featurestore/hyperion"
	singlerows "diskgnn/featurestore/rows"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/pack"
	"diskgnn/pipeline"
	"diskgnn/train/engine"
	"diskgnn/train/epoch"
)

// readingOn is what makes a run's engine and its storage stack those of a device.
func readingOn(d *cuda.Device) func(*parts) {
	return func(p *parts) {
		p.engine = func(w engineWish) (engine.Engine, engineNeeds, error) {
			return newGPUEngineOn(d, w)
		}
		p.stack = func(kind string, o iostack.Options) (iostack.Stack, string, error) {
			o.Device = func() (device.GPU, error) { return d, nil }
			return all.Open(kind, o)
		}
	}
}

const gpuSubmits = "the GPU submits the reads"

// Runs whose GPU reads by itself end with the bytes of those whose host reads from files: on
// an emulated device, on late ones, and on a real one.
func TestGPUReads(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, dim: 20, batch: 20})
	static, min := w.pack(20), w.pack(20, func(o *pack.Options) { o.Policy = "min" })
	for name, c := range map[string]struct {
		pack   string
		dir    string // that is on the drives
		change func(*Options)
	}{
		"packed":        {static, static, func(*Options) {}},
		"min":           {min, min, func(*Options) {}},
		singlerows.Name: {static, w.path("dataset"), w.reading(singlerows.Name)},
		hyperion.Name:   {static, w.path("dataset"), w.reading(hyperion.Name)},
		// Without lines on the GPU: the host's run has none.
		gids.Name: {static, w.path("dataset"), func(o *Options) { w.paging(o); o.GPUCache = percent(0) }},
	} {
		t.Run(name, func(t *testing.T) {
			kind := storetest.LoadDrives(t, c.dir, 2)
			onReading(t, func(t *testing.T, d *cuda.Device) {
				o := w.options(c.pack, gpuRun, func(o *Options) { o.LayerOrder, o.IO = "aggregate", "pread" }, c.change)
				w.mustRun(o, readingOn(d))
				want := w.ending(o.Out)
				o = w.fresh(o, func(o *Options) { o.IO = kind })
				logs := &logged{}
				if _, err := w.run(context.Background(), o, logs, readingOn(d)); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(logs.String(), gpuSubmits) {
					t.Errorf("the host reads: %s", logs)
				}
				w.ending(o.Out).compare(t, "read by the GPU", want)
			})
		})
	}
}

// With lines of gids on the GPU, fewer pages are read, and the losses are equal to the bit.
func TestGPUReadsToLines(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, dim: 20, batch: 20})
	static := w.pack(20)
	kind := storetest.LoadDrives(t, w.path("dataset"), 2)
	d := storetest.OpenDriveDevice(t)
	o := w.options(static, gpuRun, w.paging, func(o *Options) {
		o.LayerOrder, o.IO, o.RAMCache, o.GPUCache = "aggregate", kind, percent(0), percent(0)
	})
	none, want := w.mustRun(o, readingOn(d))
	all, losses := w.mustRun(w.fresh(o, func(o *Options) { o.GPUCache = percent(100) }), readingOn(d))
	a, b := none.Epochs[len(none.Epochs)-1], all.Epochs[len(all.Epochs)-1]
	if !slices.Equal(losses, want) || a.PageMisses == 0 || b.PageMisses != 0 || a.GPUServedBytes != 0 || b.GPUServedBytes == 0 {
		t.Errorf("losses %v and %v; %+v without lines, %+v with all pages in lines", want, losses, a, b)
	}
}

// onReading runs a test on devices whose kernels can drive queues.
func onReading(t *testing.T, test func(t *testing.T, d *cuda.Device)) {
	storetest.DriveDevices.Everywhere(t, 3, test)
}

// Where the host submits reads all the same, the run says why.
func TestGPUReadsNot(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, dim: 20, batch: 20})
	static, compressed := w.pack(20), w.pack(20, func(o *pack.Options) { o.Compress = "s2" })
	onDataset, onPack := storetest.LoadDrives(t, w.path("dataset"), 1), storetest.LoadDrives(t, compressed, 1)
	for why, c := range map[string]struct {
		pack   string
		change func(*Options)
	}{
		"chunks are compressed":           {compressed, func(o *Options) { o.IO = onPack }},
		"the file is not on these drives": {static, func(o *Options) { o.IO = onDataset }},
		"reads are recorded":              {static, func(o *Options) { w.reading(singlerows.Name)(o); o.IO, o.Record = onDataset, w.path("trace") }},
		"batches in flight need":          {static, func(o *Options) { w.reading(singlerows.Name)(o); o.IO, o.GPUMemory = onDataset, 2<<20 }},
	} {
		d := storetest.OpenDriveDevice(t)
		o := w.options(c.pack, gpuRun, c.change)
		logs := &logged{}
		if _, err := w.run(context.Background(), o, logs, readingOn(d)); err != nil {
			t.Errorf("%s: %v", why, err)
		}
		if l := logs.String(); strings.Contains(l, gpuSubmits) || !strings.Contains(l, "the host submits the reads of batches: ") || !strings.Contains(l, why) {
			t.Errorf("%s: %s", why, l)
		}
	}
}

// Bytes that are wrong on the drive end the run as damage, which names the file; the step that
// took them is not looked at any more.
func TestGPUReadsWrong(t *testing.T) {
	w := newWorld(t, worldParams{nodes: 150, dim: 20, batch: 20})
	static := w.pack(20)
	for name, c := range map[string]struct {
		dir, file string
		change    func(*Options)
	}{
		"packed":        {static, "cold-*.bin", func(*Options) {}},
		singlerows.Name: {w.path("dataset"), dataset.FeaturesFile, w.reading(singlerows.Name)},
	} {
		kind := storetest.LoadDrives(t, c.dir, 1)
		storetest.SpoilDrives(t, kind, c.dir, c.file)
		d := storetest.OpenDriveDevice(t)
		o := w.options(static, gpuRun, c.change, func(o *Options) { o.IO = kind })
		_, err := w.run(context.Background(), o, &logged{}, readingOn(d))
		var at *pipeline.Error
		if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), c.file[:4]) || !errors.As(err, &at) || at.Link != epoch.LinkLaunch || at.Item != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
