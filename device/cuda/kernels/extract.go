package kernels

import "diskgnn/device/cuda"

// Extract copies rows of RowBytes bytes, unchanged, from any even offsets of a source:
//
//	Out[To[i]], or Out[i] without To = RowBytes bytes of Source, from byte From[i] on
//
// It extracts rows from the pages that were read for them. The values in To must be distinct.
type Extract struct {
	Out      cuda.Buffer // rows, one after the other
	To       cuda.Buffer // uint32; may be none
	Source   cuda.Buffer
	RowBytes int         // even
	From     cuda.Buffer // uint64, even; multiples of Step
	Step     int         // a known common divisor of all values in From; 0: 2
	Rows     Count
}

// Launch enqueues the kernel on the stream. An odd RowBytes or Step, or a buffer too small for Rows, is an
// error. The size of Source, the values in From and To, and addresses are not checked.
func (a Extract) Launch(s *cuda.Stream) error {
	l := begin(s, "extract")
	if a.RowBytes%2 != 0 || a.Step%2 != 0 {
		l.Fail("rows of %d bytes at multiples of %d bytes: both must be even", a.RowBytes, a.Step)
	}
	if bytes := int64(a.Rows.Most) * int64(a.RowBytes); a.To == (cuda.Buffer{}) {
		l.Buffer("the rows", a.Out, bytes)
	} else {
		l.Buffer("the rows", a.Out, 0)
	}
	l.Optional("the destinations of the rows", a.To, 4*int64(a.Rows.Most))
	l.Buffer("the source", a.Source, 0)
	l.Int(a.RowBytes)
	l.Buffer("the offsets of the rows", a.From, 8*int64(a.Rows.Most))
	l.count(a.Rows)
	return l.rows(extract, a.Rows.Most, a.RowBytes/2, a.unit())
}

// unit returns how many pairs of bytes a thread may take at once.
func (a *Extract) unit() int {
	if a.Step == 0 || (uint64(a.RowBytes)|uint64(a.Step)|a.Out.Address()|a.Source.Address())%8 != 0 {
		return 1
	}
	return 4
}
