package drives

// Defaults of GIDS's accumulator, which reads several batches together if one has too few accesses to keep
// the drives busy: the target share of the drives' bandwidth, and the latency of the system without the
// drive, in µs.
const (
	accumulateShare  = 0.95
	accumulateSystem = 20
)

// Accesses returns the number of accesses that GIDS collects before it reads, on n drives:
//
//	p/(1−p) · bandwidth·1024/page · (latency of the drive + latency of the system) · n
//
// with p the target share, the bandwidth of reads of a page in GB/s, the factor 1024 as in GIDS, and
// latencies in µs.
func (d Drive) Accesses(n int) int64 {
	bandwidth := min(float64(d.Bytes), float64(d.Requests)*Page) / 1e9
	return int64(accumulateShare / (1 - accumulateShare) * bandwidth * 1024 / Page * (d.LatencyMicros + accumulateSystem) * float64(n))
}

// Accumulate merges each batch with the next ones until they have more than the given number of accesses,
// which are rows. Merged batches are sampled, read and computed together. The last merge may have fewer.
func Accumulate(loads []Load, accesses int64) []Load {
	var out []Load
	for i := 0; i < len(loads); {
		sum := loads[i].Times(1)
		for i++; i < len(loads) && sum.Rows <= accesses; i++ {
			sum.merge(&loads[i])
		}
		out = append(out, sum)
	}
	return out
}

// merge adds another load, of the same store.
func (l *Load) merge(o *Load) {
	l.Sample += o.Sample
	l.Compute += o.Compute
	l.Assemble += o.Assemble
	for _, r := range o.Reads {
		l.add(r.Bytes, r.Count)
	}
	l.Zero += o.Zero
	l.Copy += o.Copy
	l.Touched += o.Touched
	l.Rows += o.Rows
	l.Hits += o.Hits
	l.Useful += o.Useful
	l.Merged += 1 + o.Merged
}
