package main

import (
	"context"
	"errors"
	"flag"
	"slices"
	"strings"
)

// exactCommand measures `eval --exact` of a run, with each size of -memory, and with an earlier version of the
// program beside it:
//
//	go run ./bench exact -dataset DATASET -run RUN -memory ",256MiB,128MiB" [-before OLD]
//
// An empty size is the default. bytes_over_plan are the bytes read, by the bytes that --plan foretells;
// peak_anon_bytes is the maximum of anonymous memory, and drive_read_bytes the kernel's count of the reads of the
// process. seconds are the wall time of the command.
func exactCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	h.need(f, "dataset", "run")
	sizes := f.String("memory", "", "sizes of memory, separated by commas")
	before := f.String("before", "", "another version of the program, which takes turns")
	return func(ctx context.Context, args []string) error {
		if len(args) > 0 {
			return errors.New("usage: exact [flags]")
		}
		e := exact{h, []string{"eval", "--exact", "--max-read", "unlimited", "--dataset", h.inputs["dataset"], "--run", h.inputs["run"]}}
		var sides []side
		for _, size := range strings.Split(*sizes, ",") {
			name := "default"
			if size != "" {
				name = size
			}
			if *before != "" {
				sides = append(sides, side{name + " before", func(ctx context.Context, _ int) (row, error) { return e.once(ctx, *before, size) }})
			}
			sides = append(sides, side{name, func(ctx context.Context, _ int) (row, error) { return e.planned(ctx, size) }})
		}
		_, err := h.turns(ctx, sides...)
		return err
	}
}

type exact struct {
	*harness
	command []string
}

// args returns the command with this memory.
func (e *exact) args(size string, more ...string) []string {
	args := slices.Concat(e.command, more)
	if size != "" {
		args = append(args, "--memory", size)
	}
	return args
}

// once scores the run.
func (e *exact) once(ctx context.Context, binary, size string) (row, error) {
	p := program{binary: binary, loud: e.loud}
	var res struct {
		Read    float64 `json:"bytes_read"`
		Written float64 `json:"bytes_written"`
		Peak    float64 `json:"peak_anon_bytes"`
		Test    float64 `json:"test_accuracy"`
	}
	if err := p.run(ctx, &res, e.args(size)...); err != nil {
		return nil, err
	}
	return row{{"seconds", p.watched.seconds}, {"read_bytes", res.Read}, {"written_bytes", res.Written}, {"drive_read_bytes", float64(p.watched.usage.Inblock) * 512},
		{"peak_anon_bytes", res.Peak}, {"test_accuracy", res.Test}}, nil
}

// planned is once for the program under measurement, beside its plan.
func (e *exact) planned(ctx context.Context, size string) (row, error) {
	var plan struct {
		Read   float64 `json:"bytes_read"`
		Layers []struct{ Ranges float64 }
	}
	if err := e.run(ctx, &plan, e.args(size, "--plan")...); err != nil {
		return nil, err
	}
	r, err := e.once(ctx, e.binary, size)
	if err != nil {
		return nil, err
	}
	read, _ := r.number("read_bytes")
	return append(r, field{"bytes_over_plan", read / plan.Read}, field{"passes_of_first_layer", plan.Layers[0].Ranges}), nil
}
