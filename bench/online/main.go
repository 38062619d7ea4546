// Command online holds the loader against reading rows online: what a trainer would do
// that samples the same batches, keeps the same rows in its cache and reads each
// other row where it lies in the feature table, as a page of 4 KiB, with as many
// requests in flight as the I/O backend carries out.
//
// Per row, such a trainer moves a page and needs a request; the loader moves the row
// alone, at the drive's sequential rate. So the loader's speed-up should be
//
//	ideal = sequential rate ÷ (row bytes × random page reads per second)
//
// In turn, several times, it measures the rate that the drive keeps up reading the pack's
// cold files in sequence, random page reads of the table, the online reads of some batches
// evenly spread over the first epoch (scaled to all, and said so), and epochs of `train
// --engine none`. Of all of these, the first seconds do not count: a throttled drive that was
// idle is faster in them. It prints every round, and medians with the least and the most, as
// lines of JSON.
//
//	go run ./bench/online -dataset DATASET -samples SAMPLES -pack PACK -batches 4
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"diskgnn/bench/internal/tool"
	"diskgnn/dataset"
	"diskgnn/device"
	"diskgnn/internal/binio"
	"diskgnn/internal/driverate"
	"diskgnn/internal/vfs"
	"diskgnn/iostack"
	"diskgnn/iostack/all"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
)

type round struct {
	SequentialRate float64 `json:"sequential_bytes_per_second"`
	PageRate       float64 `json:"random_pages_per_second"`
	OnlineBatches  int     `json:"online_batches"` // that were read
	OnlineRows     int64   `json:"online_rows"`
	OnlineSeconds  float64 `json:"online_epoch_seconds"` // of them, scaled to the epoch
	LoaderSeconds  float64 `json:"loader_epoch_seconds"`
	SpeedUp        float64 `json:"speed_up"`
	Ideal          float64 `json:"ideal_speed_up"`
	Fraction       float64 `json:"fraction_of_ideal"`
}

func main() {
	log.SetFlags(0)
	m := measuring{tool: tool.Flag()}
	var pack, data, samples string
	flag.StringVar(&data, "dataset", "", "the dataset")
	flag.StringVar(&samples, "samples", "", "its samples")
	flag.StringVar(&pack, "pack", "", "a static pack of them")
	flag.StringVar(&m.kind, "io", "auto", "--io")
	flag.IntVar(&m.batches, "batches", 4, "batches to read online in every round")
	rounds := flag.Int("rounds", 5, "rounds")
	flag.Parse()
	if err := m.open(data, samples, pack); err != nil {
		log.Fatal(err)
	}
	if err := tool.Rounds(context.Background(), *rounds, m.round,
		tool.Named("sequential_bytes_per_second", func(r round) float64 { return r.SequentialRate }),
		tool.Named("random_pages_per_second", func(r round) float64 { return r.PageRate }),
		tool.Named("online_epoch_seconds", func(r round) float64 { return r.OnlineSeconds }),
		tool.Named("loader_epoch_seconds", func(r round) float64 { return r.LoaderSeconds }),
		tool.Named("speed_up", func(r round) float64 { return r.SpeedUp }),
		tool.Named("ideal_speed_up", func(r round) float64 { return r.Ideal }),
		tool.Named("fraction_of_ideal", func(r round) float64 { return r.Fraction }),
	); err != nil {
		log.Fatal(err)
	}
}

// measuring holds what the rounds share.
type measuring struct {
	tool    *tool.Tool
	kind    string
	batches int

	table   string // the feature table's file
	row     int64  // bytes
	samples *mbfile.Reader
	pack    *packfile.Reader
	drive   *tool.Drive
	rank    []uint32
	cache   int64 // ranks below are in memory
}

func (m *measuring) open(data, samples, pack string) error {
	d, err := dataset.Open(vfs.OS, data)
	if err != nil {
		return err
	}
	m.table, m.row = filepath.Join(data, dataset.FeaturesFile), int64(d.RowBytes())
	if m.samples, err = mbfile.Open(vfs.OS, samples); err != nil {
		return err
	}
	if m.pack, err = packfile.Open(vfs.OS, pack); err != nil {
		return err
	}
	m.drive = tool.ColdDrive(m.kind, m.pack)
	edges := m.pack.Index().Edges
	m.cache = edges[len(edges)-1]
	hotness, err := m.samples.Hotness()
	if err != nil {
		return err
	}
	order := make([]uint32, len(hotness))
	for v := range order {
		order[v] = uint32(v)
	}
	slices.SortStableFunc(order, func(a, b uint32) int { return int(hotness[b]) - int(hotness[a]) })
	m.rank = hotness
	for r, v := range order {
		m.rank[v] = uint32(r)
	}
	return nil
}

