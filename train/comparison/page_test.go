package comparison

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"diskgnn/train/score"
)

func show3(t *testing.T, r *Result) string {
	t.Helper()
	var b strings.Builder
	if err := r.write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPage: every figure is there with its numbers, and the page stands alone.
func TestPage(t *testing.T) {
	r := three()
	r.Stores[1].Store = "rows<script>" // a name is text
	text := show3(t, r)
	for _, want := range []string{
		"<h1>Stores compared on g</h1>",
		"The store packed is the fastest: an epoch takes 1.00 s; with rows&lt;script&gt;, the slowest, it takes 30.0 s, 30 times as long.",
		"2 rounds of 2 epochs each, within 1.00 GiB of memory, on the same mini-batches.",
		"<h2>Seconds of an epoch</h2>", "by round: 29.0 s, 31.0 s", "the first: 20.0 s",
		"<h2>Seconds of each link, alone</h2>", "read features: 15.0 s", "bound by read features",
		"<h2>Bytes read in an epoch</h2>", "4.0 KiB, 25.0% useful", "other bytes: 3.0 KiB",
		"<h2>Requests in an epoch</h2>", "16 of 256 B",
		"<h2>Bytes a second</h2>", "500 B/s | 8.0 KiB/s", "the drive in sequence: 1.00 GiB/s",
		"<h2>Where the rows came from</h2>", "GPU: 20.0%", "RAM: 40.0%", "drive: 40.0%", "60.0% hits",
		"<h2>Validation score against seconds</h2>",
		"<h2>Preparation</h2>", "40.0 s", "3.0 MiB",
		"<h2>Epochs until packing pays</h2>", "rows&lt;script&gt;: epoch 2",
		"<h2>What did not run</h2>", "<tr><th>memory</th><td>too\nlittle</td></tr>",
		"<th>first</th>", "<tr><td>rows.no-pipeline</td>", "<td>20.0 s</td><td>30.0 s</td><td>6.7%</td>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has not %q", want)
		}
	}
	for _, want := range []string{ // a quarter is useful; 20 % come from the GPU, 40 % from RAM
		`<rect class="c1" x="0" y="18" width="115" height="12"><title>useful: 1.0 KiB`, `<rect class="c1 pale" x="115" y="18" width="345" height="12">`,
		`<rect class="c3" x="0" y="18" width="92" height="12"><title>GPU`, `<rect class="c2" x="92" y="18" width="184" height="12"><title>RAM`, `<rect class="c4" x="276" y="18" width="184" height="12"><title>drive`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no picture has %s", want)
		}
	}
	if bad := regexp.MustCompile(`(?i)<script|https?:|url\(|@import|NaN|<link|src=`).FindString(text); bad != "" {
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
}

// TestPageOfLittle: what is not known leaves nothing that is not a number.
func TestPageOfLittle(t *testing.T) {
	bare := Store{Store: "memory", Rounds: 1, FirstSeconds: 1, EpochSeconds: 1, BytesRead: 0, UsefulFraction: score.Undefined, HitRatio: score.Undefined,
		GPUHitRatio: score.Undefined, RAMHitRatio: score.Undefined, Effective: score.Undefined, Device: score.Undefined, Valid: score.Undefined, Test: score.Undefined, PackSaves: score.Undefined}
	for _, r := range []*Result{{}, {Stores: []Store{bare}}, {Stores: []Store{{Store: "rows", Error: "none"}}}} {
		text := show3(t, r)
		if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") || strings.Contains(text, "Epochs until") || strings.Contains(text, "Preparation") || strings.Contains(text, "score against") {
			t.Errorf("%s", text)
		}
	}
}

// TestPageIsWritten beside the runs, and replaced.
func TestPageIsWritten(t *testing.T) {
	f, o := begin(t)
	o.Stores, o.Rounds = []string{"memory"}, 1
	for range 2 {
		r, err := f.compare(o)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(o.Out, "report.html"))
		if err != nil || r.Page != filepath.Join(o.Out, "report.html") || !strings.HasPrefix(string(b), "<!DOCTYPE html>") {
			t.Errorf("%q: %.40s, %v", r.Page, b, err)
		}
	}
}
