// Command budget measures what a disk budget costs: it packs the samples in the least
// possible space, at points between, and without a budget, and loads an epoch from
// each pack. It prints a line of JSON for each and draws them.
//
//	go run ./bench/budget -dataset DATASET -samples SAMPLES -svg docs/max-disk.svg
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"diskgnn/bench/internal/tool"
)

// point is one pack.
type point struct {
	MaxDisk   int64   `json:"max_disk"` // --max-disk; 0: unlimited
	DiskBytes int64   `json:"disk_bytes"`
	Blowup    float64 `json:"blowup"`
	// Batches of a segment, whose rows share an SSD level.
	SegmentBatches int     `json:"segment_batches"`
	SSDRows        int64   `json:"ssd_rows"`
	ColdRows       int64   `json:"cold_rows"`
	PackSeconds    float64 `json:"pack_seconds"`
	// EpochSeconds are the loader's alone, EpochBytes what it reads, and Amplification
	// that over what the batches use; of the SSD level alone, SSDAmplification.
	EpochSeconds     float64 `json:"epoch_seconds"`
	EpochBytes       int64   `json:"epoch_bytes"`
	Amplification    float64 `json:"amplification"`
	SSDAmplification float64 `json:"ssd_amplification"`
}

// measurement is where and how packs are made and read.
type measurement struct {
	tool                    *tool.Tool
	dataset, samples, cache string
	dir                     string
	epochs                  int
}

func main() {
	log.SetFlags(0)
	m := measurement{tool: tool.Flag()}
	flag.StringVar(&m.dataset, "dataset", "", "the dataset")
	flag.StringVar(&m.samples, "samples", "", "its samples")
	flag.StringVar(&m.cache, "cache", "5%", "of the packs, and of the loader")
	flag.StringVar(&m.dir, "dir", "", "where the packs go; empty: the temporary directory")
	flag.IntVar(&m.epochs, "epochs", 4, "to load; the first is left out, and those within the first three seconds")
	between := flag.Int("between", 2, "points between the least possible and no budget")
	svg := flag.String("svg", "", "draw the points into this file")
	flag.Parse()
	points, err := m.run(context.Background(), *between)
	if err != nil {
		log.Fatal(err)
	}
	if *svg != "" {
		if err := os.WriteFile(*svg, draw(points), 0o666); err != nil {
			log.Fatal(err)
		}
	}
}

// run measures from no budget down to the least one.
func (m *measurement) run(ctx context.Context, between int) ([]point, error) {
	dir, err := os.MkdirTemp(m.dir, "budget")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	m.dir = dir
	least, err := m.least(ctx)
	if err != nil {
		return nil, err
	}
	all, err := m.point(ctx, 0)
	if err != nil {
		return nil, err
	}
	points := []point{all}
	for i := between; i >= 0; i-- {
		// Each point takes the same multiple of the one below it.
		share := float64(i) / float64(between+1)
		p, err := m.point(ctx, int64(math.Ceil(float64(least)*math.Pow(float64(all.DiskBytes)/float64(least), share))))
		if err != nil {
			return nil, err
		}
		points = append(points, p)
	}
	return points, nil
}

// least returns the smallest budget that pack does not refuse, as its refusal says.
func (m *measurement) least(ctx context.Context) (int64, error) {
	out := filepath.Join(m.dir, "none")
	err := m.tool.Run(ctx, new(struct{}), "pack", "--dataset", m.dataset, "--samples", m.samples, "--out", out, "--cache", m.cache, "--max-disk", "1B")
	if err == nil {
		return 0, errors.New("a pack of one byte was made")
	}
	says := regexp.MustCompile(`\((\d+) bytes`).FindStringSubmatch(err.Error())
	if says == nil {
		return 0, err
	}
	return strconv.ParseInt(says[1], 10, 64)
}

// point packs, loads some epochs, and removes the pack.
func (m *measurement) point(ctx context.Context, maxDisk int64) (point, error) {
	p := point{MaxDisk: maxDisk}
	pack := filepath.Join(m.dir, "pack")
	defer os.RemoveAll(pack)
	args := []string{"pack", "--dataset", m.dataset, "--samples", m.samples, "--out", pack, "--cache", m.cache}
	if maxDisk > 0 {
		args = append(args, "--max-disk", strconv.FormatInt(maxDisk, 10)+"B")
	}
	var packed struct {
		DiskBytes int64   `json:"disk_bytes"`
		Blowup    float64 `json:"blowup"`
		SSDRows   int64   `json:"ssd_rows"`
		ColdRows  int64   `json:"cold_rows"`
		Segment   int     `json:"segment_batches"`
		Seconds   float64 `json:"seconds"`
	}
	if err := m.tool.Run(ctx, &packed, args...); err != nil {
		return p, err
	}
	p.DiskBytes, p.Blowup, p.PackSeconds = packed.DiskBytes, packed.Blowup, packed.Seconds
	p.SegmentBatches, p.SSDRows, p.ColdRows = packed.Segment, packed.SSDRows, packed.ColdRows
	var run struct {
		Epochs []struct {
			Seconds   float64 `json:"seconds"`
			Read      int64   `json:"bytes_read"`
			Useful    int64   `json:"useful_bytes"`
			SSDRead   int64   `json:"ssd_bytes_read"`
			SSDUseful int64   `json:"ssd_useful_bytes"`
		} `json:"epochs"`
	}
	err := m.tool.Run(ctx, &run, "train", "--pack", pack, "--out", filepath.Join(m.dir, "run"), "--force", "--engine", "none", "--epochs", fmt.Sprint(m.epochs), "--ram-cache", m.cache)
	if err != nil {
		return p, err
	}
	var seconds []float64
	for _, e := range run.Epochs {
		seconds = append(seconds, e.Seconds)
	}
	var read, useful, ssdRead, ssdUseful int64
	from := tool.SteadyFrom(seconds)
	seconds = seconds[from:]
	for _, e := range run.Epochs[from:] {
		read, useful = read+e.Read, useful+e.Useful
		ssdRead, ssdUseful = ssdRead+e.SSDRead, ssdUseful+e.SSDUseful
	}
	p.EpochSeconds, p.EpochBytes = tool.Median(seconds), read/int64(len(seconds))
	p.Amplification = float64(read) / float64(useful)
	if ssdUseful > 0 {
		p.SSDAmplification = float64(ssdRead) / float64(ssdUseful)
	}
	return p, tool.Print(p)
}
