package all

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/iostack"
)

func TestOpenSaysWhatItTook(t *testing.T) {
	for _, c := range []struct {
		kind    string
		options iostack.Options
		want    string
	}{
		{Auto, iostack.Options{Direct: iostack.DirectNever}, "pread: 16 workers, buffered; no uring: buffered reads are faster with pread"},
		{"pread", iostack.Options{Workers: 3, Direct: iostack.DirectNever}, "pread: 3 workers, buffered"},
		{"pread", iostack.Options{Workers: 1, Direct: iostack.DirectAlways}, "pread: 1 worker, O_DIRECT"},
	} {
		s, reason, err := Open(c.kind, c.options)
		if err != nil {
			t.Fatal(err)
		}
		if s.Name() != "pread" || reason != c.want {
			t.Errorf("Open(%q): %s, %q, want %q", c.kind, s.Name(), reason, c.want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAutoTakesTheBest takes io_uring where it works and says what is wrong
// where it does not.
func TestAutoTakesTheBest(t *testing.T) {
	auto, reason, err := Open(Auto, iostack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer auto.Close()
	s, named, refused := Open("uring", iostack.Options{})
	if refused != nil {
		if want := "; no uring: "; auto.Name() != "pread" || !strings.HasPrefix(reason, "pread: ") || !strings.Contains(reason, want) {
			t.Errorf("uring is refused (%v), auto says %q", refused, reason)
		}
		return
	}
	defer s.Close()
	if want := "uring: 16 reads in flight, O_DIRECT where the file system takes it"; auto.Name() != "uring" || reason != want || named != want {
		t.Errorf("auto takes %s: %q, want %q", auto.Name(), reason, want)
	}
}

// TestCuFileSaysWhyNot: what is named and cannot be had is the user's to change.
func TestCuFileSaysWhyNot(t *testing.T) {
	s, reason, err := Open("cufile", iostack.Options{})
	if err == nil {
		defer s.Close()
		if !s.Caps().Device || !strings.Contains(reason, "GPUDirect Storage: ") {
			t.Errorf("%+v, %q", s.Caps(), reason)
		}
		return
	}
	if !errors.Is(err, fault.ErrUsage) || !strings.HasPrefix(err.Error(), "open the cufile I/O backend: GPUDirect Storage is unavailable: ") {
		t.Error(err)
	}
}

func TestOpenRefusals(t *testing.T) {
	for _, c := range []struct {
		kind    string
		options iostack.Options
		want    string // in the message
	}{
		{"floppy", iostack.Options{}, "auto, uring, pread, cufile"},
		{"", iostack.Options{}, "no such I/O backend"},
		{Auto, iostack.Options{Workers: -1}, "workers"},
		{"pread", iostack.Options{MaxIO: 5000}, "multiple of 4096"},
		{"pread", iostack.Options{Direct: 9}, "direct I/O"},
	} {
		s, _, err := Open(c.kind, c.options)
		if !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Open(%q, %+v): %v, want a usage error with %q", c.kind, c.options, err, c.want)
		}
		if s != nil {
			t.Errorf("Open(%q, %+v) returned a stack with its error", c.kind, c.options)
		}
	}
}

func TestKindsCanBeOpened(t *testing.T) {
	if kinds := Kinds(); !slices.Equal(kinds, []string{"auto", "uring", "pread", "cufile"}) {
		t.Errorf("kinds are %q", kinds)
	}
	for _, kind := range Kinds() {
		s, _, err := Open(kind, iostack.Options{Workers: 1})
		if (kind == "uring" || kind == "cufile") && err != nil {
			t.Log(err) // TestAutoTakesTheBest and TestCuFileSaysWhyNot look at it
			continue
		}
		if err != nil {
			t.Fatalf("Open(%q): %v", kind, err)
		}
		s.Close()
	}
}
