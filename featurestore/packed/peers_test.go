package packed_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/cudatest"
	"diskgnn/featurestore"
	"diskgnn/featurestore/packed"
	"diskgnn/featurestore/storetest"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/presample"
)

func gpus(devices []*cuda.Device) (list []device.GPU) {
	for _, d := range devices {
		list = append(list, d)
	}
	return list
}

// reach makes every device reach all others.
func reach(t *testing.T, devices []*cuda.Device) {
	t.Helper()
	for _, d := range devices {
		for _, peer := range devices {
			if peer == d {
				continue
			}
			if err := d.Attached(func() error { _, err := d.Reach(peer); return err }); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestPeers: of a process with several devices each view has the matrices that a single device
// has, whether the hottest rows are divided among the devices or each has them. Divided, as much
// memory of each holds as many times the rows; RAM holds the next ones, once.
func TestPeers(t *testing.T) {
	for _, of := range []string{"same", "int8"} {
		po := pack.Options{Cache: &budget.Size{Value: 40, Unit: budget.UnitPercent}, Bands: []float64{60}, DType: of, Memory: 1 << 30, Workers: 1}
		w := build(t, t.TempDir(), datasettest.Params{Nodes: 90, AvgDegree: 4, Dim: 101, Seed: 3}.Raw(),
			presample.Options{BatchSize: 6, Fanout: []int{3, 3}, Memory: 1 << 30, Workers: 1}, po)
		defer w.close()
		alone := cudatest.Open(t)
		want := onDevices(t, w, []*cuda.Device{alone}, false, 7, nil)[0]
		for devices := 2; devices <= 3; devices++ {
			for _, apart := range []bool{false, true} {
				list := cudatest.OpenMachine(t, devices, apart)
				reach(t, list)
				var l featurestore.Layout
				got := onDevices(t, w, list, !apart, 7, &l)
				rows := int64(7)
				if !apart {
					rows *= int64(devices)
				}
				if l.GPURows != rows || l.GPURowsBytes != 7*int64(w.reader.Facts().RowBytes) || l.CacheRows <= rows {
					t.Errorf("%d devices, apart %t: %d rows on them in %d bytes of each, of a cache of %d, want %d rows in 7 each", devices, apart, l.GPURows, l.GPURowsBytes, l.CacheRows, rows)
				}
				for i := range got {
					for ref, x := range want {
						if !slices.Equal(got[i][ref], x) {
							t.Errorf("%s, device %d of %d, apart %t: another matrix of %v", of, i, devices, apart, ref)
						}
					}
				}
			}
		}
	}
}

// onDevices returns those of all batches, on each device of a store which have so many rows each.
func onDevices(t *testing.T, w *world, devices []*cuda.Device, divide bool, rows int, layout *featurestore.Layout) []map[featurestore.Ref][]float32 {
	t.Helper()
	c, err := packed.Find(vfs.OS, w.pack)
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30, Slots: 1, EvalSlots: 1, MostSlots: 1, GPU: devices[0], Peers: gpus(devices[1:]), Divide: divide,
		GPUMemory: 1 << 30, GPUCache: &budget.Size{Value: float64(rows * w.reader.Facts().RowBytes)}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Open(newStack(t), l)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for range 2 { // again, as after an interruption
		if _, err := s.Fill(t.Context(), 0, progress.Discard); err != nil {
			t.Fatal(err)
		}
	}
	if layout != nil {
		*layout = l
	}
	f := c.Facts()
	all := make([]map[featurestore.Ref][]float32, len(devices))
	for i, d := range devices {
		all[i] = map[featurestore.Ref][]float32{}
		for split := featurestore.Train; split <= featurestore.Test; split++ {
			sl, err := s.View(i).NewSlot(split != featurestore.Train)
			if err != nil {
				t.Fatal(err)
			}
			for k := range f.Batches(split) {
				ref := featurestore.Ref{Split: split, Index: k}
				if err := storetest.Load(t.Context(), sl, ref); err != nil {
					t.Fatal(err)
				}
				if all[i][ref], err = storetest.OnGPU(sl, d, len(sl.Batch().Input)*f.Dim); err != nil {
					t.Fatal(err)
				}
			}
			sl.Free()
		}
		if device, _ := d.Held(); device > l.GPUBytes {
			t.Errorf("device %d of %d: %d bytes are held, %d planned", i, len(devices), device, l.GPUBytes)
		}
	}
	return all
}

// TestPeersFaults: whatever device fails in opening or filling, all is given back.
func TestPeersFaults(t *testing.T) {
	po := pack.Options{Cache: &budget.Size{Value: 40, Unit: budget.UnitPercent}, Bands: []float64{60}, Memory: 1 << 30, Workers: 1}
	w := build(t, t.TempDir(), datasettest.Params{Nodes: 60, AvgDegree: 4, Dim: 101, Seed: 3}.Raw(),
		presample.Options{BatchSize: 6, Fanout: []int{3, 3}, Memory: 1 << 30, Workers: 1}, po)
	defer w.close()
	for failing := range 2 {
		for n := 0; ; n++ {
			calls, before := 0, 0 // in all, and before Close
			var list []*cuda.Device
			for i := range 2 {
				list = append(list, cudatest.OpenFaulty(t, cuda.Options{}, func(call string) *cuda.Fault {
					if i != failing {
						return nil
					}
					if calls++; calls == n+1 {
						return &cuda.Fault{Why: fmt.Sprint("call ", n)}
					}
					return nil
				}))
			}
			err := func() error {
				c, err := packed.Find(vfs.OS, w.pack)
				if err != nil {
					return err
				}
				l, err := c.Plan(featurestore.PlanOptions{Memory: 1 << 30, Slots: 1, MostSlots: 1, GPU: list[0], Peers: gpus(list[1:]), GPUMemory: 1 << 30})
				if err != nil {
					return err
				}
				s, err := c.Open(newStack(t), l)
				if err != nil {
					return err
				}
				_, err = s.Fill(t.Context(), 0, progress.Discard)
				before = calls
				return errors.Join(err, s.Close())
			}()
			if before > 0 && before <= n {
				if err != nil || n < 5 {
					t.Errorf("device %d: after %d calls: %v", failing, n, err)
				}
				break
			}
			if err == nil {
				t.Errorf("device %d: call %d failed unnoticed", failing, n)
			}
		}
	}
}

// TestPeersOfMin: the cache of policy min sees all batches.
func TestPeersOfMin(t *testing.T) {
	po := pack.Options{Cache: &budget.Size{Value: 40, Unit: budget.UnitPercent}, Policy: packfile.PolicyMin, Memory: 1 << 30, Workers: 1}
	w := build(t, t.TempDir(), datasettest.Params{Nodes: 60, AvgDegree: 4, Dim: 8, Seed: 3}.Raw(),
		presample.Options{BatchSize: 6, Fanout: []int{3, 3}, Memory: 1 << 30, Workers: 1}, po)
	defer w.close()
	c, err := packed.Find(vfs.OS, w.pack)
	if err != nil {
		t.Fatal(err)
	}
	list := cudatest.OpenMachine(t, 2, false)
	_, err = c.Plan(featurestore.PlanOptions{Memory: 1 << 30, Slots: 1, GPU: list[0], Peers: gpus(list[1:]), GPUMemory: 1 << 30})
	if !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), "has the policy min") {
		t.Error(err)
	}
}
