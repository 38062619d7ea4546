package comparison

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"diskgnn/internal/units"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// counted returns the epochs of a run that are compared.
func counted(run *rundir.Result) []rundir.Epoch {
	if len(run.Epochs) < 2 {
		return run.Epochs
	}
	return run.Epochs[1:]
}

func epochSeconds(run *rundir.Result) []float64 {
	var s []float64
	for _, e := range counted(run) {
		s = append(s, e.Seconds)
	}
	return s
}

// summarize returns the row of a store's runs.
func summarize(r *row) Store {
	s := Store{
		Store: r.store, packed: r.packed, Ablation: r.of.name, Rounds: len(r.runs), FirstSeconds: score.Undefined, EpochSeconds: score.Undefined,
		BytesRead: score.Undefined, UsefulBytes: score.Undefined, UsefulFraction: score.Undefined,
		Requests: score.Undefined, HitRatio: score.Undefined, GPUHitRatio: score.Undefined, RAMHitRatio: score.Undefined,
		Effective: score.Undefined, Device: score.Undefined, RequestBytes: score.Undefined, AtRequest: score.Undefined, DeviceFraction: score.Undefined, Valid: score.Undefined, Test: score.Undefined, PackSaves: score.Undefined,
	}
	if r.failed != nil {
		s.Error = r.failed.Error()
	}
	if len(r.runs) == 0 {
		return s
	}
	var epochs []rundir.Epoch
	var firsts, medians []float64
	for _, run := range r.runs {
		epochs = append(epochs, counted(run)...)
		firsts = append(firsts, run.Epochs[0].Seconds)
		medians = append(medians, median(epochSeconds(run)))
		s.RoundSeconds = append(s.RoundSeconds, score.Score(medians[len(medians)-1]))
		s.shortest(counted(run), len(medians) == 1)
		s.PeakAnon = max(s.PeakAnon, run.PeakAnonBytes)
	}
	s.FirstSeconds, s.EpochSeconds = score.Score(median(firsts)), score.Score(median(medians))
	s.traffic(epochs, &r.of.w)
	s.Links = links(epochs)
	first := r.runs[0]
	s.PreloadBytes, s.Engine, s.Valid, s.Test = first.PreloadBytes, first.Engine, first.ValidAccuracy, first.TestAccuracy
	s.CacheRows, s.PageCache = first.CacheRows, first.PageCache
	if w := &r.of.w; w.tableBytes > 0 {
		s.CacheFraction = float64(s.CacheRows*w.rowBytes) / float64(w.tableBytes)
	}
	at := 0.0
	for _, e := range first.Epochs {
		if at += e.Seconds + e.ValidSeconds; e.ValidAccuracy.Defined() {
			s.Scores = append(s.Scores, Scored{e.Epoch, at, e.ValidAccuracy})
		}
	}
	return s
}

// shortest takes over the batches of a round's smallest epoch and the seconds of its epochs, where they are
// fewer.
func (s *Store) shortest(epochs []rundir.Epoch, first bool) {
	batches, seconds := epochs[0].Batches, 0.0
	for _, e := range epochs {
		batches, seconds = min(batches, e.Batches), seconds+e.Seconds
	}
	if first || batches < s.batches {
		s.batches = batches
	}
	if first || seconds < s.seconds {
		s.seconds = seconds
	}
}

// traffic adds up the epochs' reads and served rows.
func (s *Store) traffic(epochs []rundir.Epoch, w *workload) {
	var read, useful, requests, graphs, batches, ram, gpu, rows, seconds, reading float64
	for _, e := range epochs {
		read, useful, requests = read+float64(e.BytesRead), useful+float64(e.UsefulBytes), requests+float64(e.Requests)
		ram, gpu = ram+float64(e.RAMBytes-e.GPUServedBytes), gpu+float64(e.GPUServedBytes)
		graphs, batches = graphs+float64(e.GraphBytesRead), batches+float64(e.Batches)
		rows += float64(e.InputNodes * w.rowBytes)
		seconds += e.Seconds
		if e.ReadRate > 0 { // the time in which BytesRead were
			reading += float64(e.BytesRead) / float64(e.ReadRate)
		}
	}
	n := float64(len(epochs))
	s.BytesRead, s.UsefulBytes, s.Requests = score.Score(read/n), score.Score(useful/n), score.Score(requests/n)
	s.UsefulFraction = ratio(useful, read)
	s.HitRatio, s.GPUHitRatio, s.RAMHitRatio = ratio(ram+gpu, rows), ratio(gpu, rows), ratio(ram, rows)
	s.Effective, s.Device = ratio(rows, seconds), ratio(read, reading)
	if read > graphs { // each batch has a request for its graph
		s.RequestBytes = ratio(read-graphs, requests-batches)
	}
}

