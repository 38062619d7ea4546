// Package tool runs the built program for the benchmarks and does their
// arithmetic.
package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
)

// Tool is the program under measurement.
type Tool struct {
	Binary string
	Quiet  bool // hide its progress
}

// Run calls a subcommand with --json and decodes the last line of its output.
func (t *Tool) Run(ctx context.Context, result any, args ...string) error {
	cmd := exec.CommandContext(ctx, t.Binary, append(args, "--json")...)
	var out bytes.Buffer
	cmd.Stdout = &out
	if !t.Quiet {
		cmd.Stderr = os.Stderr
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", t.Binary, args, err, out.Bytes())
	}
	if err := LastLine(out.Bytes(), result); err != nil {
		return fmt.Errorf("%s %v: %w", t.Binary, args, err)
	}
	return nil
}

// Print writes v to standard output as a line of JSON.
func Print(v any) error {
	line, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Println(string(line))
	}
	return err
}

// LastLine decodes the last line of the program's output.
func LastLine(out []byte, result any) error {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if err := json.Unmarshal(lines[len(lines)-1], result); err != nil {
		return fmt.Errorf("last line is no JSON: %w", err)
	}
	return nil
}

// Epoch is what a training run reports of one epoch.
type Epoch struct {
	Epoch          int     `json:"epoch"`
	Seconds        float64 `json:"seconds"`
	Loss           float64 `json:"loss"`
	TrainAccuracy  float64 `json:"train_accuracy"`
	ValidAccuracy  float64 `json:"valid_accuracy"`
	BytesRead      int64   `json:"bytes_read"`
	UsefulBytes    int64   `json:"useful_bytes"`
	ReadSeconds    float64 `json:"read_seconds"`
	ComputeSeconds float64 `json:"compute_seconds"`
}

// Training is what a training run reports.
type Training struct {
	Engine        string  `json:"engine"`
	IO            string  `json:"io"`
	PreloadBytes  int64   `json:"preload_bytes"`
	Epochs        []Epoch `json:"epochs"`
	BestEpoch     int     `json:"best_epoch"`
	ValidAccuracy float64 `json:"valid_accuracy"`
	TestAccuracy  float64 `json:"test_accuracy"`
	Seconds       float64 `json:"seconds"`
	PeakAnon      int64   `json:"peak_anon_bytes"`
	PeakRSS       int64   `json:"peak_rss_bytes"`
}

// EpochSeconds returns the median over the epochs, the first left out when there
// are others: it fills the caches.
func (t *Training) EpochSeconds() float64 {
	e := t.Epochs
	if len(e) > 1 {
		e = e[1:]
	}
	var s []float64
	for _, x := range e {
		s = append(s, x.Seconds)
	}
	return Median(s)
}

// Median returns the middle value, the mean of the two middle ones for an even
// number; NaN of nothing.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Clone(v)
	slices.Sort(s)
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// MeanSD returns the mean and the sample standard deviation, 0 for one value.
func MeanSD(v []float64) (mean, sd float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	if len(v) < 2 {
		return mean, 0
	}
	for _, x := range v {
		sd += (x - mean) * (x - mean) / float64(len(v)-1)
	}
	return mean, math.Sqrt(sd)
}
