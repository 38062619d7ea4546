package iostack

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// disk notes which files are open.
type disk struct {
	mu    sync.Mutex
	names []string // in the order of their opening
	calls int      // of open
	fail  error    // of closing
}

type file struct {
	File
	on   *disk
	name string
}

func (d *disk) open(name string) (File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if name == "missing" {
		return nil, errors.New("no such file")
	}
	if slices.Contains(d.names, name) {
		return nil, fmt.Errorf("%s is open already", name)
	}
	d.names = append(d.names, name)
	return &file{on: d, name: name}, nil
}

func (f *file) Close() error {
	d := f.on
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(d.names, f.name)
	if i < 0 {
		return fmt.Errorf("%s is not open", f.name)
	}
	d.names = slices.Delete(d.names, i, i+1)
	return d.fail
}

func (d *disk) String() string { return strings.Join(d.names, " ") }

// With two idle files kept, the third that becomes idle closes the first.
func TestByHand(t *testing.T) {
	var d disk
	c := NewFileCache[int](d.open, 2)
	take := func(name string) *CachedFile[int] {
		t.Helper()
		f, err := c.Take(name)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	give := func(f *CachedFile[int], open string) {
		t.Helper()
		if err := c.Give(f); err != nil || d.String() != open {
			t.Fatalf("open are %v, %v; want %s", &d, err, open)
		}
	}
	a, b, e, again := take("a"), take("b"), take("e"), take("a")
	if a != again || b == e {
		t.Error("a name is not a file")
	}
	a.Note = 7
	give(a, "a b e")
	give(b, "a b e")
	give(e, "a b e")
	give(again, "a e") // idle: b e a
	give(nil, "a e")
	give(take("e"), "a e") // idle: a e
	if f := take("b"); f.Note != 0 || f == b {
		t.Error("a file that was opened again is the old one")
	} else {
		give(f, "e b")
	}
	if f := take("a"); f.Note != 0 {
		t.Errorf("the new file has the old one's note, %d", f.Note)
	}
	if _, err := c.Take("missing"); err == nil || d.calls != 6 {
		t.Errorf("%v after %d openings, want an error after 6", err, d.calls)
	}
	if err := c.Close(); err != nil || len(d.names) != 0 {
		t.Errorf("closed: open are %v, %v", &d, err)
	}
}

func TestErrorsOfClosing(t *testing.T) {
	d := disk{fail: errors.New("boom")}
	c := NewFileCache[int](d.open, 0)
	f, err := c.Take("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Give(f); !errors.Is(err, d.fail) {
		t.Error(err)
	}
	if _, err = c.Take("b"); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); !errors.Is(err, d.fail) {
		t.Error(err)
	}
}

// Whatever is taken and given: a file with users is open, others are those that became idle
// last, and none is opened twice.
func TestAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d disk
		most := rapid.IntRange(0, 3).Draw(t, "most")
		c := NewFileCache[struct{}](d.open, most)
		var taken []*CachedFile[struct{}]
		var idle []string // the plain reference: names, the longest idle first
		users := func(name string) (n int) {
			for _, f := range taken {
				if f.name == name {
					n++
				}
			}
			return n
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(taken) > 0 && rapid.Bool().Draw(t, "give") {
				i := rapid.IntRange(0, len(taken)-1).Draw(t, "which")
				f := taken[i]
				taken = slices.Delete(taken, i, i+1)
				if err := c.Give(f); err != nil {
					t.Fatal(err)
				}
				if users(f.name) == 0 {
					idle = append(idle, f.name)
					idle = idle[max(0, len(idle)-most):]
				}
			} else {
				name := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f"}).Draw(t, "name")
				f, err := c.Take(name)
				if err != nil {
					t.Fatal(err)
				}
				taken = append(taken, f)
				idle = slices.DeleteFunc(idle, func(n string) bool { return n == name })
			}
			want := slices.Clone(idle)
			for _, f := range taken {
				want = append(want, f.name)
			}
			slices.Sort(want)
			got := slices.Sorted(slices.Values(d.names))
			if !slices.Equal(got, slices.Compact(want)) {
				t.Fatalf("open are %v, want %v", got, want)
			}
		}
	})
}

// Users of many goroutines share files.
func TestConcurrentUsers(t *testing.T) {
	var d disk
	c := NewFileCache[sync.Mutex](d.open, 1)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				f, err := c.Take(string(rune('a' + (g+i)%4)))
				if err == nil {
					err = c.Give(f)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if len(d.names) != 1 {
		t.Errorf("open are %v", &d)
	}
}
