package synth

import "math"

// law is a Pareto distribution of degrees cut off at both ends, written as a
// function of a node's rank u in [0, 1), hubs first:
//
//	degree(u) = (A + B·u)^(-1/a),   a = Exponent − 1
//
// Its integral, and the inverse of that, are elementary:
//
//	edges(u) = ((A + B·u)^b − A^b) / (B·b),   b = 1 − 1/a = 1/6
type law struct {
	avg  float64 // mean degree
	most float64 // degree at u = 0
	a, b float64 // A, B
	x0   float64 // A^(1/6)
	dx   float64 // (A+B)^(1/6) − A^(1/6)
}

const (
	lawA     = Exponent - 1
	lawPower = 6 // 1/b: Exponent 2.2 makes it a whole number, so drawing takes no logarithms
)

// newLaw returns the distribution with the given mean and with the structural cutoff as the largest
// degree.
func newLaw(nodes int64, avg float64) (law, error) {
	if err := check(nodes, avg); err != nil {
		return law{}, err
	}
	if avg == 0 {
		return law{}, nil
	}
	most := min(max(math.Sqrt(avg*float64(nodes)), 2*avg), float64(nodes-1)/2)
	// The mean grows with the least degree: bisect.
	lo, hi := avg/1e6, most
	for range 200 {
		mid := (lo + hi) / 2
		if lawMean(mid, most) < avg {
			lo = mid
		} else {
			hi = mid
		}
	}
	l := law{avg: avg, most: most, a: math.Pow(most, -lawA)}
	l.b = math.Pow(lo, -lawA) - l.a
	l.x0 = root(l.a)
	l.dx = root(l.a+l.b) - l.x0
	return l, nil
}

// lawMean is edges(1) for degrees from least to most.
func lawMean(least, most float64) float64 {
	a := math.Pow(most, -lawA)
	b := math.Pow(least, -lawA) - a
	if b <= 0 {
		return most
	}
	return (root(a+b) - root(a)) * lawPower / b
}

// root is the sixth root.
func root(x float64) float64 { return math.Cbrt(math.Sqrt(x)) }

// degree returns the degree of the rank-th of size nodes: the expected one,
// rounded up or down so that the degrees of all ranks add up to the mean.
func (l *law) degree(rank, size int64) int {
	if l.avg == 0 {
		return 0
	}
	return int(l.before(rank+1, size) - l.before(rank, size))
}

// before returns the degrees of all lower ranks, rounded.
func (l *law) before(rank, size int64) int64 {
	switch rank {
	case 0:
		return 0
	case size:
		return int64(math.Round(l.avg * float64(size)))
	}
	part := (root(l.a+l.b*float64(rank)/float64(size)) - l.x0) / l.dx
	return int64(math.Round(l.avg * float64(size) * part))
}

// rank draws one of size nodes in proportion to its expected degree, from t
// uniform in [0, 1).
func (l *law) rank(t float64, size int64) int64 {
	if l.avg == 0 {
		return min(int64(t*float64(size)), size-1)
	}
	// The conversions keep compilers from fusing the operations, which would
	// round differently from one machine to the next.
	x := l.x0 + float64(t*l.dx)
	x2 := float64(x * x)
	u := (float64(float64(x2*x2)*x2) - l.a) / l.b
	return min(max(int64(u*float64(size)), 0), size-1)
}
