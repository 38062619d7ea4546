package cpu

import (
	"math"

	"diskgnn/internal/kernel"
	"diskgnn/train/model"
	"diskgnn/train/prepare"
)

// pullLinear is a linear convolution. Sources' weights are factors of the rows that are added.
type pullLinear struct {
	*linear
	graph    *prepare.Whole
	group    int
	multiply bool
	weighs   bool // sources have weights
	loops    bool // destinations have an own term in their sums
}

// pull sets the shape of p.
func (o *linear) pull(p *Pull) pulling {
	w := prepare.Whole{Weighing: o.net.model.Weighing()}
	q := &pullLinear{linear: o, graph: p.graph, group: p.Group, multiply: o.order == model.Multiply}
	q.weighs, q.loops = w.Weighs()
	p.Row = o.in
	if q.multiply {
		p.Row = o.width
	}
	p.Acc, p.Wide = p.Row, p.Row
	if o.max {
		p.Wide = 0
	}
	p.Maps, p.Last = q.multiply || q.weighs, o.own || q.loops
	if o.weights != nil {
		o.fold()
	}
	return q
}

func (o *pullLinear) Map(_ int, to, x []float32, first uint32, n int) {
	d := o.in
	if o.multiply {
		d = o.width
		o.net.blas.Sgemm(false, false, o.group, d, o.in, 1, x, o.in, o.w, d, 0, to, d)
	} else {
		copy(to[:n*d], x)
	}
	if o.weighs {
		for i := range n {
			scale(to[i*d:(i+1)*d], o.graph.Source(first+uint32(i)))
		}
	}
}

func (o *pullLinear) Begin(_ int, acc, _ []float32, _ int, _ *prepare.Lists) {
	if o.max {
		fill(acc, float32(math.Inf(-1)))
	} else {
		clear(acc)
	}
}

func (o *pullLinear) Add(_ int, acc []float32, _ []float64, x []float32, idx []uint32, _ int) {
	if o.max {
		kernel.RaiseRows(acc, x, idx)
	} else {
		kernel.AddRows(acc, x, idx)
	}
}

func (o *pullLinear) sums(worker int, z, acc, x []float32, nodes []uint32, _ *prepare.Lists) {
	in, out, sgemm := o.in, o.width, o.net.blas.Sgemm
	if o.multiply {
		own := o.products[worker*o.group*out:]
		if o.loops {
			sgemm(false, false, o.group, out, in, 1, x, in, o.w, out, 0, own, out)
		}
		for i, v := range nodes {
			o.scaled(z[i*out:(i+1)*out], acc[i*out:], own[i*out:], v)
		}
		if o.own {
			sgemm(false, false, o.group, out, in, 1, x, in, o.w[in*out:], out, 1, z, out)
		}
		return
	}
	width := o.operandWidth()
	rows := o.net.workerScratch(worker, o.group, width)
	for i, v := range nodes {
		row := rows[i*width : (i+1)*width]
		o.scaled(row[:in], acc[i*in:], x[min(i*in, len(x)):], v)
		if o.own {
			copy(row[in:], x[i*in:(i+1)*in])
		}
	}
	sgemm(false, false, o.group, out, width, 1, rows, width, o.w, out, 0, z, out)
}

// scaled stores the weighted aggregate of node v.
func (o *pullLinear) scaled(row, acc, own []float32, v uint32) {
	sum, self := o.graph.Destination(v)
	if o.max && o.graph.Graph.Degree(v) == 0 {
		clear(row)
		return
	}
	for c := range row {
		row[c] = acc[c] * sum
	}
	if o.loops {
		kernel.AddScaled(row, own[:len(row)], self)
	}
}
