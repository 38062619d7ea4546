package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// side is a measurement that takes turns with others.
type side struct {
	name string
	run  func(ctx context.Context, round int) (row, error)
}

// found has the rows of each side's rounds.
type found map[string][]row

// values returns a figure of every round of a side.
func (f found) values(side, name string) (all []float64) {
	for _, r := range f[side] {
		if v, ok := r.number(name); ok {
			all = append(all, v)
		}
	}
	return all
}

func (f found) median(side, name string) float64 { return median(f.values(side, name)) }

// turns runs the sides in turn, in every round, reports each row, and at last the spread of each
// number of each side.
func (h *harness) turns(ctx context.Context, sides ...side) (found, error) {
	all, err := h.measure(ctx, sides...)
	for _, s := range sides {
		if err != nil {
			break
		}
		err = h.report(all.summary(s.name, func(v []float64) any { return spreadOf(v) }))
	}
	return all, err
}

// measure is turns without the summaries.
func (h *harness) measure(ctx context.Context, sides ...side) (found, error) {
	all := found{}
	sides = slices.Clone(sides)
	for round := range h.rounds {
		for _, s := range sides {
			r, err := s.run(ctx, round)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.name, err)
			}
			all[s.name] = append(all[s.name], r)
			if err := h.progress(append(row{{"side", s.name}, {"round", round}}, r...)); err != nil {
				return nil, err
			}
		}
		if h.swap {
			slices.Reverse(sides)
		}
	}
	return all, nil
}

// summary returns a row of a side's numbers, each combined over the rounds.
func (f found) summary(side string, together func(v []float64) any) row {
	sum := row{{"side", side}, {"rounds", len(f[side])}}
	for _, x := range slices.Concat(f[side][:min(1, len(f[side]))]...) {
		if v := f.values(side, x.name); v != nil {
			sum = append(sum, field{x.name, together(v)})
		}
	}
	return sum
}

// turnsCommand runs a command of the program with several lists of flags:
//
//	go run ./bench turns -each "--ram-cache 10%" -each "--ram-cache 100%" -- train --pack PACK --epochs 2
//	go run ./bench turns -rounds 1 -watch -- pack … --memory 512MiB
//
// The output is removed, unless the command has --out. Figures come from the command's last line of
// JSON, and from its last epoch. epoch_seconds is the median of the epochs, and steady_seconds the
// mean of the epochs after three seconds of load, both without the first epoch, which fills the
// caches. Keys of -same must be equal, and keys of -close within a relative 1e-5. The command adds
// the keys weights (a hash of the weights), losses (of all epochs) and first_loss.
func turnsCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	t := turning{harness: h, first: map[string]any{}}
	f.Func("each", "flags of one side, separated by spaces; repeat it for each side", func(s string) error {
		t.each = append(t.each, s)
		return nil
	})
	before := f.String("before", "", "an earlier version of the program, with a side for each -each-before")
	var eachBefore []string
	f.Func("each-before", "flags of one side of the program of -before; repeat it for each side", func(s string) error {
		eachBefore = append(eachBefore, s)
		return nil
	})
	figures := f.String("figures", "epoch_seconds,steady_seconds,bytes_read,bytes_written,read_seconds,compute_seconds,cache_rows,seconds,peak_anon_bytes,peak_rss_bytes",
		"keys to print, if the command has them; ratios are of the first one")
	f.StringVar(&t.same, "same", "", "keys that must not differ")
	f.StringVar(&t.close, "close", "", "keys that must agree to 1e-5")
	f.StringVar(&t.drop, "drop", "", "directories to drop from the page cache before each run")
	f.BoolVar(&h.swap, "swap", false, "begin odd rounds with the last side")
	rated := f.String("drive", "", "a file; the rate of its drive is measured first in every round")
	watch := f.Bool("watch", false, "read the process's memory every 50 ms")
	return func(ctx context.Context, args []string) error {
		if len(args) == 0 {
			return errors.New("usage: turns [flags] -- COMMAND…")
		}
		if *watch {
			h.every = 50 * time.Millisecond
		}
		if t.each == nil {
			t.each = []string{""}
		}
		t.figures = strings.Split(*figures, ",")
		var sides []side
		if *rated != "" {
			sides = append(sides, newDrive(h.io, *rated).side())
		}
		earlier, ofBefore := t, *h
		ofBefore.binary = *before
		earlier.harness = &ofBefore
		for _, more := range eachBefore {
			sides = append(sides, side{"before [" + more + "]", func(ctx context.Context, _ int) (row, error) {
				return earlier.once(ctx, slices.Concat(args, strings.Fields(more)))
			}})
		}
		for _, more := range t.each {
			sides = append(sides, side{"[" + more + "]", func(ctx context.Context, _ int) (row, error) {
				return t.once(ctx, slices.Concat(args, strings.Fields(more)))
			}})
		}
		all, err := h.turns(ctx, sides...)
		if err != nil {
			return err
		}
		name, last := t.figures[0], sides[len(sides)-1].name
		for _, s := range sides[len(sides)-len(t.each)-len(eachBefore) : len(sides)-1] {
			if err := h.report(row{{"side", s.name}, {"over", last}, {name, all.median(s.name, name) / all.median(last, name)}}); err != nil {
				return err
			}
		}
		return nil
	}
}

