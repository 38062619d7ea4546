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
		{Auto, iostack.Options{}, "pread: 16 workers, O_DIRECT where the file system takes it"},
		{"pread", iostack.Options{Workers: 3, Direct: iostack.DirectNever}, "pread: 3 workers, buffered"},
		{"pread", iostack.Options{Workers: 1, Direct: iostack.DirectAlways}, "pread: 1 workers, O_DIRECT"},
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

func TestOpenRefusals(t *testing.T) {
	for _, c := range []struct {
		kind    string
		options iostack.Options
		want    string // in the message
	}{
		{"uring", iostack.Options{}, "not in this build"},
		{"floppy", iostack.Options{}, "auto, pread"},
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
	if kinds := Kinds(); !slices.Equal(kinds, []string{"auto", "pread"}) {
		t.Errorf("kinds are %q", kinds)
	}
	for _, kind := range Kinds() {
		s, _, err := Open(kind, iostack.Options{Workers: 1})
		if err != nil {
			t.Fatalf("Open(%q): %v", kind, err)
		}
		s.Close()
	}
}
