package monitor

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"pgregory.net/rapid"

	"diskgnn/internal/budget"
	"diskgnn/pipeline"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// quiet returns a Monitor that nothing reaches.
func quiet() *Monitor {
	return &Monitor{state: newState()}
}

// file describes a run of 3 epochs of 10 batches, in steps of 4.
func file() rundir.File {
	var f rundir.File
	f.Version, f.Store, f.Begun = "v1", "packed", time.Unix(1_600_000_000, 500_000_000)
	f.Params.Epochs, f.Params.Accumulate, f.Params.Model, f.Params.Metric = 3, 4, "sage", "accuracy"
	f.PackFacts.BatchesPerEpoch = 10
	f.Setup.Engine, f.Setup.Memory = "cpu", 1<<30
	return f
}

// links are the times of two of them.
func links(busy, blocked float64) []pipeline.LinkTime {
	return []pipeline.LinkTime{{Link: "read features", Workers: 2, Busy: busy, Blocked: blocked}, {Link: "compute", Workers: 1, Busy: 2 * busy}}
}

// parse reads an exposition as Prometheus does, and returns the samples by name and labels.
func parse(t interface{ Fatalf(string, ...any) }, text string) map[string]float64 {
	var parser expfmt.TextParser
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	samples := make(map[string]float64)
	for name, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			key := name
			if len(labels) > 0 {
				key += "{" + strings.Join(labels, ",") + "}"
			}
			if _, ok := samples[key]; ok {
				t.Fatalf("%s is there twice", key)
			}
			samples[key] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return samples
}

func (m *Monitor) text() string {
	s := m.look()
	return string(s.metrics(budget.Usage{Anon: 5, Locked: 6, RSS: 7}))
}

