// Package radix sorts numbers that carry other numbers along.
package radix

// Sort orders key ascending, carrying val along; both tmp slices are
// scratch of the same length. Bytes that all keys share cost one counting pass.
func Sort(key, keyTmp []uint64, val, valTmp []uint32) {
	n := len(key)
	src, dst, sv, dv := key, keyTmp[:n], val[:n], valTmp[:n]
	for shift := 0; shift < 40; shift += 8 {
		var at [256]int
		for _, k := range src {
			at[byte(k>>shift)]++
		}
		if n == 0 || at[byte(src[0]>>shift)] == n {
			continue
		}
		sum := 0
		for i, c := range at {
			at[i], sum = sum, sum+c
		}
		for i, k := range src {
			p := &at[byte(k>>shift)]
			dst[*p], dv[*p] = k, sv[i]
			*p++
		}
		src, dst, sv, dv = dst, src, dv, sv
	}
	if n > 0 && &src[0] != &key[0] {
		copy(key, src)
		copy(val, sv)
	}
}
