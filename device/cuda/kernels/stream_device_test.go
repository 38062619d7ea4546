package kernels_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/device/cuda/kernels"
	"diskgnn/device/cuda/kernels/plain"
	"diskgnn/internal/binio"
	"diskgnn/internal/dtype"
	"diskgnn/internal/fault"
)

// TestGraphsOnDevice: a graph takes what is in memory when it is launched: rows,
// indices, and how many there are.
func TestGraphsOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	r := newRandom(1)
	const width, tableRows, most = 100, 50, 40
	table := r.table(g, dtype.Float32, tableRows, width)
	count, index := put(g, []uint32{0}), put(g, make([]uint32, most))
	a := kernels.Gather{Out: g.empty(4 * most * width), Stride: width, Table: put(g, table), Type: dtype.Float32, Width: width, Index: index,
		Rows: kernels.Count{Most: most, At: count}}
	b := kernels.ZeroPadding{X: a.Out, Stride: width, Width: width, Rows: a.Rows}
	enqueue := func() error { return errors.Join(a.Launch(g.Stream), b.Launch(g.Stream)) }
	graph, err := g.Capture("gather and pad", enqueue)
	check(t, err)
	defer graph.Free()
	if v := get[float32](g, a.Out); v[0] == v[0] {
		t.Fatal("capturing did the work")
	}
	launched := func(rows int) {
		t.Helper()
		ids := r.indices(most, tableRows)
		check(t, g.CopyIn(count, binio.Bytes([]uint32{uint32(rows)})))
		check(t, g.CopyIn(index, binio.Bytes(ids)))
		check(t, graph.Launch(g.Stream))
		want := make([]float32, most*width)
		plain.Gather(want, width, table, nil, 0, dtype.Float32, width, ids, rows)
		same(t, "launched", get[float32](g, a.Out), want)
	}
	for _, rows := range []int{0, 7, most, 20} {
		launched(rows)
	}
	// The same work on other memory.
	a.Out = g.empty(4 * most * width)
	b.X = a.Out
	check(t, graph.Update(g.Stream, enqueue))
	launched(13)

	wrong := errors.New("wrong")
	if _, err := g.Capture("nothing", func() error { return wrong }); err != wrong {
		t.Error(err)
	}
	launched(14) // the stream is as it was
}

func TestCopiesOnDevice(t *testing.T) {
	g := newGPU(t, testMemory)
	r := newRandom(2)
	const n = 1 << 20
	p, err := g.NewPinned(n)
	check(t, err)
	defer p.Free()
	host, err := device.NewHost(n)
	check(t, err)
	defer host.Free()
	q, err := g.Register(host.Bytes())
	check(t, err)
	defer q.Free()
	for i := range p.Bytes() {
		p.Bytes()[i] = byte(r.Uint32())
	}
	one, two := g.empty(n), g.empty(n)
	other, err := g.NewStream()
	check(t, err)
	defer other.Free()
	ready, err := g.NewEvent()
	check(t, err)
	defer ready.Free()
	done, err := g.NewEvent()
	check(t, err)
	defer done.Free()
	check(t, g.CopyIn(one, p.Bytes()))
	check(t, ready.Record(g.Stream))
	check(t, other.Wait(ready))
	check(t, other.Copy(two, one))
	check(t, other.CopyOut(q.Bytes(), two))
	check(t, done.Record(other))
	check(t, done.Synchronize())
	if ok, err := done.Done(); !ok || err != nil {
		t.Error(ok, err)
	}
	if took, err := done.Since(ready); took < 0 || err != nil {
		t.Error(took, err)
	}
	if !bytes.Equal(p.Bytes(), host.Bytes()) {
		t.Error("not what went in")
	}
	// Kernels read pinned memory themselves, both kinds of it.
	for _, m := range []*cuda.Pinned{p, q} {
		table, err := m.Buffer()
		check(t, err)
		check(t, g.Fill(one, 0))
		check(t, kernels.Gather{Out: one, Stride: 256, Table: table, Type: dtype.Float32, Width: 256, Rows: kernels.Rows(n / 1024)}.Launch(g.Stream))
		if !bytes.Equal(get[uint8](g, one), m.Bytes()) {
			t.Error("not what pinned memory holds")
		}
	}
	if on, pinned := g.Held(); on != testMemory || pinned != 2*n {
		t.Errorf("%d and %d bytes held", on, pinned)
	}
	_, err = g.NewArena(1)
	if !errors.Is(err, fault.ErrBudget) {
		t.Errorf("beyond the budget: %v", err)
	}
}

// TestFaultOnDevice: a kernel that reads where nothing is becomes an error that names
// it, and so does all that follows. The device is lost to the process, so another one
// does it.
func TestFaultOnDevice(t *testing.T) {
	const asked = "DISKGNN_TEST_FAULT"
	if os.Getenv(asked) == "" {
		g := newGPU(t, 1<<20)
		g.arena.Free()
		for _, mode := range []string{"later", "synchronous"} {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFaultOnDevice$", "-test.v")
			cmd.Env = append(os.Environ(), asked+"="+mode)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "--- PASS: TestFaultOnDevice") {
				t.Errorf("%s: %v\n%s", mode, err, out)
			}
			t.Logf("%s: %s", mode, out)
		}
		g.arena, _ = g.Device.NewArena(0)
		return
	}
	synchronous := os.Getenv(asked) == "synchronous"
	d, err := kernels.Open(0, cuda.Options{Synchronous: synchronous})
	check(t, err)
	defer d.Close()
	detach, err := d.Attach()
	check(t, err)
	defer detach()
	s, err := d.NewStream()
	check(t, err)
	memory, err := d.NewArena(1 << 20)
	check(t, err)
	b, err := memory.Take(4096)
	check(t, err)
	check(t, s.Fill(b, 0x7F)) // indices of nothing
	out, err := memory.Take(512)
	check(t, err)
	err = kernels.Gather{Out: out, Stride: 1024, Width: 4, Table: b, Type: dtype.Int8, Index: b, Rows: kernels.Rows(1)}.Launch(s)
	if !synchronous {
		check(t, err)
		err = s.Synchronize()
	}
	if !errors.Is(err, fault.ErrDevice) || !strings.Contains(err.Error(), "gather") {
		t.Fatalf("%v", err)
	}
	fmt.Println(err)
	for _, next := range []error{s.Fill(b, 0), s.Synchronize(), s.Copy(b, b)} {
		if next == nil || next.Error() != err.Error() {
			t.Errorf("afterwards: %v", next)
		}
	}
	if _, next := d.NewStream(); !errors.Is(next, fault.ErrDevice) {
		t.Errorf("afterwards: %v", next)
	}
	memory.Free()
}
