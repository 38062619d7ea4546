package report

import (
	"fmt"
	"slices"
	"strings"

	"diskgnn/featurestore"
	"diskgnn/internal/budget"
	"diskgnn/internal/units"
	"diskgnn/pipeline"
	"diskgnn/train/rundir"
)

// Finding is a conclusion from a run's figures, with advice.
type Finding struct {
	ID   string `json:"id"`   // bound, reading, computing, scores or validation
	Text string `json:"text"` // whole sentences
}

// Shares of an epoch from which a link is its bottleneck, and of the busiest link's time from which
// another link is one as well.
const (
	binds   = 0.75
	besides = 0.85
)

// verdict returns the run's bottleneck, advice, and whether it trained long enough, all from the
// run's own figures, the most important first. It is empty before an epoch has ended.
func (r *Run) verdict() []Finding {
	seconds, links := r.steady()
	if len(links) == 0 {
		return nil
	}
	v := &verdict{Run: r, seconds: seconds, links: links}
	v.say("bound", v.bound())
	if v.waitsFor(diskTime) {
		v.say("reading", v.reading())
	}
	if v.waitsFor(computing) {
		v.say("computing", v.computing())
	}
	v.say("scores", v.scores())
	v.say("validation", v.validation())
	return v.list
}

// verdict holds the figures from which findings follow.
type verdict struct {
	*Run
	seconds float64             // of an epoch, and
	links   []pipeline.LinkTime // its links: means
	list    []Finding
}

func (v *verdict) say(id string, sentences ...string) {
	if text := join(sentences); text != "" {
		v.list = append(v.list, Finding{id, strings.ReplaceAll(text, " %", "\u00a0%")})
	}
}

// busiest returns the link that takes longest alone, and the next one of another kind of work.
func (v *verdict) busiest() (first, second *pipeline.LinkTime) {
	for i := range v.links {
		t := &v.links[i]
		switch {
		case first == nil || t.Alone() > first.Alone():
			if first != nil && stages[first.Link].work != stages[t.Link].work {
				second = first
			}
			first = t
		case second == nil || t.Alone() > second.Alone():
			second = t
		}
	}
	return first, second
}

// waitsFor reports whether a kind of work, alone or beside another, takes the whole epoch.
func (v *verdict) waitsFor(w work) bool {
	first, _ := v.busiest()
	for i := range v.links {
		t := &v.links[i]
		if stages[t.Link].work == w && t.Alone() >= besides*first.Alone() && t.Alone() >= 0.5*v.seconds {
			return true
		}
	}
	return false
}

// bound names the links that take the whole epoch.
func (v *verdict) bound() string {
	first, second := v.busiest()
	if first.Alone() <= 0 || v.seconds <= 0 {
		return ""
	}
	holds := v.stage(first.Link)
	times := fmt.Sprintf("%s takes %s of an epoch's %s", holds.does, units.Seconds(first.Alone()), units.Seconds(v.seconds))
	beside := ""
	if second != nil && second.Alone() > 0 {
		beside = fmt.Sprintf(", %s %s", v.stage(second.Link).does, units.Seconds(second.Alone()))
	}
	switch {
	case first.Alone() < binds*v.seconds:
		s := fmt.Sprintf("No stage fills the epoch: %s%s; they wait for each other.", times, beside)
		if v.Setup.Slots > 0 && v.Setup.Slots < 3 {
			s += fmt.Sprintf(" More batches under way (--slots, now %d) would let them overlap.", v.Setup.Slots)
		}
		return s
	case second != nil && second.Alone() >= besides*first.Alone():
		return fmt.Sprintf("Bound by %s and %s alike: %s%s.", holds.waits, v.stage(second.Link).waits, times, beside)
	}
	return fmt.Sprintf("Bound by %s: %s%s.", holds.waits, times, beside)
}

// reading advises on a run that waits for the drive.
func (v *verdict) reading() string {
	s := []string{v.largerCache()}
	if s[0] == "" {
		s = append(s, v.lessToRead())
	}
	rate := v.lastReadRate()
	switch {
	case v.DriveRate > 0 && rate >= 0.8*v.DriveRate:
		s = append(s, fmt.Sprintf("The drive is at its limit: %s, of %s in sequence.", units.BytesPerSecond(rate), units.BytesPerSecond(v.DriveRate)))
	case v.DriveRate > 0 && rate > 0 && rate < 0.5*v.DriveRate:
		s = append(s, fmt.Sprintf("Reads come at %s, %.0f %% of the drive's rate in sequence.", units.BytesPerSecond(rate), 100*rate/v.DriveRate))
	}
	return join(s)
}

