package comparison

import (
	"math"
	"slices"

	"diskgnn/pipeline"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// Result is what a comparison came to.
type Result struct {
	Out     string `json:"out"`
	Dataset string `json:"dataset"`
	Samples string `json:"samples"`        // "": none were drawn ahead
	Live    bool   `json:"live,omitempty"` // batches were drawn while training
	Page    string `json:"page"`           // the file that shows all of it
	Epochs  int    `json:"epochs"`
	Rounds  int    `json:"rounds"`
	Memory  int64  `json:"memory_bytes"` // of each run
	Drive   Drive  `json:"drive"`
	// Warm is why the page cache was not dropped ahead of the runs; "" if it was.
	Warm             string      `json:"warm_because,omitempty"`
	EstimatedSeconds float64     `json:"estimated_seconds"` // of reading, in all runs; without caches
	Seconds          float64     `json:"seconds"`           // of this call
	Sampling         Preparation `json:"sampling"`          // zero where samples were given
	Stores           []Store     `json:"stores"`
	// Fastest is the name of the row whose epochs are shortest, "" where the runs do not tell;
	// Undecided is why. See judge.
	Fastest   string `json:"fastest,omitempty"`
	Undecided string `json:"undecided_because,omitempty"`

	estimates map[string]float64
}

// Preparation is what was made before the first epoch.
type Preparation struct {
	Seconds   float64 `json:"seconds"` // of the process that finished it
	DiskBytes int64   `json:"disk_bytes"`
}

// Store is a row of the comparison. Means and medians are over the epochs that count: those
// after a run's first, which fills the caches, or the only one.
type Store struct {
	Store string `json:"store"`
	// Ablation is what was taken away; "": nothing.
	Ablation string `json:"ablation,omitempty"`
	Error    string `json:"error,omitempty"` // why it did not run, or not in all rounds
	Rounds   int    `json:"rounds"`          // that ended

	EstimatedSeconds float64     `json:"estimated_seconds"` // of reading and packing, in all rounds
	Preparation      Preparation `json:"preparation"`       // the pack's; what all stores need is not in it
	FirstSeconds     score.Score `json:"first_epoch_seconds"`
	// EpochSeconds is the median over the rounds of RoundSeconds, each a run's median.
	EpochSeconds score.Score   `json:"epoch_seconds"`
	RoundSeconds []score.Score `json:"epoch_seconds_by_round"`

	PreloadBytes   int64       `json:"preload_bytes"`
	BytesRead      score.Score `json:"bytes_read"`      // an epoch, mean
	UsefulBytes    score.Score `json:"useful_bytes"`    // an epoch, mean
	UsefulFraction score.Score `json:"useful_fraction"` // of BytesRead
	Requests       score.Score `json:"requests"`        // reads that were submitted in an epoch, mean
	HitRatio       score.Score `json:"hit_ratio"`       // rows that RAM or the GPU had, of all that batches took
	GPUHitRatio    score.Score `json:"gpu_hit_ratio"`   // of these, the GPU's
	RAMHitRatio    score.Score `json:"ram_hit_ratio"`   // and RAM's
	// Effective is the bytes of all rows that batches took, over the seconds of the epochs;
	// Device those read from the drive, over the time in which a read was in flight.
	Effective score.Score `json:"effective_bytes_per_second"`
	Device    score.Score `json:"device_bytes_per_second"`

	Links     []Link      `json:"links"` // the stages of the pipeline, in their order
	Engine    string      `json:"engine"`
	PeakAnon  int64       `json:"peak_anon_bytes"` // of the round that held most
	Valid     score.Score `json:"valid_accuracy"`  // of the best epoch
	Test      score.Score `json:"test_accuracy"`
	Scores    []Scored    `json:"scores"`                    // of the first round
	PackPays  *int        `json:"epochs_until_packing_pays"` // null: never, or nothing to compare
	PackSaves score.Score `json:"packing_saves_seconds"`     // an epoch

	// batches and seconds are what the epochs that count of a round have and take: the least of
	// all rounds.
	batches int
	seconds float64
}

// Link is what a stage of the pipeline takes in an epoch, mean.
type Link struct {
	Name    string  `json:"stage"`
	Seconds float64 `json:"seconds"` // that it would take alone
}

// Scored is the validation score after so many seconds of training and validation.
type Scored struct {
	Epoch   int         `json:"epoch"`
	Seconds float64     `json:"seconds"`
	Valid   score.Score `json:"valid_accuracy"`
}

// Name is what directories and tables have a row by: the store's, and what was taken away.
func (s *Store) Name() string { return rowName(s.Store, s.Ablation) }

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

// summarize says what a store's runs came to.
func summarize(r *row) Store {
	s := Store{
		Store: r.store, Ablation: r.of.name, Rounds: len(r.runs), FirstSeconds: score.Undefined, EpochSeconds: score.Undefined,
		BytesRead: score.Undefined, UsefulBytes: score.Undefined, UsefulFraction: score.Undefined,
		Requests: score.Undefined, HitRatio: score.Undefined, GPUHitRatio: score.Undefined, RAMHitRatio: score.Undefined,
		Effective: score.Undefined, Device: score.Undefined, Valid: score.Undefined, Test: score.Undefined, PackSaves: score.Undefined,
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
	at := 0.0
	for _, e := range first.Epochs {
		if at += e.Seconds + e.ValidSeconds; e.ValidAccuracy.Defined() {
			s.Scores = append(s.Scores, Scored{e.Epoch, at, e.ValidAccuracy})
		}
	}
	return s
}

// shortest takes over the batches and seconds of a round's epochs, where they are fewer.
func (s *Store) shortest(epochs []rundir.Epoch, first bool) {
	batches, seconds := 0, 0.0
	for _, e := range epochs {
		batches, seconds = batches+e.Batches, seconds+e.Seconds
	}
	if first || batches < s.batches {
		s.batches = batches
	}
	if first || seconds < s.seconds {
		s.seconds = seconds
	}
}

// traffic adds up what the epochs read and were served.
func (s *Store) traffic(epochs []rundir.Epoch, w *workload) {
	var read, useful, requests, ram, gpu, rows, seconds, reading float64
	for _, e := range epochs {
		read, useful, requests = read+float64(e.BytesRead), useful+float64(e.UsefulBytes), requests+float64(e.Requests)
		ram, gpu = ram+float64(e.RAMBytes-e.GPUServedBytes), gpu+float64(e.GPUServedBytes)
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
}

// links returns what each link of the pipeline takes alone.
func links(epochs []rundir.Epoch) []Link {
	var list []Link
	for _, e := range epochs {
		for _, l := range e.Links {
			i := slices.IndexFunc(list, func(k Link) bool { return k.Name == l.Link })
			if i < 0 {
				i, list = len(list), append(list, Link{Name: l.Link})
			}
			list[i].Seconds += alone(l) / float64(len(epochs))
		}
	}
	return list
}

func alone(l pipeline.LinkTime) float64 {
	l.Workers = max(1, l.Workers)
	return l.Alone()
}

// payback compares every store with the packed one of its variant, if that has run: with P
// seconds of packing, F of the first epoch and E of each that follows, the pack has paid after
// the least number n of epochs with P + F + (n−1)·E of the pack no more than F + (n−1)·E of the
// store.
func payback(list []Store) {
	for k := range list {
		s := &list[k]
		i := slices.IndexFunc(list, func(p Store) bool { return needsPack(p.Store) && p.Rounds > 0 && p.Ablation == s.Ablation })
		if i < 0 || k == i || s.Rounds == 0 {
			continue
		}
		p := &list[i]
		ahead := p.Preparation.Seconds + float64(p.FirstSeconds-s.FirstSeconds)
		s.PackSaves = s.EpochSeconds - p.EpochSeconds
		if n := 1 + math.Ceil(ahead/float64(s.PackSaves)); ahead <= 0 {
			s.PackPays = new(1)
		} else if s.PackSaves > 0 && n < math.MaxInt32 {
			s.PackPays = new(int(n))
		}
	}
}

// ratio returns a/b, undefined of nothing.
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
