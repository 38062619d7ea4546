package packfile

import (
	"encoding/binary"

	"diskgnn/internal/binio"
)

// Plan lists the rows that a training batch takes from outside its chunk, and, under policy min, its
// changes of the cache. It follows the batch's graph.
type Plan struct {
	// SSD has the place of each of the matrix's ssd rows in the segment's part of the SSD level. The places
	// ascend.
	SSD []uint32
	// Hits has, under min, the cache entry of each of the matrix's last rows. The entries ascend.
	Hits []uint32
	// Admit has, under min, the cache entry to which each row of band 1 goes, once the hits are copied out.
	Admit []uint32
}

// planLengths returns the number of entries of a batch's plan.
func (t *Train) planLengths(policy string) (ssd, hits, admit int) {
	ssd = t.SSDRows(len(t.SSD) - 1)
	if policy == PolicyMin {
		hits, admit = t.Hot(), t.Bands[1]
	}
	return ssd, hits, admit
}

// planMost returns, for each list, its largest length in a training batch's plan.
func (r *Reader) planMost() (ssd, hits, admit int) {
	for i := range r.index.Train {
		s, h, a := r.index.Train[i].planLengths(r.params.Policy)
		ssd, hits, admit = max(ssd, s), max(hits, h), max(admit, a)
	}
	return ssd, hits, admit
}

// NewPlan returns an empty plan with the capacity for the plan of every training batch.
func (r *Reader) NewPlan() Plan {
	ssd, hits, admit := r.planMost()
	return Plan{make([]uint32, 0, ssd), make([]uint32, 0, hits), make([]uint32, 0, admit)}
}

// PlanBytes returns the memory of a plan of NewPlan, in bytes.
func (r *Reader) PlanBytes() int64 {
	ssd, hits, admit := r.planMost()
	return 4 * int64(ssd+hits+admit)
}

// decode takes the lists of the given lengths from b, which they fill, as packs of versions 2 to 5 have them.
func (p *Plan) decode(b []byte, ssd, hits, admit int) {
	for _, l := range []struct {
		to *[]uint32
		n  int
	}{{&p.SSD, ssd}, {&p.Hits, hits}, {&p.Admit, admit}} {
		*l.to = binio.Grow(*l.to, l.n)
		for i := range *l.to {
			(*l.to)[i] = binary.LittleEndian.Uint32(b[4*i:])
		}
		b = b[4*l.n:]
	}
}

// ascendsBelow reports whether the list ascends strictly, and stays below n.
func ascendsBelow(list []uint32, n int64) bool {
	for i, v := range list {
		if int64(v) >= n || i > 0 && v <= list[i-1] {
			return false
		}
	}
	return true
}

// descends reports whether the list descends strictly.
func descends(list []uint32) bool {
	for i, v := range list {
		if i > 0 && v >= list[i-1] {
			return false
		}
	}
	return true
}

func allBelow(list []uint32, n int64) bool {
	for _, v := range list {
		if int64(v) >= n {
			return false
		}
	}
	return true
}
