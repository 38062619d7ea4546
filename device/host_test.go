package device

import (
	"errors"
	"math"
	"strconv"
	"testing"
	"unsafe"

	"diskgnn/internal/fault"
)

func TestHostIsAlignedZeroedAndExact(t *testing.T) {
	before := HostBytes()
	for _, n := range []int{0, 1, 4, 4095, 4096, 4097, 1<<20 + 3} {
		h, err := NewHost(n)
		if err != nil {
			t.Fatal(err)
		}
		b := h.Bytes()
		if len(b) != n || cap(b) != n || h.Len() != n {
			t.Fatalf("NewHost(%d): len %d, cap %d, Len %d", n, len(b), cap(b), h.Len())
		}
		if at := uintptr(unsafe.Pointer(unsafe.SliceData(b))); n > 0 && at%PageSize != 0 {
			t.Errorf("NewHost(%d) lies at %#x", n, at)
		}
		for i, v := range b {
			if v != 0 {
				t.Fatalf("NewHost(%d): byte %d is %d", n, i, v)
			}
		}
		if held, want := HostBytes()-before, int64((n+PageSize-1)/PageSize*PageSize); held != want {
			t.Errorf("NewHost(%d) holds %d bytes, want %d", n, held, want)
		}
		h.Free()
		h.Free()
		if held := HostBytes() - before; held != 0 {
			t.Errorf("NewHost(%d): %d bytes held after Free", n, held)
		}
		if h.Len() != 0 || len(h.Bytes()) != 0 {
			t.Errorf("NewHost(%d): not empty after Free", n)
		}
	}
}

func TestHostViewsAliasTheBytes(t *testing.T) {
	h, err := NewHost(10)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Free()
	f, u := h.Float32s(), h.Uint32s()
	if len(f) != 2 || len(u) != 2 {
		t.Fatalf("10 bytes hold %d float32 and %d uint32, want 2 and 2", len(f), len(u))
	}
	f[1] = 1.5
	if u[1] != math.Float32bits(1.5) {
		t.Errorf("uint32 view reads %#x", u[1])
	}
	clear(h.Bytes()[4:8])
	if f[1] != 0 {
		t.Errorf("float32 view reads %v after clearing the bytes", f[1])
	}
}

func TestHostRefusesImpossibleSizes(t *testing.T) {
	before := HostBytes()
	sizes := []int{-1, math.MinInt, math.MaxInt}
	if strconv.IntSize == 64 {
		sizes = append(sizes, math.MaxInt-PageSize) // a size, but no machine has it
	}
	for _, n := range sizes {
		if _, err := NewHost(n); !errors.Is(err, fault.ErrBudget) {
			t.Errorf("NewHost(%d): %v, want fault.ErrBudget", n, err)
		}
	}
	if held := HostBytes() - before; held != 0 {
		t.Errorf("%d bytes held after refusals", held)
	}
}

// Preferring a node, also one that is not there, changes nothing but where pages lie.
func TestHostPrefersANode(t *testing.T) {
	h, err := NewHost(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Free()
	for _, node := range []int{-1, 0, 1000, 1 << 20} {
		h.Prefer(node)
	}
	for i := range h.Bytes() {
		h.Bytes()[i]++
	}
}
