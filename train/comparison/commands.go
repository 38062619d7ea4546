package comparison

import (
	"fmt"
	"strconv"

	"diskgnn/presample/sampler"
	"diskgnn/presample/sampler/topology"
	"diskgnn/train/cpu/blas"
)

// samplingArgs returns the command that draws the samples.
func (o *Options) samplingArgs(out string) []string {
	s := &o.Sampling
	return []string{"presample", "--dataset", o.Dataset, "--out", out, "--batch-size", strconv.Itoa(s.BatchSize),
		"--fanout", sampler.FormatFanout(s.Fanout), "--eval-fanout", s.EvalFanout, "--epochs", strconv.Itoa(s.Epochs),
		"--seed", fmt.Sprint(o.Train.Seed), "--memory", bytes(o.Train.Memory)}
}

func (v *variant) packArgs() []string {
	args := []string{"pack", "--dataset", v.o.Dataset, "--samples", v.samples, "--out", v.pack, "--io", v.o.Train.IO, "--memory", bytes(v.o.Train.Memory)}
	if v.bare {
		args = append(args, "--cache", "0%")
	}
	return args
}

// trainArgs returns the command that trains with a store. It replaces a run that did not
// finish.
func (r *row) trainArgs(out string) []string {
	o, s := &r.of.o, &r.of.o.Sampling
	args := []string{"train", "--store", r.store, "--out", out, "--force"}
	switch {
	case r.packed:
		args = append(args, "--pack", r.of.pack)
	case o.Live:
		args = append(args, "--dataset", o.Dataset, "--fanout", sampler.FormatFanout(s.Fanout), "--batch-size", strconv.Itoa(s.BatchSize),
			"--eval-fanout", s.EvalFanout, "--sample-seed", fmt.Sprint(o.Train.Seed))
		if c := &o.Train.Topology; c.Level != topology.Mapped {
			args = append(args, "--topology", c.Level)
			if c.Memory != nil {
				args = append(args, "--topology-memory", c.Memory.String())
			}
		}
	default:
		args = append(args, "--dataset", o.Dataset, "--samples", r.of.samples)
	}
	if pageCache := o.Train.PageCache; o.Train.Stores.Design(r.store).Maps && pageCache != "" {
		args = append(args, "--page-cache", pageCache)
	}
	return append(args, o.trainingArgs()...)
}

// trainingArgs returns the flags that are the same for all stores.
func (o *Options) trainingArgs() []string {
	t := &o.Train
	args := []string{"--model", t.Model, "--hidden", strconv.Itoa(t.Hidden), "--epochs", strconv.Itoa(t.Epochs), "--seed", fmt.Sprint(t.Seed),
		"--memory", bytes(t.Memory), "--threads", strconv.Itoa(t.Threads), "--engine", t.Engine, "--io", t.IO}
	if t.BLAS != blas.Auto {
		args = append(args, "--blas", t.BLAS)
	}
	if t.GPUMemory > 0 {
		args = append(args, "--gpu-memory", bytes(t.GPUMemory))
	}
	if t.Slots > 0 {
		args = append(args, "--slots", strconv.Itoa(t.Slots))
	}
	if t.GPUCache != nil {
		args = append(args, "--gpu-cache", t.GPUCache.String())
	}
	if t.RAMCache != nil {
		args = append(args, "--ram-cache", t.RAMCache.String())
	}
	return args
}

// bytes writes a size as flags take it.
func bytes(n int64) string { return fmt.Sprintf("%dB", n) }
