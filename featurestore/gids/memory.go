package gids

import (
	"unsafe"

	"diskgnn/device"
	"diskgnn/internal/binio"
)

// carver cuts one piece of memory into page-aligned parts. Without memory it only counts, so the same code
// computes the size and takes the memory.
type carver struct {
	mem  []byte // zeroed
	used int64
}

// carve allocates memory for all parts that lay takes, and calls lay with it.
func carve(lay func(c *carver)) (*device.Host, error) {
	host, err := device.NewHost(int(carved(lay)))
	if err != nil {
		return nil, err
	}
	lay(&carver{mem: host.Bytes()})
	return host, nil
}

// carved returns the bytes that lay takes.
func carved(lay func(c *carver)) int64 {
	c := new(carver)
	lay(c)
	return c.used
}

// list returns the next part, as n numbers, or nil if c only counts.
func list[T binio.Number](c *carver, n int) []T {
	var v T
	bytes := int64(n) * int64(unsafe.Sizeof(v))
	at := c.used
	c.used += binio.AlignUp(bytes, device.PageSize)
	if c.mem == nil {
		return nil
	}
	return binio.View[T](c.mem[at : at+bytes : at+bytes])
}
