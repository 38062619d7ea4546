package main

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSpread(t *testing.T) {
	if s, want := spreadOf([]float64{3, 1, 10, 2}), (spread{2.5, 1, 10, 4}); s != want {
		t.Errorf("%+v, want %+v", s, want)
	}
	if s := spreadOf(nil); !math.IsNaN(s.Median) || s.Rounds != 0 {
		t.Errorf("of nothing: %+v", s)
	}
	rounds := found{"a": {{{"twice", 2}, {"name", "x"}}, {{"twice", int64(10)}, {"name", "y"}}, {{"twice", 6.0}, {"name", "z"}}}}
	sum := rounds.summary("a", func(v []float64) any { return spreadOf(v) })
	if len(sum) != 3 || sum[1] != (field{"rounds", 3}) || sum[2] != (field{"twice", spread{6, 2, 10, 3}}) {
		t.Errorf("%+v", sum)
	}
}

// TestSteady: the first epoch fills the caches, and a drive that was idle is not itself in
// the first three seconds.
func TestSteady(t *testing.T) {
	for _, c := range []struct{ seconds, want []float64 }{
		{[]float64{5, 4, 6}, []float64{4, 6}},
		{[]float64{1, 1, 1.5, 2, 7}, []float64{2, 7}}, // 3.5 seconds are gone
		{[]float64{1, 1}, []float64{1}},
		{[]float64{2}, []float64{2}},
		{nil, nil},
	} {
		var epochs []epoch
		for _, s := range c.seconds {
			epochs = append(epochs, epoch{Seconds: s})
		}
		var got []float64
		for _, e := range steady(epochs) {
			got = append(got, e.Seconds)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v: %v count, want %v", c.seconds, got, c.want)
		}
	}
	// As many epochs as Steady leaves ten seconds of.
	for _, c := range []struct {
		bytes int64
		rate  float64
		want  int
	}{{40e9, 2e9, 2}, {2e9, 2e9, 1 + 2 + 10}, {5e9, 2e9, 1 + 1 + 4}, {0, 1e12, 1000}} {
		if n := steadyEpochs(c.bytes, c.rate); n != c.want {
			t.Errorf("%d bytes at %v: %d epochs, want %d", c.bytes, c.rate, n, c.want)
		}
		each := float64(c.bytes) / c.rate
		epochs := slices.Repeat([]epoch{{Seconds: each}}, c.want)
		if left := each * float64(len(steady(epochs))); c.bytes > 0 && left < steadyFor {
			t.Errorf("%d bytes at %v: %v seconds count", c.bytes, c.rate, left)
		}
	}
}

// TestTurns: the sides take turns, odd rounds go backwards where that is wanted, and each result
// is a line of JSON.
func TestTurns(t *testing.T) {
	var out bytes.Buffer
	var order []string
	sideOf := func(name string) side {
		return side{name, func(_ context.Context, round int) (row, error) {
			order = append(order, name)
			return row{{"n", round}}, nil
		}}
	}
	h := &harness{out: &out, json: true, rounds: 2, swap: true}
	if _, err := h.turns(t.Context(), sideOf("a"), sideOf("b")); err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "b", "a"}; !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
	if lines := strings.Split(out.String(), "\n"); len(lines) != 7 || lines[0] != `{"side":"a","round":0,"n":0}` || lines[4] != `{"side":"a","rounds":2,"n":{"median":0.5,"min":0,"max":1,"rounds":2}}` {
		t.Errorf("%s", out.String())
	}
	if err := h.line(spreadOf(nil)); err == nil {
		t.Error("NaN is no JSON")
	}
	failed := errors.New("no")
	if _, err := h.turns(t.Context(), side{"a", func(context.Context, int) (row, error) { return nil, failed }}); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
}

// TestSame: what must not differ between runs ends turns if it does, and what may differ a little does
// not, nor a hash of weights that --out leaves where it is.
func TestSame(t *testing.T) {
	dir := t.TempDir()
	name, out := filepath.Join(dir, "program"), filepath.Join(dir, "run")
	script := `#!/bin/sh
while [ "$1" != --last ]; do shift; done
mkdir -p ` + out + ` && echo "$2" > ` + out + `/final.safetensors
echo '{"bytes": 5, "epochs": [{"seconds": 9, "loss": 1, "batches": 4}, {"seconds": 2, "loss": '"$2"', "batches": 3}], "close": 1.000000'"$2"'}'
`
	if err := os.WriteFile(name, []byte(script), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flags, wrong string }{
		{"-same bytes,first_loss", ""}, {"-same losses", "losses"}, {"-same weights", "weights"}, {"-same none", "no none"},
		{"-close close", ""}, {"-same close", "close is"}, {"-close loss", "loss is"},
	} {
		var table bytes.Buffer
		args := slices.Concat([]string{"turns", "-bin", name, "-rounds", "2", "-figures", "batches,bytes,epoch_seconds"}, strings.Fields(c.flags),
			[]string{"-each=--last 1", "-each=--last 2", "--", "train", "--out", out})
		err := run(t.Context(), args, &table)
		if c.wrong == "" {
			if err != nil || !strings.Contains(table.String(), "batches        3 ") || !strings.Contains(table.String(), "bytes          5 ") || !strings.Contains(table.String(), "epoch_seconds  2 ") {
				t.Errorf("%s: %v, %s", c.flags, err, table.String())
			}
		} else if err == nil || !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v, want %s", c.flags, err, c.wrong)
		}
	}
}

// TestTable: rows that follow each other with the same fields are one table, whose lines are what
// is more.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	rows := []row{{{"a", 1}, {"b", "x"}}, {{"a", 22}, {"b", "y"}}, {{"c", 0.5}, {"d", spread{1, 0, 2, 3}}}}
	if err := table(&out, rows); err != nil {
		t.Fatal(err)
	}
	if want := "a   b\n1   x\n22  y\nc  0.5\nd  1 (0–2)\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestParse: flags may follow arguments, but for those after --.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"-figures x one -rounds 3 two", []string{"one", "two"}},
		{"-rounds 3 -- train -rounds 4", []string{"train", "-rounds", "4"}},
		{"one -rounds 3 -- -x", []string{"one", "-x"}},
	} {
		h := &harness{rounds: 5}
		f := newFlags(h)
		f.String("figures", "", "")
		if got, err := h.parse(f, strings.Fields(c.args)); err != nil || !slices.Equal(got, c.want) || h.rounds != 3 {
			t.Errorf("%s: %q, %d rounds, %v", c.args, got, h.rounds, err)
		}
	}
	h := &harness{}
	f := newFlags(h)
	h.need(f, "pack")
	if _, err := h.parse(f, nil); err == nil {
		t.Error("-pack is not missed")
	}
}

// TestMain lets the measurements of matrix products run this binary for theirs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "sgemm" {
		main()
		return
	}
	os.Exit(m.Run())
}
