package dataset

import (
	"bytes"
	"errors"
	"testing"

	"diskgnn/internal/fault"
)

// FuzzClassNames reads names of any bytes: it finds the names that are written with these bytes, or
// none.
func FuzzClassNames(f *testing.F) {
	f.Add([]byte("cat\ndog\n"), 2)
	f.Add([]byte("\n"), 1)
	f.Add([]byte("a\na\n"), 2)
	f.Add([]byte("\xff\nb"), 2)
	f.Fuzz(func(t *testing.T, b []byte, classes int) {
		names, err := decodeClassNames(b, classes)
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) || names != nil {
				t.Fatalf("%q and %v", names, err)
			}
			return
		}
		if again, err := EncodeClassNames(names); err != nil || !bytes.Equal(again, b) || len(names) != classes {
			t.Fatalf("%q: %d names, again %q, %v", b, len(names), again, err)
		}
	})
}
