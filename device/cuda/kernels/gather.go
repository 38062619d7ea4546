package kernels

import (
	"diskgnn/device/cuda"
	"fmt"

	"diskgnn/internal/dtype"
)

// Gather copies rows of a table, widened to float32:
//
//	Out[i] = Table[Index[i]], or Table[i] without an Index
//
// A table may be cut in two: Far holds its rows from Near on, and may be in pinned host memory.
type Gather struct {
	Out    cuda.Buffer // float32
	Stride int         // stride of the rows of Out, in floats; at least Width
	Table  cuda.Buffer // rows in the form of packs, Type.RowBytes(Width) bytes each
	Type   dtype.Type
	Width  int         // elements of a row
	Index  cuda.Buffer // uint32; may be none
	Far    cuda.Buffer // may be none
	Near   int         // number of rows of Table, if there is Far
	// Parts has one address (uint64) for each device if several devices share the rows of Table, or its
	// rows below Near. Row r is row r / Devices of the part r % Devices. Table is then the device's own
	// part. All parts have its alignment.
	Parts   cuda.Buffer // may be none
	Devices int
	Rows    Count
}

// Launch enqueues the work on the stream. A buffer that is too small is an error; the sizes of buffers
// that are read by indices are not checked.
func (a Gather) Launch(s *cuda.Stream) error {
	var k compiled
	switch a.Type {
	case dtype.Float32:
		k = gatherFloat32
	case dtype.Float16:
		k = gatherFloat16
	case dtype.BFloat16:
		k = gatherBFloat16
	case dtype.Int8:
		k = gatherInt8
	case dtype.Int4:
		k = gatherInt4
	default:
		return fmt.Errorf("kernels: gather: rows of the unknown element type %q", a.Type)
	}
	l := begin(s, "gather")
	rowBytes := a.Type.RowBytes(a.Width)
	l.matrix("the output", a.Out, a.Rows.Most, a.Width, a.Stride)
	switch {
	case a.Parts != cuda.Buffer{}:
		if a.Devices < 1 {
			l.Fail("a table divided among %d devices", a.Devices)
		}
		l.Buffer("the table", a.Table, 0)
	case a.Far != cuda.Buffer{}:
		l.Buffer("the table", a.Table, int64(a.Near)*int64(rowBytes))
	case a.Index == cuda.Buffer{}:
		l.Buffer("the table", a.Table, int64(a.Rows.Most)*int64(rowBytes))
	default:
		l.Buffer("the table", a.Table, 0)
	}
	l.Optional("the table's far rows", a.Far, 0)
	l.Int(a.Near)
	l.Int(rowBytes)
	l.Optional("the table's parts", a.Parts, 8*int64(a.Devices))
	l.Int(a.Devices)
	l.Optional("the index", a.Index, 4*int64(a.Rows.Most))
	l.Int(a.Width)
	l.count(a.Rows)
	return l.rows(k, a.Rows.Most, a.Width, a.unit())
}

// unit returns the number of elements that a thread may take at once. Four elements of a narrow type need
// less alignment than four floats.
func (a *Gather) unit() int {
	if four := 4 * uint64(a.Type.Bits()) / 8; a.Table.Address()%four != 0 || a.Far.Address()%four != 0 {
		return 1
	}
	return unit([]int{a.Width, a.Stride}, a.Out)
}
