package packfile

import (
	"bytes"
	"errors"
	"testing"

	"diskgnn/internal/fault"
)

var codecs = []string{CodecS2, CodecZstd}

func frameOf(t testing.TB, codec string, rows []byte) []byte {
	t.Helper()
	e, err := NewFrameEncoder(codec)
	if err != nil {
		t.Fatal(err)
	}
	return e.Encode(nil, rows)
}

func TestFrames(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), 3*FrameBytes/16) // of a single row
	for _, codec := range codecs {
		d, err := NewFrameDecoder(codec, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		for _, rows := range [][]byte{{1}, make([]byte, 1000), long} {
			frame := frameOf(t, codec, rows)
			if len(frame) > MaxFrame(len(rows)) {
				t.Errorf("%s: %d bytes became %d", codec, len(rows), len(frame))
			}
			got := make([]byte, len(rows))
			if err := d.Decode(got, frame); err != nil || !bytes.Equal(got, rows) {
				t.Errorf("%s: %d bytes came back otherwise: %v", codec, len(rows), err)
			}
			for _, bad := range [][]byte{frame[:len(frame)-1], append(frame[:len(frame):len(frame)], 7), nil} {
				if err := d.Decode(got, bad); !errors.Is(err, fault.ErrCorrupt) {
					t.Errorf("%s: a wrong frame of %d bytes: %v", codec, len(bad), err)
				}
			}
			if err := d.Decode(make([]byte, len(rows)+1), frame); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s: a frame of another length: %v", codec, err)
			}
		}
		rows, out := make([]byte, 4096), make([]byte, 4096)
		frame := frameOf(t, codec, rows)
		if n := testing.AllocsPerRun(100, func() { _ = d.Decode(out, frame) }); n > 0 {
			t.Errorf("%s: decoding allocates %v times", codec, n)
		}
	}
	if _, err := NewFrameDecoder("lz4", 1); !errors.Is(err, fault.ErrVersion) {
		t.Error("an unknown codec:", err)
	}
	if _, err := NewFrameEncoder("lz4"); !errors.Is(err, fault.ErrVersion) {
		t.Error("an unknown codec:", err)
	}
}

// FuzzFrame decodes whatever is given: to as many bytes as are expected, or an error.
func FuzzFrame(f *testing.F) {
	for _, codec := range codecs {
		f.Add(frameOf(f, codec, make([]byte, 300)), uint16(300))
		f.Add(frameOf(f, codec, []byte("rows of some batch")), uint16(18))
	}
	var decoders []*FrameDecoder
	for _, codec := range codecs {
		d, err := NewFrameDecoder(codec, 1)
		if err != nil {
			f.Fatal(err)
		}
		decoders = append(decoders, d)
	}
	f.Fuzz(func(t *testing.T, frame []byte, n uint16) {
		mem := make([]byte, int(n)+16)
		for _, d := range decoders {
			err := d.Decode(mem[:n], frame)
			if err != nil && !errors.Is(err, fault.ErrCorrupt) {
				t.Fatal(err)
			}
			if !bytes.Equal(mem[n:], make([]byte, 16)) {
				t.Fatal("wrote beyond its rows")
			}
		}
	})
}
