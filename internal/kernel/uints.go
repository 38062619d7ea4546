package kernel

// WidenUints fills dst with the numbers of src.
func WidenUints(dst []int64, src []uint32) {
	dst = dst[:len(src)]
	n := 0
	if level != plain {
		n = widenUintsSIMD(dst, src)
	}
	widenUintsPlain(dst[n:], src[n:])
}

func widenUintsPlain(dst []int64, src []uint32) {
	for i, v := range src {
		dst[i] = int64(v)
	}
}

// FillRuns fills dst with the number of the run of each element: ends[i] is the end of run i in dst, and run 0 begins at 0.
func FillRuns(dst []int64, ends []uint32) {
	const step = 4 // most runs are short: they take one or two steps, without a branch for each element
	at := uint32(0)
	for i, end := range ends {
		if int(end)+step <= len(dst) {
			for ; at < end; at += step { // beyond the end: the next runs write there again
				four := dst[at:][:step]
				four[0], four[1], four[2], four[3] = int64(i), int64(i), int64(i), int64(i)
			}
		} else {
			for ; at < end; at++ {
				dst[at] = int64(i)
			}
		}
		at = end
	}
}