// links returns the seconds of each link of the pipeline alone.
func links(epochs []rundir.Epoch) []Link {
	var list []Link
	for _, e := range epochs {
		for _, l := range e.Links {
			i := slices.IndexFunc(list, func(k Link) bool { return k.Name == l.Link })
			if i < 0 {
				i, list = len(list), append(list, Link{Name: l.Link})
			}
			l.Workers = max(1, l.Workers)
			list[i].Seconds += l.Alone() / float64(len(epochs))
		}
	}
	return list
}

// payback compares every store with the packed one of its variant, if that has run: with P
// seconds of preparing, F of the first epoch and E of each that follows, the pack has paid after
// the least number n of epochs with P + F + (n−1)·E of the pack no more than P + F + (n−1)·E of the
// store. If rounds of both took equally long, that number is not known.
func payback(list []Store) {
	for k := range list {
		s := &list[k]
		i := slices.IndexFunc(list, func(p Store) bool { return p.packed && p.Rounds > 0 && p.Ablation == s.Ablation })
		if i < 0 || k == i || s.Rounds == 0 {
			continue
		}
		p := &list[i]
		ahead := p.Preparation.Seconds - s.Preparation.Seconds + float64(p.FirstSeconds-s.FirstSeconds)
		s.PackSaves = s.EpochSeconds - p.EpochSeconds
		s.PackUnclear = len(p.RoundSeconds) > 1 && len(s.RoundSeconds) > 1 && !apart(p, s) && !apart(s, p)
		if n := 1 + math.Ceil(ahead/float64(s.PackSaves)); ahead <= 0 {
			s.PackPays, s.PackUnclear = new(1), false
		} else if s.PackSaves > 0 && !s.PackUnclear && n < math.MaxInt32 {
			s.PackPays = new(int(n))
		}
	}
}

// ratio returns a/b, undefined if b is 0.
func ratio(a, b float64) score.Score {
	if b <= 0 {
		return score.Undefined
	}
	return score.Score(a / b)
}

// median returns the middle value, the mean of the two middle ones for an even number.
func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// The least batches of an epoch and seconds of a round's counted epochs for a store to be called the fastest:
// fewer batches never fill the pipeline and a cache, and shorter times vary too much.
const (
	leastBatches = 20
	leastSeconds = 1
)

// whole returns the rows with figures and without ablation, or all rows with figures.
func (r *Result) whole() []*Store {
	list := r.ran()
	if whole := slices.DeleteFunc(slices.Clone(list), func(s *Store) bool { return s.Ablation != "" }); len(whole) > 0 {
		return whole
	}
	return list
}

// ends returns the rows of the shortest and of the longest epochs.
func (r *Result) ends() (shortest, longest *Store) {
	list := r.whole()
	if len(list) == 0 {
		return nil, nil
	}
	by := func(a, b *Store) int { return int(math.Copysign(1, float64(a.EpochSeconds-b.EpochSeconds))) }
	return slices.MinFunc(list, by), slices.MaxFunc(list, by)
}

// judge names the fastest row, or the reason why none is. The fastest needs two or more rounds of
// every row, none too short, and a slowest round that is faster than every other row's fastest.
func (r *Result) judge() {
	list := r.whole()
	best, _ := r.ends()
	short := slices.IndexFunc(list, func(s *Store) bool { return s.batches < leastBatches || s.seconds < leastSeconds })
	switch {
	case len(list) < 2:
		r.Undecided = "a comparison needs two stores"
	case slices.ContainsFunc(list, func(s *Store) bool { return s.Rounds < 2 }):
		r.Undecided = "the variation between rounds needs two rounds of each store (--rounds 2)"
	case short >= 0:
		s := list[short]
		r.Undecided = fmt.Sprintf("in a round of %s, an epoch has %s and the compared epochs take %s; the minimum is %d batches and %s (more seed nodes or a smaller --batch-size, and more --epochs)",
			s.Name(), units.Of(s.batches, "batch"), units.Seconds(s.seconds), leastBatches, units.Seconds(leastSeconds))
	default:
		if i := slices.IndexFunc(list, func(s *Store) bool { return s != best && !apart(best, s) }); i >= 0 {
			r.Undecided = fmt.Sprintf("the times of rounds of %s and of %s overlap", best.Name(), list[i].Name())
			return
		}
		r.Fastest = best.Name()
	}
}

// apart reports whether all rounds of a store are faster than all of another one.
func apart(fast, slow *Store) bool {
	return cmp.Less(slices.Max(fast.RoundSeconds), slices.Min(slow.RoundSeconds))
}
