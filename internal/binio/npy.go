package binio

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// NPYHeader returns the header of a .npy file, version 1 of NumPy's format. descr is the type of the
// elements, such as <f4. The header is padded so that the elements begin at a multiple of 64 bytes.
func NPYHeader(descr string, shape []int64) []byte {
	dims := make([]string, len(shape))
	for i, d := range shape {
		dims[i] = strconv.FormatInt(d, 10)
	}
	tuple := strings.Join(dims, ", ")
	if len(shape) == 1 {
		tuple += ","
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple)
	const fixed, align = 10, 64
	text += strings.Repeat(" ", align-1-(fixed+len(text))%align) + "\n"
	b := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(text)))
	return append(b, text...)
}
