package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// boundaryCommand reports the time in which nothing is computed between the training batches and the
// evaluation batches of a run, from the traces of `diskgnn train --trace`: the median and the longest, in
// milliseconds, by direction. Between an evaluation and the next training batch, the scores are told, and the
// weights and the state are copied.
//
//	go run ./bench boundary RUN/trace.json...
func boundaryCommand(h *harness, _ *flag.FlagSet) func(context.Context, []string) error {
	return func(_ context.Context, traces []string) error {
		if len(traces) == 0 {
			return errors.New("name a trace")
		}
		for _, name := range traces {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			gaps, err := boundaries(b)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			for _, to := range []string{"evaluate", "train"} {
				found := spreadOf(gaps[to])
				if found.Rounds == 0 {
					return fmt.Errorf("%s has no change to %s", name, to)
				}
				if err := h.report(row{{"trace", name}, {"to", to}, {"changes", found.Rounds}, {"median ms", found.Median}, {"longest ms", found.Max}}); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// boundaries returns the times between the end of a batch's computation and the begin of the next one, in
// milliseconds, where the pipeline changes, by the pipeline after it: train or evaluate.
func boundaries(trace []byte) (map[string][]float64, error) {
	var t struct {
		TraceEvents []struct {
			Ph, Name string
			Ts, Dur  float64 // µs
		}
	}
	if err := json.Unmarshal(trace, &t); err != nil {
		return nil, err
	}
	type span struct {
		pipeline   string
		begin, end float64
	}
	var spans []span
	for _, e := range t.TraceEvents {
		pipeline, link, _ := strings.Cut(e.Name, " ")
		if e.Ph == "X" && (strings.HasPrefix(link, "compute") || strings.HasPrefix(link, "launch")) {
			spans = append(spans, span{pipeline, e.Ts, e.Ts + e.Dur})
		}
	}
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.begin, b.begin) })
	gaps := map[string][]float64{}
	for i := 1; i < len(spans); i++ {
		if to := spans[i].pipeline; to != spans[i-1].pipeline {
			gaps[to] = append(gaps[to], (spans[i].begin-spans[i-1].end)/1e3)
		}
	}
	return gaps, nil
}
