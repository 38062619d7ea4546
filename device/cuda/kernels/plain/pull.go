package plain

import (
	"math"
	"slices"

	"diskgnn/internal/kernel"
)

// Lists are the sources of the destinations of a tile; see kernels.Lists.
type Lists struct {
	Starts   []uint64
	Sources  []uint32
	From, To []uint32
	First    uint32
	Fold     uint32
	Wide     []float64
	Long     []uint32 // its length is the number of rows with long lists
}

// list returns the sources of row i, and its wide sums, of width values; nil if the list is not long.
func (l *Lists) list(i, width int) (list []uint32, wide []float64) {
	list = l.Sources[l.Starts[i]:l.Starts[i+1]]
	if len(list) > int(l.Fold) {
		if k, ok := slices.BinarySearch(l.Long, uint32(i)); ok {
			wide = l.Wide[k*width:][:width]
		}
	}
	return list, wide
}

// each calls do with the sources of row i in the block, and ends, if the list is long, behind each block of
// positions.
func (l *Lists) each(i int, list []uint32, long bool, do func(u uint32), ends func()) {
	for p := l.From[i]; p < l.To[i]; p++ {
		do(list[p])
		if long && ((p+1)%l.Fold == 0 || int(p)+1 == len(list)) {
			ends()
		}
	}
}

// PullSeek sets To; see kernels.PullSeek. It returns false if a list does not ascend.
func PullSeek(l *Lists, begin, end int64, rows int) (ok bool) {
	ok = true
	for i := range rows {
		list, _ := l.list(i, 0)
		p := int(l.From[i])
		for p < len(list) && int64(list[p]) < end {
			if int64(list[p]) < begin {
				ok = false
				break
			}
			p++
		}
		l.To[i] = uint32(p)
	}
	return ok
}

// Pull adds rows to accumulators; see kernels.Pull.
func Pull(acc []float32, stride int, x []float32, width int, largest bool, l *Lists, rows int) {
	for i := range rows {
		list, wide := l.list(i, width)
		sum := acc[i*stride:][:width]
		l.each(i, list, wide != nil && !largest, func(u uint32) {
			for c, v := range x[int(u-l.First)*width:][:width] {
				switch {
				case !largest:
					sum[c] += v
				case v > sum[c]:
					sum[c] = v
				}
			}
		}, func() { fold(wide, sum) })
	}
}

// fold adds sums to the wide ones, and clears them.
func fold(wide []float64, sum []float32) {
	for c, v := range sum {
		wide[c] += float64(v)
	}
	clear(sum)
}

// exp returns the exponential of a value that is not positive.
func exp(v float32) float32 {
	one := []float32{v}
	kernel.Exp(one)
	return one[0]
}

func leaky(v, slope float32) float32 {
	if v > 0 {
		return v
	}
	return v * slope
}

// PullHeads adds rows of products to the accumulators of attention; see kernels.PullHeads. nodes returns the
// destination of a row.
func PullHeads(acc, x []float32, heads, part int, slope float32, nodes func(i int) uint32, l *Lists, rows int) {
	columns := heads * part
	for i := range rows {
		list, wide := l.list(i, columns+heads)
		a := acc[i*(columns+3*heads):][:columns+3*heads]
		for h := range heads {
			sums, sum, top, own := a[h*part:(h+1)*part], a[columns+h:][:1], &a[columns+heads+h], a[columns+2*heads+h]
			var wideSums, wideSum []float64
			if wide != nil {
				wideSums, wideSum = wide[h*part:(h+1)*part], wide[columns+h:][:1]
			}
			l.each(i, list, wide != nil, func(u uint32) {
				if u == nodes(i) {
					return
				}
				row := x[int(u-l.First)*(columns+2*heads):]
				score := leaky(row[columns+h]+own, slope)
				if score > *top {
					factor := exp(*top - score)
					for _, s := range [][]float32{sums, sum} {
						for c := range s {
							s[c] *= factor
						}
					}
					for _, s := range [][]float64{wideSums, wideSum} {
						for c := range s {
							s[c] *= float64(factor)
						}
					}
					*top = score
				}
				weight := exp(score - *top)
				for c, v := range row[h*part : (h+1)*part] {
					sums[c] += float32(weight * v) // not fused
				}
				sum[0] += weight
			}, func() { fold(wideSums, sums); fold(wideSum, sum) })
		}
	}
}

// PullBegin makes accumulators of attention; see kernels.PullBegin. own may be nil.
func PullBegin(acc, own []float32, heads, part int, slope float32, rows int) {
	columns := heads * part
	for i := range rows {
		a := acc[i*(columns+3*heads):][:columns+3*heads]
		if own == nil {
			clear(a)
			for h := range heads {
				a[columns+heads+h] = float32(math.Inf(-1))
			}
			continue
		}
		x := own[i*(columns+2*heads):]
		copy(a[:columns], x)
		for h := range heads {
			mine := x[columns+heads+h]
			a[columns+h], a[columns+heads+h], a[columns+2*heads+h] = 1, leaky(x[columns+h]+mine, slope), mine
		}
	}
}

