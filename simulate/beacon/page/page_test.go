package page

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"diskgnn/simulate/beacon"
)

// row is a batch of 100 targets on a platform, in figures that are easy to see again.
func row(platform, workload string, m beacon.Mode, setting string, micros float64) beacon.Row {
	s := micros / 1e6
	r := beacon.Row{Workload: workload, Mode: m, Setting: setting}
	r.Outcome = beacon.Outcome{
		Platform: platform, Batches: 2, Seconds: s, Preparation: s, Compute: s / 4, Targets: 100 / s, PerSecond: 1 / s, Nodes: 400, Commands: 400, RoundTrips: 3,
		ChannelBytes: 4096, PCIeBytes: 2048, UsefulBytes: 1024, Dies: 128, Channels: 16, Cores: 4, DiesBusy: 64, ChannelsBusy: 8, CoresBusy: 1,
		Latency: beacon.Latency{Host: s / 4, PCIe: s / 4, Flash: s / 2, DNN: s / 4},
		Command: beacon.Parts{Dispatch: 1e-6, Wait: 2e-6, Sense: 3e-6, Sample: 4e-6, Held: 5e-6, Transfer: 6e-6, Behind: 2e-6},
		Hops:    []beacon.HopSpan{{Start: 0, End: s / 4, Commands: 100}, {Start: s / 2, End: s, Commands: 300}},
		Joules:  beacon.Joules{Sensing: 3e-3, DRAM: 1e-3}, Watts: 4e-3 / s,
		BinSeconds: 2.5e-6, DieTimeline: []float64{128, 64, 0}, ChannelTimeline: []float64{16, 8, 0}, CoreTimeline: []float64{4, 0, 0},
	}
	return r
}

func result() *beacon.Result {
	r := &beacon.Result{Batches: 2, Seed: 7, Set: []string{"die.tr=3us"}, Inflation: map[string]float64{"amazon": 0.033}}
	for _, m := range []beacon.Mode{beacon.Faithful, beacon.Strict} {
		for _, w := range []string{"reddit<", "amazon"} {
			r.Rows = append(r.Rows, row("CC", w, m, "", 400), row("BG-2", w, m, "", 100))
		}
		for _, s := range []string{"channels=4", "channels=8", "dram.wait=true", "dram.wait=false"} {
			r.Rows = append(r.Rows, row("BG-2", "amazon", m, s, 200))
		}
	}
	r.Claims = []beacon.Claim{{What: "one", Paper: 2, Authors: 2.05, Within: 0.1, Faithful: 2.1, Strict: 1}, {What: "two", Paper: 2, Within: 0.1, Faithful: 3}, {What: "three", Paper: 2, Faithful: 3}}
	r.Doubts = []beacon.Doubt{{What: "one", Halved: 1.5, More: 2.5}}
	r.EnergyDoubts = []beacon.EnergyDoubt{{What: "no cores", OverCC: 9.5, OverBG1: 4.25, Watts: 12.25, DRAMShare: 0.75, PCIeShare: 0.5}}
	return r
}

