package main

import (
	"bytes"
	"fmt"
	"math"
)

// A panel of the drawing, in pixels.
const (
	width, height = 640, 240
	left, right   = 60, 20
	top, bottom   = 30, 40
)

// draw returns the points as SVG: the epoch's seconds and the amplification over the
// blow-up, whose axis is logarithmic.
func draw(points []point) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", width, 2*height)
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	panel(&b, 0, "seconds of an epoch's loading", points, func(p *point) float64 { return p.EpochSeconds })
	panel(&b, height, "bytes read over bytes used", points, func(p *point) float64 { return p.Amplification })
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// panel draws one curve, its upper edge at y pixels.
func panel(b *bytes.Buffer, y float64, title string, points []point, of func(*point) float64) {
	lo, hi, most := math.Inf(1), 0.0, 0.0
	for i := range points {
		lo, hi = min(lo, points[i].Blowup), max(hi, points[i].Blowup)
		most = max(most, of(&points[i]))
	}
	lo, hi, most = lo/1.1, hi*1.1, most*1.1
	px := func(blowup float64) float64 {
		return left + (width-left-right)*math.Log(blowup/lo)/math.Log(hi/lo)
	}
	py := func(v float64) float64 { return y + height - bottom - (height-top-bottom)*v/most }
	text := func(x, y float64, anchor, s string) {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, s)
	}
	line := func(x1, y1, x2, y2 float64) {
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#999"/>`+"\n", x1, y1, x2, y2)
	}
	text(left, y+18, "start", title)
	line(left, py(0), width-right, py(0))
	line(left, py(0), left, py(most))
	for i := range 3 {
		v := most / 1.1 * float64(i) / 2
		text(left-6, py(v)+4, "end", fmt.Sprintf("%.2g", v))
	}
	text((left+width-right)/2, y+height-4, "middle", "size of the pack, in feature tables")
	fmt.Fprint(b, `<polyline fill="none" stroke="#36c" stroke-width="2" points="`)
	for i := range points {
		fmt.Fprintf(b, "%.1f,%.1f ", px(points[i].Blowup), py(of(&points[i])))
	}
	fmt.Fprint(b, `"/>`+"\n")
	for i := range points {
		p := &points[i]
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="#36c"/>`+"\n", px(p.Blowup), py(of(p)))
		text(px(p.Blowup), py(of(p))-8, "middle", fmt.Sprintf("%.3g", of(p)))
		text(px(p.Blowup), py(0)+16, "middle", fmt.Sprintf("%.2gx", p.Blowup))
	}
}
