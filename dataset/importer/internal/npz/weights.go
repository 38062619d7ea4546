package npz

// mostWeights bounds the elements of an array that OnlyOnes looks at.
const mostWeights = 1 << 24

// Weighted reports whether the archive has an array key with a value other than one: the values of a
// sparse adjacency matrix are then weights of edges. An array that is too long to look at whole, or
// cannot be read, counts as weights.
func (z *Archive) Weighted(key string) bool {
	if !z.Has(key) {
		return false
	}
	ones := false
	err := z.Header(key, func(a *Array) error {
		ones = a.OnlyOnes()
		return nil
	})
	return !ones || err != nil
}

// OnlyOnes reads the array and reports whether all elements are 1, or true. For an array that is too
// long to look at whole, or cannot be read, it returns false.
func (n *Array) OnlyOnes() bool {
	left := n.Count()
	if left > mostWeights {
		return false
	}
	for values := make([]float64, chunk); left > 0; left -= int64(len(values)) {
		values = values[:min(left, int64(len(values)))]
		if n.Doubles(values) != nil {
			return false
		}
		for _, x := range values {
			if x != 1 {
				return false
			}
		}
	}
	return true
}
