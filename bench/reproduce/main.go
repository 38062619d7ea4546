// Command reproduce shows on a real dataset what must not change a run: how the
// pack was cut and how much of it is cached (the same losses to the last bit),
// threads (the same weights to the byte), and workers and memory of the earlier
// stages (the same directories to the byte). It prints lines of JSON and fails if
// anything differs.
//
//	go run ./bench/reproduce -dataset DATASET
package main

import (
	"context"
	"crypto/sha256"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"diskgnn/bench/internal/tool"
)

type bench struct {
	tool    *tool.Tool
	dataset string
	work    string
	epochs  string
	n       int
}

func main() {
	log.SetFlags(0)
	b := &bench{tool: tool.Flag()}
	flag.StringVar(&b.dataset, "dataset", "", "an imported or generated dataset")
	flag.StringVar(&b.epochs, "epochs", "2", "training epochs of each run")
	fanout := flag.String("fanout", "10,10", "of the samples")
	batch := flag.String("batch-size", "1000", "of the samples")
	flag.Parse()
	var err error
	if b.work, err = os.MkdirTemp("", "reproduce"); err != nil {
		log.Fatal(err)
	}
	err = b.run(*fanout, *batch)
	if e := os.RemoveAll(b.work); err == nil {
		err = e
	}
	if err != nil {
		log.Fatal(err)
	}
}

// made is what a stage reports of the directory it wrote.
type made struct {
	Fingerprint string `json:"fingerprint"`
}

func (b *bench) run(fanout, batch string) error {
	ctx := context.Background()
	var samples string
	// Workers and memory.
	var first [2]string
	for _, workers := range []string{"1", "2", "7"} {
		for _, memory := range []string{"256MiB", "1GiB", "8GiB"} {
			s, p := b.path("samples"), b.path("pack")
			var ms, mp made
			if err := b.tool.Run(ctx, &ms, "presample", "--dataset", b.dataset, "--out", s, "--fanout", fanout, "--batch-size", batch, "--epochs", "2", "--workers", workers, "--memory", memory); err != nil {
				return err
			}
			if err := b.tool.Run(ctx, &mp, "pack", "--dataset", b.dataset, "--samples", s, "--out", p, "--cache", "10%", "--workers", workers, "--memory", memory); err != nil {
				return err
			}
			got := [2]string{ms.Fingerprint, mp.Fingerprint}
			if err := tool.Print(map[string]any{"workers": workers, "memory": memory, "samples": got[0], "pack": got[1]}); err != nil {
				return err
			}
			if samples == "" {
				first, samples = got, s
			} else if err := os.RemoveAll(s); err != nil {
				return err
			}
			if got != first {
				return fmt.Errorf("%s workers and %s of memory made other bytes", workers, memory)
			}
			if err := os.RemoveAll(p); err != nil {
				return err
			}
		}
	}
	return b.train(ctx, samples)
}

// train varies packs, caches and threads.
func (b *bench) train(ctx context.Context, samples string) error {
	var want, multiply []float64
	var weights string
	for _, cache := range []string{"0", "10%", "100%"} {
		p := b.path("pack")
		var m made
		if err := b.tool.Run(ctx, &m, "pack", "--dataset", b.dataset, "--samples", samples, "--out", p, "--cache", cache); err != nil {
			return err
		}
		for _, ram := range []string{"100%", "30%", "10%", "0"} {
			if cache == "100%" && ram != "100%" || cache == "10%" && ram == "0" {
				continue // below the pack's least
			}
			losses, sum, err := b.once(ctx, p, "--ram-cache", ram, "--layer-order", "aggregate")
			if err != nil {
				return err
			}
			if err := tool.Print(map[string]any{"pack_cache": cache, "ram_cache": ram, "order": "aggregate", "losses": losses, "weights_sha256": sum}); err != nil {
				return err
			}
			if want == nil {
				want, weights = losses, sum
			}
			if fmt.Sprint(losses) != fmt.Sprint(want) || sum != weights {
				return fmt.Errorf("pack --cache %s, --ram-cache %s: another run: losses %v, want %v", cache, ram, losses, want)
			}
		}
		losses, _, err := b.once(ctx, p, "--layer-order", "multiply")
		if err != nil {
			return err
		}
		if err := tool.Print(map[string]any{"pack_cache": cache, "order": "multiply", "losses": losses}); err != nil {
			return err
		}
		if multiply == nil {
			multiply = losses
		}
		if d := math.Abs(losses[0]-multiply[0]) / multiply[0]; d > 1e-5 {
			return fmt.Errorf("multiply first: the first epoch's losses %v and %v are %.2g apart", losses[0], multiply[0], d)
		}
		if cache == "10%" {
			for _, threads := range []int{1, 2, 5} {
				_, sum, err := b.once(ctx, p, "--threads", strconv.Itoa(threads), "--layer-order", "aggregate")
				if err != nil {
					return err
				}
				if err := tool.Print(map[string]any{"threads": threads, "weights_sha256": sum}); err != nil {
					return err
				}
				if sum != weights {
					return fmt.Errorf("%d threads made other weights", threads)
				}
			}
		}
		if err := os.RemoveAll(p); err != nil {
			return err
		}
	}
	return tool.Print(map[string]any{"all": "equal"})
}

// once trains and returns the losses of the epochs and a hash of the weights.
func (b *bench) once(ctx context.Context, pack string, flags ...string) ([]float64, string, error) {
	out := b.path("run")
	defer os.RemoveAll(out)
	var t tool.Training
	err := b.tool.Run(ctx, &t, append([]string{"train", "--pack", pack, "--out", out, "--epochs", b.epochs, "--hidden", "64"}, flags...)...)
	if err != nil {
		return nil, "", err
	}
	var losses []float64
	for _, e := range t.Epochs {
		losses = append(losses, e.Loss)
	}
	raw, err := os.ReadFile(filepath.Join(out, "final.safetensors"))
	return losses, fmt.Sprintf("%x", sha256.Sum256(raw)), err
}

func (b *bench) path(kind string) string {
	b.n++
	return filepath.Join(b.work, fmt.Sprintf("%s-%d", kind, b.n))
}
