package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"diskgnn/dataset/importer"
	"diskgnn/dataset/importer/raw"
	"diskgnn/internal/vfs"
)

// tablesCommand measures tables of edges, as bench/importing/tables.py writes them:
//
//	go run ./bench tables -dir DIR [-before OLD] [-nodes N] FILE…
//
// Every round imports each file with the program, and with OLD, an earlier version of it. It also reads the file
// alone, by the importer that this command is built with. edges_per_second is the edges by the seconds of the
// whole command; reading_per_second counts the stage that reads the edges and divides them among the files that
// are sorted later.
func tablesCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	t := reading{harness: h}
	f.Int64Var(&t.nodes, "nodes", 2_000_000, "nodes, more than the largest id")
	before := f.String("before", "", "another version of the program, which takes turns")
	return func(ctx context.Context, files []string) error {
		if len(files) == 0 {
			return errors.New("usage: tables [flags] FILE…")
		}
		if _, err := h.place(); err != nil {
			return err
		}
		var sides []side
		for _, file := range files {
			name := filepath.Base(file)
			for _, v := range []struct{ name, binary string }{{"before", *before}, {"imported", h.binary}} {
				if v.binary != "" {
					sides = append(sides, side{name + " " + v.name, func(ctx context.Context, _ int) (row, error) { return t.imported(ctx, v.binary, file) }})
				}
			}
			sides = append(sides, side{name + " read alone", func(ctx context.Context, _ int) (row, error) { return t.alone(ctx, file) }})
		}
		_, err := h.turns(ctx, sides...)
		return err
	}
}

type reading struct {
	*harness
	nodes int64
}

// imported imports the edges, with one feature and two classes that are drawn.
func (t *reading) imported(ctx context.Context, binary, file string) (_ row, err error) {
	out := t.path("dataset")
	if err := os.RemoveAll(out); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(out)) }()
	cmd := exec.CommandContext(ctx, binary, "import", "--out", out, "--edges", file, "--nodes", strconv.FormatInt(t.nodes, 10),
		"--features", "random:1", "--labels", "random:2", "--split", "60/20/20", "--progress", "json", "--json")
	var lines bytes.Buffer
	cmd.Stderr = &lines
	b, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", cmd, err, lines.Bytes())
	}
	var res struct {
		Edges, Seconds float64
		Peak           float64 `json:"peak_anon_bytes"`
	}
	if err := lastLine(b, &res); err != nil {
		return nil, err
	}
	var seconds float64
	for line := range bytes.Lines(lines.Bytes()) {
		var e struct {
			Event, Task string
			Seconds     float64
		}
		if json.Unmarshal(line, &e) == nil && e.Event == "end" && e.Task == "read edges" {
			seconds += e.Seconds
		}
	}
	return row{{"edges", res.Edges}, {"edges_per_second", res.Edges / res.Seconds}, {"reading_per_second", res.Edges / seconds}, {"peak_anon_bytes", res.Peak}}, nil
}

// alone reads the edges, and does nothing with them.
func (t *reading) alone(ctx context.Context, file string) (row, error) {
	s, err := raw.Format.Open(vfs.OS, nil, &importer.Reading{Edges: file, Nodes: t.nodes, FeatureFile: "random:1", LabelFile: "random:2"})
	if err != nil {
		return nil, err
	}
	began := time.Now()
	edges := 0
	err = s.Edges(ctx, func(dst, _ []int64) error {
		edges += len(dst)
		return nil
	})
	return row{{"edges", edges}, {"edges_per_second", float64(edges) / time.Since(began).Seconds()}}, err
}
