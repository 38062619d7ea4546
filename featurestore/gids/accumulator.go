package gids

import (
	"encoding/binary"
	"math"
	"time"

	"diskgnn/internal/binio"
)

// Accumulator has GIDS' parameters for the number of accesses that keep the drives busy.
type Accumulator struct {
	Share         float64 // target share of the drives' bandwidth, below 1
	Bandwidth     float64 // of a drive for reads of a page, GB/s
	Page          float64 // bytes of a page
	DriveLatency  float64 // µs
	SystemLatency float64 // of the rest of the system, µs
	Drives        float64
}

// Defaults returns GIDS' values: one drive of 5.8 GB/s and 11 µs.
func Defaults() Accumulator {
	return Accumulator{Share: .95, Bandwidth: 5.8, Page: binio.Page, DriveLatency: 11, SystemLatency: 20, Drives: 1}
}

// measured returns Accesses of a drive that serves perSecond random pages a second, and a single one in the given time,
// the system's time included.
func measured(perSecond float64, single time.Duration) int64 {
	return max(1, int64(math.Round(odds(Defaults().Share)*perSecond*single.Seconds())))
}

// odds returns p/(1−p).
func odds(p float64) float64 { return p / (1 - p) }

// Accesses returns the number of accesses that a gather must exceed:
//
//	p/(1−p) · bandwidth·1024/page · (latency of the drive + latency of the system) · drives
//
// with p the Share. The factor is 1024, as in GIDS; 1000 would be right.
func (a Accumulator) Accesses() int64 {
	return int64(odds(a.Share) * a.Bandwidth * 1024 / a.Page * (a.DriveLatency + a.SystemLatency) * a.Drives)
}

// leastBefore is the number of batches before the next one that may always be in flight with it: one is
// read while one is assembled and one computed.
const leastBefore = 2

// mostGathered bounds the batches of a gather. GIDS has no bound, but in mode script the number of accesses
// needed may grow faster than the accesses.
const mostGathered = 64

// gathers divides the batches, in their order, into gathers, which are read together. A gather ends with
// the batch with which its accesses exceed the number needed:
//
//	paper    accesses = Σ (rows − h), h the rows in the constant buffer;  needed = N
//	script   accesses = Σ rows;  needed = N + batches of the gather · H, H the sum of h over
//	         the whole previous gather
type gathers struct {
	need   int64
	script bool

	batches  int64 // of the gather so far; 0: the next batch begins one
	accesses int64
	served   int64 // h
	last     int64 // H
}

// before returns the number of batches before the next one that may be in flight with it.
func (g *gathers) before() int64 { return max(leastBefore, g.batches) }

func (g *gathers) add(rows, served int64) {
	need := g.need
	g.batches++
	g.served += served
	g.accesses += rows
	enough := g.accesses-g.served > need
	if g.script {
		enough = g.accesses > need+g.batches*g.last
	}
	if enough || g.batches == mostGathered {
		g.last = g.served
		g.batches, g.accesses, g.served = 0, 0, 0
	}
}

// gathersBytes is the length of the result of save: batches, accesses and served of the present gather,
// and last, 8 bytes each.
const gathersBytes = 4 * 8

func (g *gathers) save(b []byte) []byte {
	for _, n := range []int64{g.batches, g.accesses, g.served, g.last} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// load is the reverse of save. Errors are in d.
func (g *gathers) load(d *binio.Decoder) {
	for _, n := range []*int64{&g.batches, &g.accesses, &g.served, &g.last} {
		*n = int64(d.U64())
	}
	const most = 1 << 48 // rows of a gather: far above any
	if d.Err() == nil && (uint64(g.batches) >= mostGathered || uint64(g.accesses) > most || uint64(g.served) > uint64(g.accesses) || uint64(g.last) > most) {
		d.Fail("a gather of %d batches with %d accesses, %d of them served by the buffer, is impossible", g.batches, g.accesses, g.served)
	}
}

func (g *gathers) clear() { g.batches, g.accesses, g.served, g.last = 0, 0, 0, 0 }
