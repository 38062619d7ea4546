package phases

// Fresh has a bit for each frame: whether its row was read, and has not been used since.
type Fresh []uint64

// FreshBytes returns the memory of a Fresh for the given number of frames, in bytes.
func FreshBytes(frames int64) int64 { return 8 * ((frames + 63) / 64) }

// NewFresh returns a Fresh for the given number of frames, with all bits clear.
func NewFresh(frames int64) Fresh { return make(Fresh, (frames+63)/64) }

// Read sets the bits of the frames from lo up to hi, when their rows have been read.
func (f Fresh) Read(lo, hi int64) {
	for ; lo < hi && lo%64 != 0; lo++ {
		f[lo/64] |= 1 << (lo % 64)
	}
	for ; lo+64 <= hi; lo += 64 {
		f[lo/64] = ^uint64(0)
	}
	for ; lo < hi; lo++ {
		f[lo/64] |= 1 << (lo % 64)
	}
}

// Use clears the bit of a frame, and reports whether it was set: whether this is the first use of the row
// since it was read.
func (f Fresh) Use(frame uint32) bool {
	word, bit := &f[frame/64], uint64(1)<<(frame%64)
	first := *word&bit != 0
	*word &^= bit
	return first
}

// Forget clears all bits, so the next use of any row in RAM counts as a hit.
func (f Fresh) Forget() { clear(f) }
