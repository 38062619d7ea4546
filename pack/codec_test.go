package pack

import (
	"bytes"
	"testing"
)

// TestChooseCodec decides by hand-made measurements.
func TestChooseCodec(t *testing.T) {
	for _, c := range []struct {
		drive      float64
		s2, zstd   codecMeasure
		cores      int
		want, says string
	}{
		{1e9, codecMeasure{ratio: 0.5, decode: 4e9}, codecMeasure{ratio: 0.4, decode: 1e9}, 1, "s2", "2.00"},   // zstd decodes as slowly as the drive reads
		{1e9, codecMeasure{ratio: 0.5, decode: 4e9}, codecMeasure{ratio: 0.4, decode: 1e9}, 4, "zstd", "2.50"}, // four cores do not
		{1e9, codecMeasure{ratio: 0.5, decode: 2e9}, codecMeasure{ratio: 0.4, decode: 2e9}, 1, "zstd", "2.00"}, // as fast, and smaller
		{1e9, codecMeasure{ratio: 1, decode: 9e9}, codecMeasure{ratio: 0.96, decode: 9e9}, 4, "none", "1.04"},  // not worth it
		{9e9, codecMeasure{ratio: 0.1, decode: 4e9}, codecMeasure{ratio: 0.1, decode: 1e9}, 2, "none", "1.00"}, // a drive faster than decoding
	} {
		c.s2.codec, c.zstd.codec = "s2", "zstd"
		m := codecMeasures{drive: c.drive, of: []codecMeasure{c.s2, c.zstd}}
		if got := m.choose(c.cores); got != c.want || !bytes.Contains([]byte(m.String()), []byte(c.says)) {
			t.Errorf("%+v: %s, %s", c, got, m.String())
		}
	}
}