// A run that goes on in the middle of an epoch, by hand: what was done before is not counted.
func TestMetricsByHand(t *testing.T) {
	m := quiet()
	m.Phase(Filling)
	before := parse(t, m.text())
	want := map[string]float64{
		`diskgnn_phase{phase="preparing"}`: 0, `diskgnn_phase{phase="filling the cache"}`: 1, `diskgnn_phase{phase="training"}`: 0,
		`diskgnn_phase{phase="validating"}`: 0, `diskgnn_phase{phase="testing"}`: 0,
		`diskgnn_memory_bytes{kind="anonymous"}`: 5, `diskgnn_memory_bytes{kind="locked"}`: 6, "process_resident_memory_bytes": 7,
	}
	if diff := cmp.Diff(want, before); diff != "" {
		t.Errorf("before the run has a directory: %s", diff)
	}

	for name, at := range map[string]int64{"train": 1_700_000_000, "evaluate": 1_700_000_100, "another": 1_700_000_200} {
		m.Opened(name, func() time.Time { return time.Unix(at, 500_000_000) })
	}
	m.Closed("another")
	m.Begin(`a"run\`, file(), []rundir.Epoch{{Epoch: 0, Loss: 2, LR: 0.5, TrainAccuracy: 0.25, ValidAccuracy: 0.5, Seconds: 9}}, nil)
	m.Preloaded(1000, 0.5)
	m.Phase(Training)
	m.Start(&rundir.Epoch{Epoch: 1, BytesRead: 100, SSDBytesRead: 10, GraphBytesRead: 20, TopologyBytesRead: 5, Requests: 7, Loss: 2, Links: links(3, 30)}, 4)
	m.Step(&rundir.Epoch{Epoch: 1, BytesRead: 300, SSDBytesRead: 40, GraphBytesRead: 70, TopologyBytesRead: 15, UsefulBytes: 11, RAMBytes: 60, GPUServedBytes: 10,
		BufferBytes: 20, Requests: 10, TopologyRequests: 2, InputNodes: 13, PageHits: 3, PageMisses: 4, Loss: 1.5, Links: links(4, 32)}, 10)
	u := score.Undefined
	e := rundir.Epoch{Epoch: 1, Batches: 10, BytesRead: 300, SSDBytesRead: 40, GraphBytesRead: 70, TopologyBytesRead: 15, UsefulBytes: 11, RAMBytes: 60, GPUServedBytes: 10,
		BufferBytes: 20, Requests: 10, TopologyRequests: 2, InputNodes: 13, PageHits: 3, PageMisses: 4, Links: links(5, 31), Loss: 1.25, LR: 0.125,
		TrainAccuracy: 0.75, ValidAccuracy: u, ValidSeconds: 2, ValidBytesRead: 17, RankBytes: 19, Seconds: 8}
	m.Epoch(&e)
	m.Step(&rundir.Epoch{Epoch: 2, BytesRead: 50, GraphBytesRead: 50, UsefulBytes: 1, Loss: 1, Links: links(1, 1)}, 4)
	maps.Copy(want, map[string]float64{
		`diskgnn_phase{phase="filling the cache"}`: 0, `diskgnn_phase{phase="training"}`: 1,
		`diskgnn_run_info{program="v1",run="a\"run\\",store="packed",model="sage",metric="accuracy",engine="cpu",blas="",simd="",device="",io=""}`: 1,
		"diskgnn_run_start_time_seconds": 1_600_000_000.5, "diskgnn_last_move_time_seconds": 1_700_000_100.5, "diskgnn_memory_limit_bytes": 1 << 30,
		"diskgnn_planned_epochs": 3, "diskgnn_epoch_batches": 10, "diskgnn_epoch": 2, "diskgnn_epoch_batches_done": 4, "diskgnn_running_loss": 1,
		"diskgnn_epochs_total": 1, "diskgnn_batches_total": 10, "diskgnn_steps_total": 3, // the two steps left of 3 an epoch, and one
		"diskgnn_preload_bytes_total": 1000, "diskgnn_preload_seconds_total": 0.5,
		`diskgnn_read_bytes_total{level="cold"}`: 190 - 70 + 0, `diskgnn_read_bytes_total{level="ssd"}`: 30,
		`diskgnn_read_bytes_total{level="graph"}`: 55 - 15 + 50, `diskgnn_read_bytes_total{level="topology"}`: 10,
		"diskgnn_useful_bytes_total": 12, `diskgnn_served_bytes_total{source="gpu"}`: 10,
		`diskgnn_served_bytes_total{source="ram"}`: 30, `diskgnn_served_bytes_total{source="buffer"}`: 20,
		"diskgnn_read_requests_total": 3, "diskgnn_topology_requests_total": 2, "diskgnn_input_nodes_total": 13,
		`diskgnn_page_accesses_total{result="hit"}`: 3, `diskgnn_page_accesses_total{result="miss"}`: 4,
		"diskgnn_validation_read_bytes_total": 17, "diskgnn_validation_seconds_total": 2, "diskgnn_rank_bytes_total": 19,
		`diskgnn_stage_workers{stage="read features"}`: 2, `diskgnn_stage_workers{stage="compute"}`: 1,
		`diskgnn_stage_busy_seconds_total{stage="read features"}`: 3, `diskgnn_stage_busy_seconds_total{stage="compute"}`: 6,
		// 32 s of waiting were seen, of which the epoch's line has 31, and 1 of the next epoch.
		`diskgnn_stage_waited_seconds_total{stage="read features"}`: 2, `diskgnn_stage_waited_seconds_total{stage="compute"}`: 0,
		"diskgnn_loss": 1.25, "diskgnn_learning_rate": 0.125, "diskgnn_epoch_seconds": 8,
		`diskgnn_score{split="train"}`: 0.75, `diskgnn_score{split="valid"}`: 0.5, "diskgnn_best_score": 0.5, "diskgnn_best_epoch": 0,
	})
	if diff := cmp.Diff(want, parse(t, m.text())); diff != "" {
		t.Error(diff)
	}
	problems, err := promlint.New(strings.NewReader(m.text())).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promtool's rules: %v, %v", problems, err)
	}
}

// docs/watching.md lists every metric, and nothing else.
func TestMetricsAreDocumented(t *testing.T) {
	m := quiet()
	f := file()
	f.Setup.GPUBytes = 1
	m.Begin("r", f, []rundir.Epoch{{ValidAccuracy: 0.5}}, nil)
	m.Opened("train", time.Now)
	m.Start(&rundir.Epoch{Links: links(1, 1)}, 0)
	served := make(map[string]bool)
	for sample := range parse(t, m.text()) {
		name, _, _ := strings.Cut(sample, "{")
		served[name] = true
	}
	text, err := os.ReadFile("../../docs/watching.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]bool)
	_, table, _ := strings.Cut(string(text), "| metric | labels | meaning |")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		for i, quoted := range strings.Split(cells[min(1, len(cells)-1)], "`") {
			if i%2 == 1 {
				documented[quoted] = true
			}
		}
	}
	if diff := cmp.Diff(documented, served); diff != "" {
		t.Errorf("documented and served differ: %s", diff)
	}
}

// The text by hand: families have their help and type once, and what is undefined is left out.
func TestExposition(t *testing.T) {
	var x exposition
	x.family("a_total", counter, "Back\\slash and\nline.")
	x.sample(1, "l", "a\"b\\c\nd\xff", "m", "")
	x.sample(float64(score.Undefined), "l", "none")
	x.one("b", gauge, "No sample.", float64(score.Undefined))
	x.one("c", gauge, "Half.", 0.5)
	want := `# HELP a_total Back\\slash and\nline.
# TYPE a_total counter
a_total{l="a\"b\\c\nd` + "\uFFFD" + `",m=""} 1
# HELP c Half.
# TYPE c gauge
c 0.5
`
	if diff := cmp.Diff(want, x.String()); diff != "" {
		t.Error(diff)
	}
	parse(t, x.String())
}

