package budget

import (
	"errors"
	"strings"
	"testing"
)

func TestAvailable(t *testing.T) {
	says := func(n uint64) func() (uint64, error) { return func() (uint64, error) { return n, nil } }
	fails := func() (uint64, error) { return 7, errors.New("none") }
	for i, c := range []struct {
		cgroup, machine func() (uint64, error)
		bytes           int64
		of              string
	}{
		{says(4 << 30), says(8 << 30), 4 << 30, "the cgroup's 4.00 GiB"},
		{says(8 << 30), says(8 << 30), 8 << 30, "the machine's 8.00 GiB"},
		{says(1 << 62), says(8 << 30), 8 << 30, "the machine's 8.00 GiB"}, // version 1 says so of no limit
		{says(0), says(8 << 30), 8 << 30, "the machine's 8.00 GiB"},
		{fails, says(8 << 30), 8 << 30, "the machine's 8.00 GiB"},
		{says(4 << 30), fails, 4 << 30, "the cgroup's 4.00 GiB"},
		{says(1 << 60), fails, 0, ""},
		{says(1<<60 - 1), fails, 1<<60 - 1, "the cgroup's 1048576.00 TiB"},
		{fails, fails, 0, ""},
	} {
		if bytes, of := available(c.cgroup, c.machine); bytes != c.bytes || of != c.of && bytes > 0 {
			t.Errorf("%d: %d, %q", i, bytes, of)
		}
		for memory, more := range map[int64]bool{c.bytes: false, c.bytes + 1: c.bytes > 0} {
			if of := beyond(memory, c.cgroup, c.machine); (of != "") != more || more && of != c.of {
				t.Errorf("%d: beyond %d: %q", i, memory, of)
			}
		}
	}
	if Beyond(1) != "" {
		t.Errorf("a byte is more than %s", Beyond(1))
	}
	bytes, of := share(available(fails, fails))
	if bytes != 3435973836 || of != "the machine's 4.00 GiB" {
		t.Errorf("where nothing is known: %d of %s", bytes, of)
	}
	if bytes, of = share(1000, "x"); bytes != 800 || of != "x" {
		t.Errorf("of 1000: %d of %s", bytes, of)
	}
	bytes, of = Default()
	if bytes <= 0 || !strings.Contains(of, "'s ") || Beyond(bytes) != "" {
		t.Errorf("%d of %s", bytes, of)
	}
}
