package train

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"

	"diskgnn/internal/fault"
	"diskgnn/internal/job"
	"diskgnn/internal/secret"
	"diskgnn/train/engine"
	"diskgnn/train/epoch"
	"diskgnn/train/ranks"
	"diskgnn/train/rundir"
)

// viewer is a reporter that learns where a run is to be seen, and looks.
type viewer struct {
	logged
	t    testing.TB
	once sync.Once
	at   Listening
}

func (v *viewer) Record(kind string, at any) {
	if kind == "listening" {
		v.once.Do(func() { v.at = at.(Listening) })
	}
}

// get returns what is served at an address.
func (v *viewer) get(url string) (code int, body string) {
	v.t.Helper()
	a, err := http.Get(url)
	if err != nil {
		v.t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return a.StatusCode, string(b)
}

// metrics returns the samples by name, or name and the value of the only label.
func (v *viewer) metrics() map[string]float64 {
	v.t.Helper()
	_, text := v.get(v.at.Metrics)
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		v.t.Fatalf("%v in\n%s", err, text)
	}
	samples := make(map[string]float64)
	for name, f := range families {
		for _, m := range f.Metric {
			key := name
			if len(m.Label) == 1 {
				key += " " + m.Label[0].GetValue()
			}
			samples[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return samples
}

// Whoever watches a run sees what it does, and changes nothing: it ends with the bytes of one
// that nobody watches. Counters agree with metrics.jsonl, also of a run that goes on.
func TestListen(t *testing.T) {
	defer func(d time.Duration) { epoch.TimesEvery = d }(epoch.TimesEvery)
	epoch.TimesEvery = 0
	w := newWorld(t, worldParams{})
	o := w.options(w.pack(10), func(o *Options) { o.Epochs, o.CheckpointEvery = 3, rundir.Interval{Batches: 1000} })
	w.mustRun(o, nil)
	want := w.ending(o.Out)

	// watch runs and looks ahead of every call of the engine. It returns the first look and
	// the last.
	watch := func(o Options) (first, last map[string]float64, r rundir.Result) {
		t.Helper()
		v := &viewer{t: t}
		within := false // was seen in the middle of an epoch
		r, err := w.run(t.Context(), o, v, func(p *parts) {
			wrapEngine(p, func(e engine.Engine) engine.Engine {
				return &bad{Engine: e, before: func() error {
					now := v.metrics()
					for name, was := range last {
						if strings.Contains(name, "_total") && now[name] < was {
							t.Errorf("%s fell from %v to %v", name, was, now[name])
						}
					}
					const busy = "diskgnn_stage_busy_seconds_total compute"
					if now["diskgnn_epoch"] == 1 && now["diskgnn_epoch_batches_done"] == 5 {
						within = true
						if now[busy] == last[busy] {
							t.Error("the times of stages stand still within an epoch")
						}
					}
					if last = now; first == nil {
						first = now
						_, page := v.get(v.at.URL)
						if !strings.Contains(page, "<b>"+o.Out+"</b>, training.") {
							t.Errorf("the page is\n%s", page)
						}
						if code, page := v.get(v.at.URL + "report"); code != 200 || !strings.Contains(page, "GraphSAGE on") {
							t.Errorf("%d: the report is\n%s", code, page)
						}
					}
					return nil
				}}
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if !within {
			t.Error("no look saw five batches of epoch 1 done")
		}
		if _, err := http.Get(v.at.URL); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("after the run: %v", err)
		}
		if !strings.Contains(v.String(), "listening: the report is at "+v.at.URL) {
			t.Errorf("said\n%s", v)
		}
		return first, last, r
	}
	agree := func(got, want map[string]float64) {
		t.Helper()
		for name, v := range want {
			if got[name] != v {
				t.Errorf("%s is %v, want %v", name, got[name], v)
			}
		}
	}

	o = w.fresh(o)
	o.Listen = ":0"
	first, last, r := watch(o)
	w.ending(o.Out).compare(t, "watched", want)
	agree(first, map[string]float64{"diskgnn_phase training": 1, "diskgnn_batches_total": 0, "diskgnn_epoch": 0, "diskgnn_preload_bytes_total": float64(r.PreloadBytes)})
	if _, ok := first["diskgnn_loss"]; ok {
		t.Error("a loss before the first epoch")
	}
	var sum rundir.Epoch
	seconds := make(map[string]float64)
	for i := range r.Epochs {
		e := &r.Epochs[i]
		sum.Add(e)
		sum.ValidBytesRead += e.ValidBytesRead
		for _, l := range e.Links {
			seconds["diskgnn_stage_busy_seconds_total "+l.Link] += l.Busy
			seconds["diskgnn_stage_waited_seconds_total "+l.Link] += l.Blocked
		}
	}
	perEpoch := r.Epochs[0].Batches
	end := r.Epochs[2]
	agree(last, map[string]float64{"diskgnn_phase testing": 1, "diskgnn_epochs_total": 3,
		"diskgnn_batches_total": float64(3 * perEpoch), "diskgnn_steps_total": float64(3 * perEpoch),
		"diskgnn_read_bytes_total cold":  float64(sum.BytesRead - sum.GraphBytesRead - sum.SSDBytesRead),
		"diskgnn_read_bytes_total graph": float64(sum.GraphBytesRead), "diskgnn_useful_bytes_total": float64(sum.UsefulBytes),
		"diskgnn_served_bytes_total ram": float64(sum.RAMBytes), "diskgnn_input_nodes_total": float64(sum.InputNodes),
		"diskgnn_validation_read_bytes_total": float64(sum.ValidBytesRead), "diskgnn_loss": float64(end.Loss), "diskgnn_learning_rate": float64(end.LR),
		"diskgnn_score train": float64(end.TrainAccuracy), "diskgnn_score valid": float64(end.ValidAccuracy),
		"diskgnn_best_score": float64(r.ValidAccuracy), "diskgnn_best_epoch": float64(r.BestEpoch), "diskgnn_memory_limit_bytes": float64(o.Memory)})
	for name, v := range seconds {
		if got := last[name]; got < v-1e-9 || got > v+1e-3 {
			t.Errorf("%s is %v, metrics.jsonl has %v", name, got, v)
		}
	}
	if sum.RAMBytes == 0 || sum.BytesRead == 0 || len(seconds) == 0 {
		t.Fatalf("nothing to compare: %+v", sum)
	}

	o = w.fresh(o)
	o.Listen = ""
	w.interrupt(o, perEpoch+find(t, o.Pack).Facts().Valid+3)
	o.Listen, o.Resume = "127.0.0.1:0", true
	first, last, _ = watch(o)
	w.ending(o.Out).compare(t, "watched once it was resumed", want)
	before := int(first["diskgnn_epoch"])*perEpoch + int(first["diskgnn_epoch_batches_done"])
	if before == 0 || before%perEpoch == 0 {
		t.Fatalf("resumed after %d batches of epochs of %d", before, perEpoch)
	}
	agree(first, map[string]float64{"diskgnn_batches_total": 0, "diskgnn_read_bytes_total cold": 0, "diskgnn_best_epoch": 0})
	agree(last, map[string]float64{"diskgnn_batches_total": float64(3*perEpoch - before), "diskgnn_epochs_total": 2})
}

// An address that is taken is refused before anything is made.
func TestListenTaken(t *testing.T) {
	w := newWorld(t, worldParams{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := w.options(w.pack(10), func(o *Options) { o.Listen = l.Addr().String() })
	var log logged
	if _, err = w.run(t.Context(), o, &log, nil); !errors.Is(err, syscall.EADDRINUSE) || err.Error() != "--listen "+o.Listen+": address already in use" {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(o.Out); err == nil || log.String() != "" {
		t.Errorf("%v, said %s", err, &log)
	}
}

// Of several ranks rank 0 listens, and what the others read joins its counts.
func TestListenOfRanks(t *testing.T) {
	w := newWorld(t, worldParams{})
	v := []*viewer{{t: t}, {t: t}}
	o := w.options(w.pack(10), func(o *Options) { o.Epochs, o.Accumulate, o.Listen = 2, 2, "127.0.0.1:0" })
	var last map[string]float64
	r := party{w: w, reports: func(rank int) *viewer { return v[rank] }, parts: func(rank int, p *parts) {
		if rank == 0 {
			wrapEngine(p, func(e engine.Engine) engine.Engine {
				return &bad{Engine: e, before: func() error { last = v[0].metrics(); return nil }}
			})
		}
	}}.must(2, o)
	read := 0.0
	for _, e := range r.Epochs {
		read += float64(e.UsefulBytes)
	}
	if n := r.Epochs[0].Batches; last["diskgnn_useful_bytes_total"] != read || last["diskgnn_batches_total"] != float64(2*n) || last["diskgnn_steps_total"] != float64(2*((n+1)/2)) {
		t.Errorf("%v bytes of %v, %v batches and %v steps of 2 epochs of %d", last["diskgnn_useful_bytes_total"], read, last["diskgnn_batches_total"], last["diskgnn_steps_total"], n)
	}
	if v[1].at.URL != "" || !strings.Contains(v[1].String(), "--listen: only rank 0 listens") {
		t.Errorf("rank 1 said\n%s", v[1])
	}
}

// Whoever listens at an address that others reach hears of it, and needs a secret, or to say that
// there is none.
func TestListenBeyondLoopback(t *testing.T) {
	s, err := secret.New("0123456789abcdef", "")
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		o       Options
		refused bool
		says    string
	}{
		"loopback":            {Options{Listen: "127.0.0.1:0"}, false, ""},
		"loopback, a secret":  {Options{Listen: "127.0.0.1:0", Membership: ranks.Membership{Secret: s}}, false, ""},
		"all addresses":       {Options{Listen: "0.0.0.0:0"}, true, ""},
		"all, a secret":       {Options{Listen: "0.0.0.0:0", Membership: ranks.Membership{Secret: s}}, false, "the password is the token of the secret"},
		"all, open":           {Options{Listen: "0.0.0.0:0", Membership: ranks.Membership{Insecure: true}}, false, "whoever reaches this address can read the report and the metrics"},
		"all, open, a secret": {Options{Listen: "0.0.0.0:0", Membership: ranks.Membership{Insecure: true, Secret: s}}, false, "the password is the token of the secret"},
	} {
		var log logged
		c.o.Job = job.Place{Count: 1}
		m, err := c.o.listen(&log)
		if (err != nil) != c.refused || err != nil && !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%s: %v", what, err)
		}
		m.Close()
		if got := strings.TrimSpace(log.String()); !strings.Contains(got, c.says) || c.says == "" && strings.Contains(got, "--listen") || strings.Contains(got, s.Token()) {
			t.Errorf("%s: said %s", what, got)
		}
	}
}
