package onthefly

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler/gpusampler"
	"diskgnn/presample/sampler/topology"
)

// pin makes a source's loaders draw on a device, until the function that it returns.
func pin(t testing.TB, s *Source, d *cuda.Device, room int64) (unpin func()) {
	t.Helper()
	if _, err := s.Pin(d, room, 3, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Place(t.Context(), progress.Discard); err != nil {
		t.Fatal(err)
	}
	return s.Unpin
}

// The batches that a device draws are those of the host, of training and of evaluation, with
// one class a node and with several, in any order; so are the input nodes that windows show.
func TestPinnedBatchesAreTheHosts(t *testing.T) {
	graphs := []string{create(t, datasettest.Params{Nodes: 5}), create(t, datasettest.Params{Nodes: 90, AvgDegree: 6, MultiLabel: true}), create(t, datasettest.Params{Nodes: 300, AvgDegree: 9, Seed: 1})}
	rapid.Check(t, func(rt *rapid.T) {
		fanout := rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 5, mbfile.AllNeighbours}), 1, 3)
		f := fanout.Draw(rt, "fanout")
		p := params(rapid.IntRange(1, 20).Draw(rt, "batch"), rapid.IntRange(1, 3).Draw(rt, "epochs"), f, rapid.SampledFrom([][]int{f, slices.Repeat([]int{mbfile.AllNeighbours}, len(f))}).Draw(rt, "eval"))
		p.Seed = rapid.Uint64Range(0, 3).Draw(rt, "seed")
		o := Options{Dataset: rapid.SampledFrom(graphs).Draw(rt, "graph"), Params: p, DryEpochs: all, GPU: true, Workers: 2, Memory: 1 << 30}
		s, err := Open(context.Background(), disk, o, progress.Discard)
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		host, hostEval, _ := newLoaders(t, s)
		d := cudatest.OpenLate(t, rapid.Uint64Range(0, cudatest.Orders-1).Draw(rt, "order"))
		room := gpusampler.Choose(topology.CSC(s.topology), nil, 0, 1<<40).GPU * rapid.Int64Range(0, nearShare+1).Draw(rt, "room")
		one, _ := s.deviceBytes(false)
		other, _ := s.deviceBytes(true)
		defer pin(t, s, d, room+3*one+other)()
		train, eval, of := newLoaders(t, s)
		defer train.Free()
		if eval != nil {
			defer eval.Free()
		}
		w, err := of.NewWindow(1)
		if err != nil {
			rt.Fatal(err)
		}
		defer w.Free()
		for _, r := range rapid.Permutation(refs(s.facts)).Draw(rt, "list") {
			from, on := host, train
			if r.Split != featurestore.Train {
				from, on = hostEval, eval
			}
			want, err := load(from, r)
			if err != nil {
				rt.Fatal(err)
			}
			got, err := load(on, r)
			if err != nil {
				rt.Fatal(err)
			}
			if err := same(got, want); err != nil {
				rt.Fatalf("%v: %v", r, err)
			}
			if r.Split != featurestore.Train {
				continue
			}
			if _, err := w.Seek(context.Background(), r.Index); err != nil || !slices.Equal(w.Inputs(0), want.Input) {
				rt.Fatalf("%v: the window has other nodes, %v", r, err)
			}
			for k := range got.Input {
				got.Input[k] = 0 // as a store does, which names them by ranks
			}
		}
	})
}

