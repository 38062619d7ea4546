package exact

import (
	"fmt"
	"math"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/units"
)

// reads is the bytes that all steps read, with the sizes that they are compared with.
type reads struct {
	bytes    int64
	features int64 // the feature table's
	once     int64 // of every step's table, read once
}

// reads returns the reads of the steps' plans.
func (j *job) reads() (r reads) {
	f := j.data.Facts()
	r.features = f.FeatureRows() * int64(f.RowBytes())
	for k := range j.steps {
		s := &j.steps[k]
		r.once += s.sizes.Table.Bytes(0, s.sizes.Nodes)
		r.bytes += s.plan.Read()
	}
	return r
}

const (
	// maxReadTables is the default bound, in feature tables; hidden states may be much wider than
	// features: for all tables together it is a tenth.
	maxReadTables = 100
	// warnShare is the fraction of the bound, as a divisor, from which a note reports the reads.
	warnShare = 10
)

// limit returns the default bound in bytes.
func (r *reads) limit() int64 { return max(maxReadTables*r.features, maxReadTables/10*r.once) }

// AgainstFeatures writes a number of bytes, and its multiple of the feature table.
func AgainstFeatures(bytes, features int64) string {
	times := float64(bytes) / float64(features)
	text := fmt.Sprintf("%.1f", times)
	if times >= 10 {
		text = units.Count(int64(math.Round(times)))
	}
	return fmt.Sprintf("%s, %s times the features", budget.FormatBytes(bytes), text)
}

// maxRead returns the bound in bytes.
func (o *Options) maxRead(r *reads) int64 {
	switch m := o.MaxRead; {
	case m == nil:
		return r.limit()
	case m.Unit == budget.UnitUnlimited:
		return math.MaxInt64
	case m.Unit == budget.UnitTimes:
		return int64(min(m.Value*float64(r.features), 1<<62))
	default:
		return int64(m.Value)
	}
}

// checkReads refuses reads beyond the bound, and names the memory that avoids them.
func (j *job) checkReads() error {
	r := j.reads()
	limit := j.options.maxRead(&r)
	if r.bytes <= limit {
		if r.bytes > r.limit()/warnShare {
			j.report.Logf("warning: %s, will be read; with more --memory it is less", AgainstFeatures(r.bytes, r.features))
		}
		return nil
	}
	enough, read := j.enough(j.options.Memory, limit)
	way := fmt.Sprintf("no --memory reads less than %s", budget.FormatBytes(read))
	if read <= limit {
		way = fmt.Sprintf("with --memory %dMiB it is %s", enough>>20, budget.FormatBytes(read))
	}
	return fault.New(fault.ErrBudget, "with --memory %s %s, would be read, but --max-read allows %s: %s",
		budget.FormatBytes(j.options.Memory), AgainstFeatures(r.bytes, r.features), budget.FormatBytes(limit), way)
}

// readsTooMuch reports whether the steps' plans read more than is allowed.
func (j *job) readsTooMuch() bool {
	r := j.reads()
	return r.bytes > j.options.maxRead(&r)
}

// wholeMiB rounds bytes up to whole MiB.
func wholeMiB(n int64) int64 { return (n + 1<<20 - 1) >> 20 << 20 }

// leastMemory returns the memory in bytes, in whole MiB, that suffices where a step takes need bytes, with
// reads within the bound if any memory keeps within it.
func (j *job) leastMemory(need int64) int64 {
	least := wholeMiB(j.fixed + need)
	if !j.place(least - j.fixed) {
		return least
	}
	r := j.reads()
	limit := j.options.maxRead(&r)
	if r.bytes <= limit {
		return least
	}
	if enough, read := j.enough(least, limit); read <= limit {
		return enough
	}
	return least
}

// enough returns the memory from lo up, in whole MiB, with which at most limit bytes are read, and the
// bytes read then. If no memory is enough, it returns the memory that reads least. It changes the
// steps' plans.
func (j *job) enough(lo, limit int64) (memory, read int64) {
	with := func(memory int64) int64 {
		if !j.place(memory - j.fixed) {
			return math.MaxInt64
		}
		return j.reads().bytes
	}
	hi := max(lo, wholeMiB(j.fixed+j.most()))
	if read = with(hi); read > limit {
		return hi, read
	}
	for hi-lo > 1<<20 {
		middle := wholeMiB(lo + (hi-lo)/2)
		if middle == hi {
			break
		}
		if n := with(middle); n <= limit {
			hi, read = middle, n
		} else {
			lo = middle
		}
	}
	return hi, read
}
