package pack

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"diskgnn/pack/packfile"
)

// TestMeasureCodecRatio: chunks that do not shrink are stored as they are, others as their
// frames.
func TestMeasureCodecRatio(t *testing.T) {
	noise := make([]byte, 1000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	for _, codec := range codecs[1:] {
		m, err := measureCodec(codec, [][]byte{noise, noise})
		if err != nil || m.codec != codec || m.ratio != 1 || m.decode <= 0 {
			t.Errorf("%s: noise: %+v, %v", codec, m, err)
		}
		e, err := packfile.NewFrameEncoder(codec)
		if err != nil {
			t.Fatal(err)
		}
		zeros := make([]byte, 1000)
		frame := e.Encode(nil, zeros)
		if m, err = measureCodec(codec, [][]byte{zeros, noise}); err != nil || m.ratio != float64(len(frame)+1000)/2000 {
			t.Errorf("%s: zeros of %d bytes, and noise: %+v, %v", codec, len(frame), m, err)
		}
		if bytes.Equal(frame, zeros) {
			t.Errorf("%s: zeros do not shrink", codec)
		}
	}
}