// Whatever a run goes through, in however many attempts: counters never fall, and count
// exactly what was done since the first one.
func TestCountersOfAnyRun(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := quiet()
		f := file()
		f.Params.Accumulate = 1
		m.Begin("r", f, nil, nil)
		now := rundir.Epoch{Epoch: rapid.IntRange(0, 3).Draw(rt, "epoch"), BytesRead: rapid.Int64Range(0, 99).Draw(rt, "bytes before"), Batches: 10, Links: links(1, 2), ValidAccuracy: score.Undefined}
		done := rapid.IntRange(0, 10).Draw(rt, "done before")
		m.Start(&now, done)
		var read, batches, epochs, blocked float64
		before := parse(rt, m.text())
		for range rapid.IntRange(0, 20).Draw(rt, "events") {
			switch rapid.SampledFrom([]string{"step", "step", "look", "epoch", "again"}).Draw(rt, "event") {
			case "step":
				n := rapid.Int64Range(0, 1000).Draw(rt, "bytes")
				waited := float64(rapid.IntRange(0, 9).Draw(rt, "waited"))
				now.BytesRead += n
				now.Links = links(now.Links[0].Busy, now.Links[0].Blocked+waited)
				read, blocked = read+float64(n), blocked+waited
				if done < 10 {
					done++
					batches++
				}
				m.Step(&now, done)
			case "look": // at times that are estimated lower than before
				shorter := now
				shorter.Links = links(now.Links[0].Busy/2, now.Links[0].Blocked/2)
				m.Step(&shorter, done)
			case "epoch":
				batches += float64(10 - done)
				m.Epoch(&now)
				epochs++
				now = rundir.Epoch{Epoch: now.Epoch + 1, Batches: 10, Links: links(0, 0), ValidAccuracy: score.Undefined}
				done = 0
			case "again": // another attempt goes on where this one stopped
				m.Step(&now, done)
				m.Begin("r", f, nil, nil)
				m.Start(&now, done)
			}
			after := parse(rt, m.text())
			for name, v := range before {
				if strings.Contains(name, "_total") && after[name] < v {
					rt.Fatalf("%s fell from %v to %v", name, v, after[name])
				}
			}
			before = after
		}
		m.Step(&now, done)
		got := parse(rt, m.text())
		for name, want := range map[string]float64{`diskgnn_read_bytes_total{level="cold"}`: read, "diskgnn_batches_total": batches, "diskgnn_steps_total": batches,
			"diskgnn_epochs_total": epochs, `diskgnn_stage_waited_seconds_total{stage="read features"}`: blocked} {
			if got[name] != want {
				rt.Fatalf("%s is %v, want %v", name, got[name], want)
			}
		}
	})
}

// What Step was given is the trainer's again.
func TestStepCopies(t *testing.T) {
	m := quiet()
	m.Begin("r", file(), nil, nil)
	l := links(1, 0)
	m.Start(&rundir.Epoch{Links: links(0, 0)}, 0)
	m.Step(&rundir.Epoch{Links: l}, 4)
	l[0].Busy = 100
	m.Start(&rundir.Epoch{Links: links(1, 0)}, 4) // in the next attempt
	m.Step(&rundir.Epoch{Links: links(3, 0)}, 8)
	if got := parse(t, m.text())[`diskgnn_stage_busy_seconds_total{stage="read features"}`]; got != 3 {
		t.Errorf("%v seconds", got)
	}
}

// What is left, by hand: 3 epochs of 10 batches, of which 4 were done before; 6 batches took
// a minute, 20 take 200 seconds.
func TestLeft(t *testing.T) {
	m := quiet()
	m.Begin("r", file(), nil, nil)
	m.Start(&rundir.Epoch{}, 4)
	s := m.look()
	if got := s.left(s.started.Add(time.Minute)); got != 0 {
		t.Errorf("before the first step %v are left", got)
	}
	m.Step(&rundir.Epoch{}, 10)
	s = m.look()
	if got := s.left(s.started.Add(time.Minute)); got != 200*time.Second {
		t.Errorf("%v are left", got)
	}
	for d, want := range map[time.Duration]time.Duration{90400 * time.Millisecond: 90 * time.Second, 59400 * time.Millisecond: 59 * time.Second, 689 * time.Second: 11 * time.Minute} {
		if got := coarse(d); got != want {
			t.Errorf("%v is about %v", d, got)
		}
	}
}

// A run that nobody watches has no Monitor.
func TestNil(t *testing.T) {
	var m *Monitor
	m.Begin("", rundir.File{}, nil, nil)
	m.Phase(Training)
	m.Preloaded(1, 1)
	m.Start(&rundir.Epoch{}, 0)
	m.Step(&rundir.Epoch{}, 1)
	m.Epoch(&rundir.Epoch{})
	m.Close()
}

// A step costs no memory.
func TestStepAllocatesNothing(t *testing.T) {
	m := quiet()
	m.Begin("r", file(), nil, func(io.Writer) error { return nil })
	e := rundir.Epoch{Links: links(1, 1)}
	m.Start(&e, 0)
	if n := testing.AllocsPerRun(100, func() { m.Step(&e, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The samples of a family are next to each other, and its head is before the first.
func TestFamiliesAreTogether(t *testing.T) {
	var seen []string
	for i, c := range counters {
		first := i == 0 || counters[i-1].family != c.family
		if first != (c.help != "") || first && slices.Contains(seen, c.family) {
			t.Errorf("%s, %s: help %q", c.family, c.value, c.help)
		}
		seen = append(seen, c.family)
	}
}
