package phased

// Fresh knows of frames whether their rows were used since they were read: a bit each.
type Fresh []uint64

// FreshBytes returns the memory of the bits of that number of frames, in bytes.
func FreshBytes(frames int64) int64 { return 8 * ((frames + 63) / 64) }

// NewFresh returns the bits of frames, none of which has a row that was read.
func NewFresh(frames int64) Fresh { return make(Fresh, (frames+63)/64) }

// Read says that the rows of the frames from lo up to hi were read.
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

// Use says that the row of a frame is used, and reports whether that is the first time.
func (f Fresh) Use(frame uint32) bool {
	word, bit := &f[frame/64], uint64(1)<<(frame%64)
	first := *word&bit != 0
	*word &^= bit
	return first
}

// Forget clears all bits, as if no row had been read: the first use of a row in RAM then counts as a
// hit.
func (f Fresh) Forget() { clear(f) }