// PullUnfold adds the wide sums to the accumulators of long rows; see kernels.PullUnfold.
func PullUnfold(acc []float32, stride int, wide []float64, width int, long []uint32) {
	for k, i := range long {
		for c := range width {
			sum := &acc[int(i)*stride+c]
			*sum = float32(wide[k*width+c] + float64(*sum))
		}
	}
}

// Settle weighs accumulators and own rows; see kernels.Settle. own and owns may be nil.
func Settle(out []float32, stride int, acc []float32, gap, width int, factors, own, owns []float32, rows int) {
	for i := range rows {
		for c := range width {
			v := acc[i*gap+c] * factors[i]
			if factors[i] == 0 {
				v = 0
			}
			if own != nil {
				v += float32(own[i*width+c] * owns[i]) // not fused
			}
			out[i*stride+c] = v
		}
	}
}

// SettleHeads divides sums by weights; see kernels.SettleHeads.
func SettleHeads(out, acc []float32, heads, part int, mean, add bool, rows int) {
	columns := heads * part
	for i := range rows {
		a := acc[i*(columns+3*heads):]
		result := make([]float32, columns)
		for c := range result {
			if w := a[columns+c/part]; w != 0 {
				result[c] = a[c] * (1 / w)
			}
		}
		if mean {
			for c := range part {
				for h := 1; h < heads; h++ {
					result[c] += result[h*part+c]
				}
				result[c] *= 1 / float32(heads)
			}
			result = result[:part]
		}
		to := out[i*len(result):]
		for c, v := range result {
			if add {
				v += to[c]
			}
			to[c] = v
		}
	}
}

// ScaleRows multiplies rows by factors.
func ScaleRows(x []float32, width int, factors []float32, rows int) {
	for i := range rows {
		for c := range width {
			x[i*width+c] *= factors[i]
		}
	}
}

// lists takes the arguments of lists.
func lists(a *arguments) (l *Lists, rows int) {
	l = &Lists{Starts: a.words64(), Sources: a.words32(), From: a.words32(), To: a.words32(), First: uint32(a.word()), Fold: uint32(a.word())}
	wide, long, many := a.doubles(), a.words32(), a.int()
	l.Wide, l.Long = wide, long[:many]
	return l, a.int()
}

func pullSeek(a *arguments) {
	l := &Lists{To: a.words32(), From: a.words32(), Starts: a.words64(), Sources: a.words32(), Fold: math.MaxUint32}
	begin, end, bad := int64(a.word()), int64(a.word()), a.words32()
	if !PullSeek(l, begin, end, a.int()) {
		bad[0] = 1
	}
}

func pull(a *arguments, largest bool) {
	acc, stride, x, width := a.floats(), a.int(), a.floats(), a.int()
	l, rows := lists(a)
	Pull(acc, stride, x, width, largest, l, rows)
}

// pullHeads computes all that PullHeads' two kernels do; pullWeights has nothing left.
func pullHeads(a *arguments) {
	acc, x, heads, part, slope, nodes, base := a.floats(), a.floats(), a.int(), a.int(), a.float(), a.words32(), uint32(a.word())
	l, rows := lists(a)
	PullHeads(acc, x, heads, part, slope, func(i int) uint32 {
		if nodes != nil {
			return nodes[i]
		}
		return base + uint32(i)
	}, l, rows)
}

func pullWeights(*arguments) {}

func pullBegin(a *arguments) {
	acc, own, heads, part, slope := a.floats(), a.floats(), a.int(), a.int(), a.float()
	PullBegin(acc, own, heads, part, slope, a.int())
}

func pullUnfold(a *arguments) {
	acc, stride, wide, width, long := a.floats(), a.int(), a.doubles(), a.int(), a.words32()
	PullUnfold(acc, stride, wide, width, long[:a.int()])
}

func settle(a *arguments) {
	out, stride, acc, gap, width, factors, own, owns := a.floats(), a.int(), a.floats(), a.int(), a.int(), a.floats(), a.floats(), a.floats()
	Settle(out, stride, acc, gap, width, factors, own, owns, a.int())
}

func settleHeads(a *arguments) {
	out, acc, heads, part, mean, add := a.floats(), a.floats(), a.int(), a.int(), a.bool(), a.bool()
	SettleHeads(out, acc, heads, part, mean, add, a.int())
}

func scaleRows(a *arguments) {
	x, width, factors := a.floats(), a.int(), a.floats()
	ScaleRows(x, width, factors, a.int())
}

func fillFloats(a *arguments) {
	x, value := a.floats(), a.float()
	for i := range x[:a.int()] {
		x[i] = value
	}
}