func (m *measuring) round(ctx context.Context) (r round, err error) {
	if r.SequentialRate, err = m.drive.Rate(ctx); err != nil {
		return r, err
	}
	stack, _, err := all.Open(m.kind, iostack.Options{})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stack.Close()) }()
	pages, err := iostack.Random(ctx, stack, m.table, binio.Page, 1, driverate.Sustained)
	if err != nil {
		return r, err
	}
	r.PageRate = pages.PerSecond
	// The drive has just been loaded, without a pause: so are these reads.
	if err := m.online(ctx, stack, &r); err != nil {
		return r, err
	}
	if r.LoaderSeconds, err = m.loader(ctx, r.SequentialRate); err != nil {
		return r, err
	}
	r.SpeedUp = r.OnlineSeconds / r.LoaderSeconds
	r.Ideal = r.SequentialRate / (float64(m.row) * r.PageRate)
	r.Fraction = r.SpeedUp / r.Ideal
	return r, nil
}

// loader returns the seconds of an epoch of loading, the mean of those that count, on a
// drive of the given rate.
func (m *measuring) loader(ctx context.Context, rate float64) (float64, error) {
	out, err := os.MkdirTemp("", "online")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(out)
	var tr tool.Training
	epochs := tool.SteadyEpochs(m.rows()*int64(m.pack.Facts().RowBytes), rate)
	err = m.tool.Run(ctx, &tr, "train", "--pack", m.pack.Dir(), "--out", filepath.Join(out, "run"), "--engine", "none", "--epochs", strconv.Itoa(epochs),
		"--ram-cache", fmt.Sprintf("%dB", m.cache*int64(m.pack.Facts().RowBytes)), "--io", m.kind)
	if err != nil {
		return 0, err
	}
	return tool.SteadySeconds(tr.Epochs), nil
}

// rows returns how many rows an epoch of the pack reads from disk, with its least cache.
func (m *measuring) rows() (n int64) {
	for i := range m.samples.Facts().BatchesPerEpoch {
		t := &m.pack.Index().Train[i]
		n += int64(t.ColdRows(len(t.Bands)-1) + t.SSDRows(len(t.SSD)-1))
	}
	return n
}

// online reads the rows of some batches one by one.
func (m *measuring) online(ctx context.Context, stack iostack.Stack, r *round) error {
	f, err := stack.Open(m.table)
	if err != nil {
		return err
	}
	defer f.Close()
	epoch := m.samples.Facts().BatchesPerEpoch
	n := min(m.batches, epoch)
	var raw []byte
	var nodes []uint32
	seconds, cold := 0.0, int64(0)
	for k := range n {
		if nodes, raw, err = m.samples.Inputs(ctx, k*epoch/n, raw); err != nil {
			return err
		}
		var offsets []int64
		for _, v := range nodes {
			if int64(m.rank[v]) >= m.cache {
				offsets = append(offsets, int64(v)*m.row)
			}
		}
		began := time.Now()
		if err := m.readRows(ctx, stack, f, offsets); err != nil {
			return err
		}
		seconds += time.Since(began).Seconds()
		cold += int64(len(offsets))
	}
	// The epoch's cold rows, of which these are a part, are those of the pack.
	r.OnlineBatches, r.OnlineRows = n, cold
	r.OnlineSeconds = seconds * float64(m.rows()) / float64(max(cold, 1))
	return nil
}

// readRows reads the pages that hold the rows at the given offsets, a request each,
// with three micro-batches in flight.
func (m *measuring) readRows(ctx context.Context, stack iostack.Stack, f iostack.File, offsets []int64) error {
	const groups, batch = 3, 256
	span := binio.AlignUp(m.row, binio.Page) // a row that straddles pages needs one more
	if binio.Page%m.row != 0 {
		span += binio.Page
	}
	mem, err := device.NewHost(groups * batch * int(span))
	if err != nil {
		return err
	}
	defer mem.Free()
	var g [groups]iostack.Group
	reqs := make([]iostack.Request, 0, batch)
	for i := 0; len(offsets) > 0; i = (i + 1) % groups {
		if err := stack.Wait(ctx, &g[i]); err != nil {
			return err
		}
		n := min(batch, len(offsets))
		reqs = reqs[:0]
		for k, off := range offsets[:n] {
			lo := off / binio.Page * binio.Page
			hi := min(binio.AlignUp(off+m.row, binio.Page), f.Size())
			at := (i*batch + k) * int(span)
			reqs = append(reqs, iostack.Request{File: f, Offset: lo, Buf: mem.Bytes()[at : at+int(hi-lo)]})
		}
		if err := stack.Submit(&g[i], reqs); err != nil {
			return err
		}
		offsets = offsets[n:]
	}
	for i := range g {
		if err := stack.Wait(ctx, &g[i]); err != nil {
			return err
		}
	}
	return nil
}
