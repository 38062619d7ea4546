package nvme

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/iostack/nvme/spec"
)

// pages returns memory of n pages with addresses that follow no rule, from a first one on.
func pages(n int, first uint64) *Memory {
	m := &Memory{Bytes: make([]byte, n*Page)}
	for i := range n {
		m.Pages = append(m.Pages, (first+uint64(i*i+i))*Page)
	}
	return m
}

// walk reads a command's PRPs as a controller does: the address of every page of n bytes of data.
func walk(t *rapid.T, c *spec.Command, n int, list *Memory) (out []uint64) {
	out = []uint64{c.PRP1()}
	left := n - (Page - int(c.PRP1()%Page))
	if left <= 0 {
		return out
	}
	if left <= Page {
		return append(out, c.PRP2())
	}
	next := func(at uint64) uint64 {
		i := slices.Index(list.Pages, at/Page*Page)
		if i < 0 {
			t.Fatalf("a list at %x, where there is none", at)
		}
		return binary.LittleEndian.Uint64(list.Bytes[i*Page+int(at%Page):])
	}
	for at := c.PRP2(); left > 0; at += 8 {
		if at%Page == Page-8 && left > Page {
			at = next(at)
		}
		out = append(out, next(at))
		left -= Page
	}
	return out
}

// PRPs of any size, also those whose lists go on in other pages, name the pages of the data,
// and lists stay within the memory that listBytes has for them.
func TestPRP(t *testing.T) {
	m := pages(1600, 1<<20)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(1, 3*Page), rapid.IntRange(1, 1500*Page), rapid.Custom(func(t *rapid.T) int {
			return rapid.SampledFrom([]int{511, 512, 513, 514, 1022, 1023, 1024, 1025}).Draw(t, "pages") * Page
		})).Draw(t, "bytes")
		offset := 4 * rapid.IntRange(0, (len(m.Bytes)-n)/4).Draw(t, "offset")
		var c spec.Command
		list := pages(listBytes(n)/Page, 1<<40)
		if err := setPRP(&c, m, offset, n, list, 0); err != nil {
			t.Fatal(err)
		}
		want := []uint64{m.Pages[offset/Page] + uint64(offset%Page)}
		for page := offset/Page + 1; page*Page < offset+n; page++ {
			want = append(want, m.Pages[page])
		}
		if got := walk(t, &c, n, list); !slices.Equal(got, want) {
			t.Fatalf("%d bytes from %d: pages %x, want %x", n, offset, got, want)
		}
	})
	// The last bytes lie on a page that a transfer from the beginning of a page would not touch.
	if n := 512*Page + 512; listBytes(n) != 2*Page || listBytes(512*Page) != Page {
		t.Errorf("lists of %d and %d bytes", listBytes(n), listBytes(512*Page))
	}
	for _, x := range []struct{ offset, n int }{{2, 512}, {-4, 512}, {0, 0}, {1600*Page - 508, 512}} {
		if err := setPRP(&spec.Command{}, m, x.offset, x.n, pages(8, 1), 0); err == nil {
			t.Errorf("%d bytes from %d are taken", x.n, x.offset)
		}
	}
}

// A transfer whose list would not fit its slot's memory is refused, and takes no slot.
func TestSubmitRefusesLargeTransfers(t *testing.T) {
	q := &Queue{c: &Controller{}, depth: 3, perSlot: listBytes(maxTransfer), slots: make([]slot, 2), free: []uint16{0}}
	m := pages(1600, 1)
	if err := q.Submit(&spec.Command{}, m, 0, 1600*Page, 0); !errors.Is(err, ErrUnsupported) || q.Room() != 1 {
		t.Errorf("%v, room %d", err, q.Room())
	}
}