// turning is the shared state of the sides of turns.
type turning struct {
	*harness
	each, figures     []string
	same, close, drop string
	first             map[string]any // values of the first run, of keys that must not differ
}

// once runs a command, checks the keys of -same and -close, and returns the figures.
func (t *turning) once(ctx context.Context, args []string) (row, error) {
	for _, dir := range fields(t.drop) {
		if err := drop(dir); err != nil {
			return nil, err
		}
	}
	got, err := t.keys(ctx, args)
	if err != nil {
		return nil, err
	}
	for _, key := range append(fields(t.same), fields(t.close)...) {
		v, ok := got[key]
		if !ok {
			return nil, fmt.Errorf("%v prints no %s", args, key)
		}
		was, again := t.first[key]
		if !again {
			t.first[key] = v
			continue
		}
		number, _ := v.(float64)
		before, _ := was.(float64)
		if near := slices.Contains(fields(t.close), key); near && !(math.Abs(number-before) <= 1e-5*math.Abs(before)) || !near && v != was {
			return nil, fmt.Errorf("%v: %s is %v, and was %v", args, key, v, was)
		}
	}
	var r row
	for _, name := range t.figures {
		if v, ok := got[name].(float64); ok {
			r = append(r, field{name, v})
		}
	}
	if t.every > 0 {
		r = append(r, t.watched.fields()...)
	}
	return r, nil
}

// keys runs a command, and returns the last line of its output with turnsCommand's own keys.
func (t *turning) keys(ctx context.Context, args []string) (map[string]any, error) {
	ran, raw, err := t.made(ctx, args...)
	if err != nil {
		return nil, err
	}
	got := map[string]any{"weights": ran.weights}
	if err := json.Unmarshal(raw, &got); err != nil || len(ran.Epochs) == 0 {
		return got, err
	}
	epochs := got["epochs"].([]any)
	for key, v := range epochs[len(epochs)-1].(map[string]any) {
		if _, ok := got[key]; !ok {
			got[key] = v
		}
	}
	var losses []float64
	for _, e := range ran.Epochs {
		losses = append(losses, e.Loss)
	}
	maps.Copy(got, map[string]any{"epoch_seconds": ran.epochSeconds(), "steady_seconds": steadySeconds(ran.Epochs), "losses": fmt.Sprint(losses), "first_loss": losses[0]})
	return got, nil
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// drop drops the files of a directory from the page cache.
func drop(dir string) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range files {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		err = errors.Join(unix.Fdatasync(int(f.Fd())), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close())
		if err != nil {
			return err
		}
	}
	return nil
}
