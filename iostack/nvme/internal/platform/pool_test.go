package platform

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"diskgnn/iostack/nvme"
)

// numbered is a source whose pages have numbers for addresses: consecutive ones within a run
// of nvme.Contiguous bytes, with a gap between runs.
type numbered struct {
	next   uint64
	chunks map[*nvme.Memory]bool
	full   bool
}

var errFull = errors.New("no memory")

func (s *numbered) Grow(n int) (*nvme.Memory, error) {
	if s.full {
		return nil, errFull
	}
	m := &nvme.Memory{Bytes: make([]byte, n)}
	for at := 0; at < n; at += nvme.Page {
		if at%nvme.Contiguous == 0 {
			s.next += 3
		}
		m.Pages = append(m.Pages, s.next*nvme.Page)
		s.next++
	}
	s.chunks[m] = true
	return m, nil
}

func (s *numbered) Shrink(m *nvme.Memory) error {
	if !s.chunks[m] {
		return errors.New("a chunk that the source did not make")
	}
	delete(s.chunks, m)
	return nil
}

// Whatever is taken and given back: memory is zeroed, of whole pages, contiguous up to
// nvme.Contiguous bytes, and no page is handed out twice.
func TestPool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &numbered{chunks: map[*nvme.Memory]bool{}}
		p := NewPool("drive", s)
		var live []*nvme.Memory
		owner := map[uint64]bool{}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(live) > 0 && rapid.Bool().Draw(t, "give") {
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				m := live[i]
				live = append(live[:i], live[i+1:]...)
				for _, page := range m.Pages {
					delete(owner, page)
				}
				if err := p.Give(m); err != nil {
					t.Fatal(err)
				}
				if p.Give(m) == nil {
					t.Fatal("given back twice")
				}
				continue
			}
			n := rapid.OneOf(rapid.IntRange(1, 3*nvme.Page), rapid.IntRange(1, 2*nvme.Contiguous)).Draw(t, "bytes")
			m, err := p.Take(n)
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Bytes) < n || len(m.Bytes) >= n+nvme.Page || len(m.Bytes) != len(m.Pages)*nvme.Page {
				t.Fatalf("%d bytes: got %d in %d pages", n, len(m.Bytes), len(m.Pages))
			}
			for i, page := range m.Pages {
				if owner[page] {
					t.Fatalf("page %x has two owners", page)
				}
				owner[page] = true
				if i > 0 && n <= nvme.Contiguous && page != m.Pages[i-1]+nvme.Page {
					t.Fatalf("%d bytes are not contiguous", n)
				}
			}
			for i := 0; i < len(m.Bytes); i += 512 {
				if m.Bytes[i] != 0 {
					t.Fatal("memory is not zero")
				}
				m.Bytes[i] = 1
			}
			live = append(live, m)
		}
		if err := p.Close(); err != nil || len(s.chunks) > 0 {
			t.Fatalf("%v, %d chunks are left", err, len(s.chunks))
		}
	})
}

// 512 rings of a page are one chunk; a large piece is its own, and goes back by itself.
func TestChunks(t *testing.T) {
	s := &numbered{chunks: map[*nvme.Memory]bool{}}
	p := NewPool("drive", s)
	for range nvme.Contiguous / nvme.Page {
		if _, err := p.Take(1); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.chunks) != 1 {
		t.Errorf("%d chunks", len(s.chunks))
	}
	large, err := p.Take(nvme.Contiguous + 1)
	if err != nil || len(s.chunks) != 2 {
		t.Fatal(err, len(s.chunks))
	}
	if err := p.Give(large); err != nil || len(s.chunks) != 1 {
		t.Error(err, len(s.chunks))
	}
	s.full = true
	if _, err := p.Take(1); !errors.Is(err, errFull) {
		t.Error(err)
	}
	if _, err := p.Take(0); err == nil {
		t.Error("no bytes at all")
	}
}

// Memory that a transport maps by itself is given back once: when it is freed, or at the end.
func TestKeep(t *testing.T) {
	p := NewPool("drive", &numbered{chunks: map[*nvme.Memory]bool{}})
	back := [2]int{}
	var kept [2]*nvme.Memory
	for i := range kept {
		kept[i] = &nvme.Memory{}
		p.Keep(kept[i], func() error { back[i]++; return errFull })
	}
	if err := p.Give(kept[1]); !errors.Is(err, errFull) || back != [2]int{0, 1} {
		t.Error(err, back)
	}
	if err := p.Give(kept[1]); err == nil || err.Error() != "cannot free memory that drive did not allocate" {
		t.Error(err)
	}
	if err := p.Close(); !errors.Is(err, errFull) || back != [2]int{1, 1} {
		t.Error(err, back)
	}
	if err := p.Close(); err != nil || back != [2]int{1, 1} {
		t.Error(err, back)
	}
}