func written(t *testing.T, r *beacon.Result, m *beacon.Measured) string {
	t.Helper()
	var b strings.Builder
	if err := Write(&b, r, m); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Every picture is there with its figures, and the page stands alone.
func TestPage(t *testing.T) {
	text := written(t, result(), &beacon.Measured{Run: "r", Store: "packed", Engine: "cpu", Epochs: 3, PerSecond: 500})
	for _, want := range []string{
		"BG-2 takes 100 µs for a batch of amazon, CC 4 times as long (faithful). BG-2 takes 100 µs for a batch of amazon, CC 4 times as long (strict). No such drive exists",
		"2 batches on each platform, each in an idle drive; seed 7. Set: die.tr=3us.",
		"<b>3.3 %</b><span>inflation by DirectGraph, amazon</span>", "<b>1.0M</b><span>targets a second of BG-2, amazon, strict</span>",
		"<h2>Targets a second</h2>", "reddit&lt;", "BG-2: 1.0M/s, 4.0 × CC", "Bars are relative to the bar of CC.",
		"<h2>Busy dies over time, amazon</h2>", "Out of 128, while the first batch is read.", "<h2>Busy channels over time, amazon</h2>", "Out of 16,",
		`<polyline class="line c4" points="`, `<polyline class="line c1" points="`,
		"<h2>Where a batch&#39;s time goes, amazon</h2>", ">500 µs<", "PCIe, alone: 100 µs", "flash: 200 µs", "DNN: 25 µs", "round trips and sampling of the host: 25 µs",
		"<h2>Where a command&#39;s time goes, amazon</h2>", ">23 µs<", "waits for its die: 2 µs", "waits for its channel: 5 µs", "DRAM and PCIe: 2 µs",
		"<h2>Spans of hops, amazon</h2>", "hop 1: 50 µs to 100 µs, 300 commands", "<li><i class=\"c1\"></i>targets</li>",
		"<h2>Bytes of a batch, amazon</h2>", "25 % | 50 %", "useful: 1.0 KiB", "of 4.0 KiB", "PCIe: 2.0 KiB",
		"<h2>Round trips through the host, amazon</h2>", "<h2>Busy firmware cores against busy dies, amazon</h2>", "1 of 4 cores, 64 of 128 dies",
		"<h2>Energy of a batch, amazon</h2>", ">4 mJ<", "sensing: 3 mJ", "DRAM of the drive: 1 mJ",
		"<h2>Targets a joule, amazon</h2>", "25000, 40.0 W",
		"<h2>Time between batches, amazon</h2>", "100 µs, +0.0 %",
		"<h2>Batches a second</h2>", "measured: packed, engine cpu", "500/s", "1e+04/s, 20 × | 1e+04/s, 20 ×", "Assumed: the simulated drive",
		"Sweeps, mode strict", "<h2>channels</h2>", "flash channels", "<h2>dram.wait</h2>",
		"<td>one</td><td>2</td><td>2.05</td><td>2.10</td><td>1.00</td><td>1.50</td><td>2.50</td><td>within ±10 %</td>", "<td>misses ±10 %</td>", "<td>no bound was set</td>",
		"<td>no cores</td><td>9.50</td><td>4.25</td><td>12.2</td><td>75 %</td><td>50 %</td>",
		"<td>BG-2, amazon, strict, channels=4</td><td>200.0</td><td>500k</td>", "<td>CC, reddit&lt;, faithful</td><td>400.0</td>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has not %q", want)
		}
	}
	for what, want := range map[string]string{
		"BG-2 is four times CC":              `<rect class="c1" x="0" y="27" width="460" height="7"><title>BG-2: 1.0M targets/s, 4.00 × CC`,
		"CC":                                 `<rect class="c4" x="0" y="18" width="115" height="7"><title>CC: 250k targets/s, 1.00 × CC`,
		"half of the hop's time has passed":  `<rect class="gap" x="0" y="27" width="230" height="7"><title></title></rect>` + "\n" + `<rect class="c3" x="230" y="27" width="230" height="7"><title>hop 1: 200 µs`,
		"a quarter of the cores":             `<rect class="c2" x="0" y="18" width="115" height="7"><title>1 of 4 cores`,
		"half of the dies":                   `<rect class="c1" x="0" y="27" width="230" height="7"><title>64 of 128 dies`,
		"a quarter of channel bytes":         `<rect class="c1" x="0" y="18" width="115" height="7"><title>useful`,
		"three quarters of energy":           `<rect class="c1" x="0" y="18" width="345" height="12"><title>sensing`,
		"a run, beside one of 20 times that": `<rect class="c3" x="0" y="18" width="23" height="12"><title>500/s`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: no picture has %s", what, want)
		}
	}
	if bad := regexp.MustCompile(`(?i)<script|https?:|url\(|@import|NaN|Inf[^l]|<link|src=`).FindString(text); bad != "" {
		t.Errorf("the page has %q", bad)
	}
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1) {
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in\n%s", err, svg)
			}
		}
	}
	for _, c := range regexp.MustCompile(`class="(c\d)"`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(text, "."+c[1]+" {") {
			t.Errorf("the style has no class %s", c[1])
		}
	}
	for _, name := range beacon.PlatformNames() {
		if classes[name] == "" {
			t.Errorf("%s has no colour", name)
		}
	}
}

// What was not simulated leaves its picture out.
func TestPageOfLittle(t *testing.T) {
	for what, r := range map[string]*beacon.Result{
		"nothing":      {},
		"one platform": {Rows: []beacon.Row{row("BG-SP", "samples", beacon.Strict, "", 100)}},
		"one sweep":    {Rows: []beacon.Row{row("BG-1", "ppi", beacon.Strict, "", 100), row("BG-1", "ppi", beacon.Strict, "die.tr=1us", 100)}},
	} {
		text := written(t, r, nil)
		for _, no := range []string{"NaN", "Inf,", "Differences between the modes", "Batches a second", "Published figures", "relative", "times as long"} {
			if strings.Contains(text, no) {
				t.Errorf("%s: the page has %q", what, no)
			}
		}
	}
}

// A long line is drawn of at most so many points, each the mean of its bins.
func TestCurve(t *testing.T) {
	r := row("BG-2", "amazon", beacon.Strict, "", 100)
	busy := make([]float64, 2*mostPoints+1)
	busy[0], busy[1], busy[2*mostPoints] = 3, 6, 5
	c := curve(&r, busy)
	if n := (2*mostPoints + 1 + 2) / 3; len(c.X) != n || len(c.Y) != n {
		t.Fatalf("%d points", len(c.X))
	}
	if last := len(c.X) - 1; c.Y[0] != 3 || c.X[0] != 3.75 || c.Y[last] != 2.5 || c.X[last] != 2.5*(2*mostPoints) {
		t.Errorf("from %v, %v to %v, %v", c.X[0], c.Y[0], c.X[last], c.Y[last])
	}
	if c := curve(&r, []float64{1, 2}); len(c.X) != 2 || c.X[1] != 3.75 || c.Y[1] != 2 {
		t.Errorf("short: %v, %v", c.X, c.Y)
	}
}
