package onthefly

import (
	"context"
	"errors"
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
		o := Options{Dataset: rapid.SampledFrom(graphs).Draw(rt, "graph"), Params: p, DryEpochs: all, Workers: 2, Memory: 1 << 30}
		s, err := Open(context.Background(), disk, o, progress.Discard)
		if err != nil {
			rt.Fatal(err)
		}
		defer s.Close()
		host, hostEval, _ := newLoaders(t, s)
		d := cudatest.OpenLate(t, rapid.Uint64Range(0, cudatest.Orders-1).Draw(rt, "order"))
		defer pin(t, s, d, 1<<rapid.SampledFrom([]int{24, 40}).Draw(rt, "room"))()
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
	s := open(t, Options{Dataset: data, Params: p, DryEpochs: 0.01})
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

// What is counted is what is taken: of the device's memory, of pinned memory, and of the
// host's. The topology goes to the device where it is a quarter of what is left.
func TestPinnedMemory(t *testing.T) {
	data := create(t, datasettest.Params{Nodes: 5000, AvgDegree: 6, Seed: 3})
	s := open(t, Options{Dataset: data, Params: params(20, 1, []int{2, 3}, []int{2, mbfile.AllNeighbours}), DryEpochs: all})
	f := s.data.Facts()
	topology := gpusampler.Bytes(f.Nodes, f.Edges)
	train, _ := s.deviceBytes(false)
	eval, _ := s.deviceBytes(true)
	before := s.TableBytes()
	for _, c := range []struct {
		room int64
		near bool
	}{{3*train + eval + 4*topology, true}, {3*train + eval + 4*topology - 1, false}} {
		d := cudatest.Open(t)
		was := device.HostBytes()
		bytes, err := s.Pin(d, c.room, 3, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Place(t.Context(), progress.Discard); err != nil {
			t.Fatal(err)
		}
		host := int64(0)
		want := 3*train + eval
		if c.near {
			want += topology
		} else {
			host = topology
		}
		if bytes != want || s.HostBytes() != host || device.HostBytes()-was != host || s.GPUBytes(3, 1) != 3*train+eval {
			t.Errorf("near %v: %d bytes of the device's, want %d; %d of the host's, want %d", c.near, bytes, want, s.HostBytes(), host)
		}
		if n := s.TableBytes() - before; n != host+max(0, s.hostLoaderBytes(false)-s.LoaderBytes(false)) {
			t.Errorf("near %v: %d bytes more of tables", c.near, n)
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
			t.Errorf("near %v: %d bytes of the device's are held, %d are counted", c.near, held, bytes)
		}
		for _, one := range loaders {
			one.Free()
		}
		s.Unpin()
		if device.HostBytes() != was || s.TableBytes() != before || s.GPUBytes(3, 1) != 0 {
			t.Errorf("near %v: something is left", c.near)
		}
	}
	if _, err := s.Pin(cudatest.Open(t), 3*train+eval-1, 3, 1); !errors.Is(err, fault.ErrBudget) || s.pinned != nil {
		t.Errorf("no room: %v", err)
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