// A training batch beyond the maxima has outgrown them on the device as on the host, and
// after Grow it is drawn.
func TestPinnedOutgrown(t *testing.T) {
	data := create(t, datasettest.Params{Nodes: 500, AvgDegree: 6, Seed: 3})
	p := params(20, 3, []int{2, 3}, []int{2, 3})
	s := open(t, Options{Dataset: data, Params: p, DryEpochs: 0.01, GPU: true})
	d := cudatest.Open(t)
	grown := 0
	for i := 0; i < s.facts.Train; {
		unpin := pin(t, s, d, 1<<40)
		l, _ := s.Open(nil)
		on, err := l.NewLoader(false)
		if err != nil {
			t.Fatal(err)
		}
		for ; i < s.facts.Train && err == nil; i++ {
			if _, err = load(on, featurestore.Ref{Index: i}); err != nil {
				break
			}
		}
		on.Free()
		unpin()
		var o *Outgrown
		if errors.As(err, &o) {
			if grown++; o.Ref.Index != i {
				t.Fatalf("batch %d: %v", i, err)
			}
			if err := s.Grow(t.Context(), o.Ref); err != nil {
				t.Fatal(err)
			}
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if grown == 0 {
		t.Error("no batch outgrew those of the dry pass")
	}
}

// said is a reporter that keeps its last line.
type said struct {
	progress.Reporter
	last string
}

func (s *said) Logf(format string, args ...any) { s.last = fmt.Sprintf(format, args...) }

// What is counted is what is taken: of the device's memory, of pinned memory, and of the
// host's. The topology takes a quarter of what is left of the device's: it lies there, or the lists that were drawn
// from most do, or nothing.
func TestPinnedMemory(t *testing.T) {
	data := create(t, datasettest.Params{Nodes: 5000, AvgDegree: 6, Seed: 3})
	s := open(t, Options{Dataset: data, Params: params(20, 1, []int{2, 3}, []int{2, mbfile.AllNeighbours}), DryEpochs: all, GPU: true})
	csc := topology.CSC(s.topology)
	whole, ram := gpusampler.Choose(csc, nil, 0, 1<<40).GPU, gpusampler.Choose(csc, nil, 0, 0).RAM
	indices, records := (4*int64(len(csc.Indices))+4095)/4096*4096, int64(5000*12+160) // aligned
	train, _ := s.deviceBytes(false)
	eval, _ := s.deviceBytes(true)
	before := s.TableBytes()
	if n := s.countBytes(); n != 8*5000 || s.Draws() != nil {
		t.Errorf("counts of %d bytes; a store chooses lists", n)
	}
	const over = `pinned in RAM, more than a quarter of the GPU's free .*; the GPU draws batches over the bus`
	for _, c := range []struct {
		room, near, host int64
		says             string
	}{
		{4 * whole, whole, 0, "in the GPU's memory, where batches are drawn$"},
		{4*whole - 1, gpusampler.Choose(csc, s.draws, 3, whole-1).GPU, indices, over + ", and from .*: the lists of [1-9],[0-9]+ of 5,000 nodes, 100 % of the draws in the dry pass$"},
		{4 * (records + 1024), records + 1024, indices, over + ", and from 59.8 KiB of its own memory: the lists of [1-9][0-9]+ of 5,000 nodes, [1-9][0-9]? % of the draws in the dry pass$"},
		{4 * records, records, indices, over + ", and from 58.8 KiB of its own memory: the lists of 0 of 5,000 nodes, 0 % of the draws in the dry pass$"},
		{4*records - 1, 0, ram, over + "$"},
	} {
		d := cudatest.Open(t)
		was := device.HostBytes()
		bytes, err := s.Pin(d, 3*train+eval+c.room, 3, 1)
		if err != nil {
			t.Fatal(err)
		}
		said := &said{Reporter: progress.Discard}
		if err := s.Place(t.Context(), said); err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(c.says).MatchString(said.last) {
			t.Errorf("room for %d bytes: %q, want %q", c.room, said.last, c.says)
		}
		host, want := c.host, 3*train+eval+c.near
		if s.TopologyBytes() != c.near+host {
			t.Errorf("room for %d bytes: a topology of %d", c.room, s.TopologyBytes())
		}
		if bytes != want || s.HostBytes() != host || device.HostBytes()-was != host || s.GPUBytes(3, 1) != 3*train+eval {
			t.Errorf("room for %d: %d bytes of the device's, want %d; %d of the host's, want %d", c.room, bytes, want, s.HostBytes(), host)
		}
		if n := s.TableBytes() - before; n != host+max(0, s.hostLoaderBytes(false)-s.LoaderBytes(false)) {
			t.Errorf("room for %d: %d bytes more of tables", c.room, n)
		}
		l, _ := s.Open(nil)
		var loaders []featurestore.Loader
		for _, of := range []bool{false, false, false, true} {
			_, pinned := d.Held()
			one, err := l.NewLoader(of)
			if err != nil {
				t.Fatal(err)
			}
			loaders = append(loaders, one)
			if _, now := d.Held(); now-pinned != s.LoaderBytes(of)-s.HeapBytes(of) || s.HeapBytes(of) != s.seedBytes(of) {
				t.Errorf("a loader pins %d bytes, %d and %d of the heap are counted", now-pinned, s.LoaderBytes(of), s.HeapBytes(of))
			}
		}
		if held, _ := d.Held(); held != bytes {
			t.Errorf("room for %d: %d bytes of the device's are held, %d are counted", c.room, held, bytes)
		}
		for _, one := range loaders {
			one.Free()
		}
		s.Unpin()
		if device.HostBytes() != was || s.TableBytes() != before || s.GPUBytes(3, 1) != 0 {
			t.Errorf("room for %d: something is left", c.room)
		}
	}
	if _, err := s.Pin(cudatest.Open(t), 3*train+eval-1, 3, 1); !errors.Is(err, fault.ErrBudget) || s.pinned != nil || !strings.Contains(err.Error(), "drawing 4 batches at a time") {
		t.Errorf("no room: %v", err)
	}
	if err := os.Truncate(filepath.Join(data, "indptr.bin"), 0); err != nil {
		t.Fatal(err)
	}
	if n, err := s.Pin(cudatest.Open(t), 3*train+eval+4*records, 3, 1); !errors.Is(err, fault.ErrCorrupt) || n != 0 || s.pinned != nil {
		t.Errorf("a file that shrank: %d bytes, %v", n, err)
	}
}

// What a device fails in is the loader's error, which names the batch.
func TestPinnedFaults(t *testing.T) {
	data := create(t, datasettest.Params{Nodes: 90, AvgDegree: 6})
	s := open(t, Options{Dataset: data, Params: params(20, 1, []int{2, 3}, []int{2, 3}), DryEpochs: all})
	failing := false
	d := cudatest.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
		if failing {
			return &cuda.Fault{Why: "injected"}
		}
		return nil
	})
	defer pin(t, s, d, 1<<40)()
	train, eval, of := newLoaders(t, s)
	defer train.Free()
	defer eval.Free()
	failing = true
	if _, err := load(train, featurestore.Ref{Index: 1}); !errors.Is(err, fault.ErrDevice) || !strings.Contains(err.Error(), "draw batch 1 of epoch 0: ") {
		t.Errorf("%v", err)
	}
	if _, err := load(eval, featurestore.Ref{Split: featurestore.Valid}); !errors.Is(err, fault.ErrDevice) || !strings.Contains(err.Error(), "draw validation batch 0: ") {
		t.Errorf("%v", err)
	}
	if _, err := of.NewLoader(false); !errors.Is(err, fault.ErrDevice) {
		t.Errorf("%v", err)
	}
	failing = false
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := errors.Join(train.Start(featurestore.Ref{}), train.Wait(ended)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := train.Decode(); err == nil {
		t.Error("a batch that was not drawn is there")
	}
}