// largerCache estimates the savings of a cache for which the pack has rows: the smallest one that
// halves the reads, or else the largest.
func (v *verdict) largerCache() string {
	f, s := &v.PackFacts, &v.Setup
	if f.Policy != "static" || f.Nodes <= 0 {
		return ""
	}
	now := slices.IndexFunc(f.Caches, func(c featurestore.Cache) bool { return c.Rows == s.CacheRows })
	if now < 0 || f.Caches[now].ReadBytes <= 0 {
		return ""
	}
	larger := f.Caches[now+1:]
	if len(larger) == 0 {
		return ""
	}
	ratio := func(c *featurestore.Cache) float64 { return float64(c.ReadBytes) / float64(f.Caches[now].ReadBytes) }
	best := &larger[len(larger)-1]
	for i := range larger {
		if ratio(&larger[i]) <= 0.5 {
			best = &larger[i]
			break
		}
	}
	left := ratio(best)
	if left > 0.9 {
		return ""
	}
	share := 100 * float64(best.Rows) / float64(f.Nodes)
	did := fmt.Sprintf("would leave %.0f %% of the reads", 100*left)
	if left > 0.45 && left <= 0.5 {
		did = "would halve the reads"
	}
	text := fmt.Sprintf("A cache of %.3g %% of the rows, %s, in place of %.3g %% %s", share, budget.FormatBytes(best.Rows*int64(f.RowBytes)),
		100*float64(s.CacheRows)/float64(f.Nodes), did)
	more := (best.Rows - s.CacheRows) * int64(f.RowBytes)
	switch {
	case s.Memory > 0 && s.Planned+more > s.Memory:
		text += fmt.Sprintf("; it takes --memory %s or more", ceilMemory(s.Planned+more))
	case v.Preferences.RAMCache != nil:
		text += fmt.Sprintf(" (--ram-cache %.3g%%)", share)
	}
	if t := v.timeOf(diskTime); t > 0 {
		text += fmt.Sprintf(", and reading about %s of an epoch", units.Seconds(left*t))
	}
	return text + "."
}

// ceilMemory writes a size for --memory, rounded up to a tenth of its unit, or to 64 MiB.
func ceilMemory(n int64) string {
	if n <= 0 {
		return "0"
	}
	const mib = 1 << 20
	if n < 1<<30 {
		return fmt.Sprintf("%dMiB", (n+64*mib-1)/(64*mib)*64)
	}
	tenths := (n*10 + 1<<30 - 1) >> 30
	if tenths%10 == 0 {
		return fmt.Sprintf("%dGiB", tenths/10)
	}
	return fmt.Sprintf("%d.%dGiB", tenths/10, tenths%10)
}

// timeOf returns the seconds of an epoch in the busiest link of a kind of work.
func (v *verdict) timeOf(w work) float64 {
	most := 0.0
	for i := range v.links {
		if t := &v.links[i]; stages[t.Link].work == w {
			most = max(most, t.Alone())
		}
	}
	return most
}

// lessToRead advises how to read fewer bytes without a larger cache.
func (v *verdict) lessToRead() string {
	f, e := &v.PackFacts, &v.Epochs[len(v.Epochs)-1]
	rows, useful := e.BytesRead-e.GraphBytesRead, e.InputNodes*int64(f.RowBytes)-e.RAMBytes
	switch {
	case f.Policy == "" && useful > 0 && float64(rows) > 1.5*float64(useful):
		return fmt.Sprintf("Batches use %.0f %% of the bytes read: rows have %s, but whole pages are read. A pack stores the rows of a batch next to each other (diskgnn pack).",
			100*float64(useful)/float64(rows), budget.FormatBytes(int64(f.RowBytes)))
	case f.Policy == "static" && f.Segment <= 1 && f.DType == "float32":
		return "The cache already holds all rows that the pack allows; a pack with float16 rows (pack --dtype float16) would halve the reads, and round the features."
	case f.Policy == "min" && f.DType == "float32":
		return "A pack with a larger cache (pack --cache), or with float16 rows (pack --dtype float16), would read less."
	}
	return ""
}

// computing advises on a run that waits for its products.
func (v *verdict) computing() string {
	s := &v.Setup
	if v.onGPU() {
		if s.Precision == "float32" {
			return "Products in TF32 are faster (--precision tf32), and less exact."
		}
		return ""
	}
	name, _, _ := strings.Cut(s.BLAS, " ")
	switch {
	case name == "gonum" && s.SIMD == "plain":
		return "The matrix products are in plain Go, a tenth as fast as others: the processor has no AVX2, or DISKGNN_SIMD disables it. OpenBLAS is faster here (Debian, Ubuntu: apt install libopenblas0)."
	case name == "gonum":
		return "The matrix products are gonum's, a tenth as fast as the program's own (--blas builtin) or OpenBLAS's."
	case v.Host != nil && s.Threads > 0 && 2*s.Threads <= v.Host.Processors:
		return fmt.Sprintf("The run computes on %s of the machine's %d processors (--threads).", units.Of(s.Threads, "thread"), v.Host.Processors)
	}
	return "The drive has time to spare: more or faster processors would help, or a GPU; a larger cache would not."
}

// scores reports whether the run ended too early or too late.
func (v *verdict) scores() string {
	best, n := v.best(), len(v.Epochs)
	if best < 0 || n < 5 || v.State != rundir.StateFinished || v.Result == nil || v.Result.StoppedEarly {
		return ""
	}
	validated := 0
	for i := range v.Epochs {
		if v.Epochs[i].ValidAccuracy.Defined() {
			validated++
		}
	}
	after := n - 1 - best
	switch {
	case validated < 4:
		return ""
	case after == 0:
		return "The last epoch is the best: more epochs may score better."
	case after >= 10 && 2*(best+1) <= n && v.Params.Patience == 0:
		return fmt.Sprintf("The best epoch is %d of %d: no score was better in the %d epochs since (--patience ends a run sooner).", v.Epochs[best].Epoch, n, after)
	}
	return ""
}

// validation reports scoring that takes as long as training.
func (v *verdict) validation() string {
	train, valid := 0.0, 0.0
	for i := range v.Epochs {
		train, valid = train+v.Epochs[i].Seconds, valid+v.Epochs[i].ValidSeconds
	}
	if valid < train || train <= 0 {
		return ""
	}
	return fmt.Sprintf("Validation takes longer than training: %s of %s (--validate-every makes it rarer).", units.Seconds(valid), units.Seconds(train+valid))
}
