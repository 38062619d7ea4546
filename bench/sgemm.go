package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"diskgnn/train/cpu/blas"
	"diskgnn/train/cpu/sgemm"
)

// sgemmCommand times package blas' kinds of matrix products, side by side, on the shapes of
// training steps and on others:
//
//	go run ./bench sgemm [-threads 2] [-rounds 7] [-shape tn256x256x1024] [-kinds avx512,openblas]
//
// Each kind runs in a process of its own, since OpenBLAS chooses its kernels when it is loaded:
// avx512 and avx2 are the program's own, openblas and haswell OpenBLAS with kernels for AVX-512 and
// for AVX2. DISKGNN_OPENBLAS has the path of an OpenBLAS that is not found by its name. They take
// turns, round by round; each of -threads goroutines repeats the same product on operands of its
// own. A row has the rate of the best round, in 10⁹ operations per second, since other load on the machine
// only makes products slower, and the ratio of the program's own rates to the rates of OpenBLAS.
func sgemmCommand(h *harness, f *flag.FlagSet) func(context.Context, []string) error {
	last := f.Duration("time", 50*time.Millisecond, "duration of one measurement")
	shape := f.String("shape", strings.Join(shapes, ","), "shapes of products: n or t for A and B (t: transposed), M×N×K, and /LDA/LDB/LDC for other distances of rows")
	only := f.String("kinds", "", "kinds to measure; empty: all that this machine has")
	serve := f.String("serve", "", "internal: measure this BLAS with the shapes on standard input")
	return func(context.Context, []string) error {
		if *serve != "" {
			return measureAll(*serve, os.Stdin, os.Stdout)
		}
		if h.rounds < 1 || h.threads < 1 {
			return errors.New("at least one round of one thread")
		}
		workers, err := startWorkers(*only)
		if err != nil {
			return err
		}
		defer func() {
			for _, w := range workers {
				w.end()
			}
		}()
		for _, w := range workers {
			log.Printf("%s: %s", w.name, w.library)
		}
		for shape := range strings.SplitSeq(*shape, ",") {
			r, err := bestRates(workers, request{shape, h.threads, last.Seconds()}, h.rounds)
			if err != nil {
				return err
			}
			if err := h.report(r); err != nil {
				return err
			}
		}
		return nil
	}
}

// bestRates returns the best round of each worker, and the ratios of pairs of them.
func bestRates(workers []*worker, r request, rounds int) (row, error) {
	rates := make(map[string]float64)
	for range rounds {
		for _, w := range workers {
			rate, err := w.measure(r)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", w.name, r.Shape, err)
			}
			rates[w.name] = max(rates[w.name], rate)
		}
	}
	found := row{{"shape", r.Shape}}
	for _, w := range workers {
		found = append(found, field{w.name, rates[w.name]})
	}
	for _, pair := range ratios {
		if a, b := rates[pair[0]], rates[pair[1]]; a > 0 && b > 0 {
			found = append(found, field{pair[0] + "/" + pair[1], a / b})
		}
	}
	return found, nil
}

// kind is a library with kernels for certain instructions.
type kind struct {
	name, blas  string
	environment string
}

var kinds = []kind{
	{"avx512", blas.Builtin, "DISKGNN_SIMD=avx512"},
	{"openblas", blas.OpenBLAS, "OPENBLAS_CORETYPE=SkylakeX"},
	{"avx2", blas.Builtin, "DISKGNN_SIMD=avx2"},
	{"haswell", blas.OpenBLAS, "OPENBLAS_CORETYPE=Haswell"},
	{"gonum", blas.Gonum, ""},
}

// ratios are the pairs of kinds with a ratio of their rates.
var ratios = [][2]string{{"avx512", "openblas"}, {"avx2", "haswell"}}

// shapes are the products of a GraphSAGE, GCN and GAT step of hidden width 256, on features of
// width 100 and 47 classes, as the CPU engine computes them: 512 rows at a time, gradients of
// weights by 256 of their rows. The others show the effect of sizes.
var shapes = []string{
	"nn512x256x200", "nn512x256x512", "nn512x47x512", // [A(x) | x]·W
	"nn512x256x100", "nn512x256x256", "nn512x47x256", // x·W
	"tn200x256x4096", "tn256x256x1024", "tn256x47x1024", "tn100x256x4096", // gradients of the weights
	"nt512x256x256", "nt512x256x47", // gradients of the inputs
	"nn512x272x100", "nn512x272x256", "nt512x256x272", "tn256x272x1024", // of eight heads, multiplying first
	"nn128x32x128/1024/256/256", "tn128x32x128/1024/256/256", "nt128x128x32/256/256/1024", // and last
	"nn128x32x256/2048/256/256", "tn256x32x128/2048/256/256", "nt128x256x32/256/256/2048",
	"nn256x1x32/256/1/1", "nn256x32x1/1/32/256", "tn1x32x256/1/256/32", // their vectors
	"nn512x10x128", "nn37x53x71", "nn64x64x64",
	"nn512x512x512", "nt512x512x512", "tn512x512x512", "tt512x512x512", "nn1024x1024x1024", "nn2048x2048x2048",
}

// request is a worker's next measurement.
type request struct {
	Shape   string
	Threads int
	Seconds float64
}

// worker is a process that measures one kind.
type worker struct {
	kind
	library string
	cmd     *exec.Cmd
	to      io.WriteCloser
	from    *json.Decoder
}

// startWorkers starts a process for each kind that this machine supports.
func startWorkers(only string) ([]*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var workers []*worker
	for _, k := range kinds {
		if only != "" && !slices.Contains(strings.Split(only, ","), k.name) {
			continue
		}
		w := &worker{kind: k, cmd: exec.Command(self, "sgemm", "-serve", k.blas)}
		w.cmd.Env = append(os.Environ(), k.environment)
		w.cmd.Stderr = os.Stderr
		from, err := w.cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if w.to, err = w.cmd.StdinPipe(); err != nil {
			return nil, err
		}
		if err := w.cmd.Start(); err != nil {
			return nil, err
		}
		w.from = json.NewDecoder(bufio.NewReader(from))
		if err := w.from.Decode(&w.library); err != nil {
			w.end()
			log.Printf("%s: not on this machine", k.name)
			continue
		}
		if i := strings.Index(k.environment, "SIMD="); i >= 0 && !strings.Contains(w.library, k.environment[i+len("SIMD="):]) {
			w.end() // the worker runs another kind, since the processor lacks this one
			continue
		}
		workers = append(workers, w)
	}
	if len(workers) == 0 {
		return nil, errors.New("this machine has none of the kinds")
	}
	return workers, nil
}

func (w *worker) end() {
	w.to.Close()
	_ = w.cmd.Wait() // which failed before, if at all
}

func (w *worker) measure(r request) (rate float64, err error) {
	if err := json.NewEncoder(w.to).Encode(r); err != nil {
		return 0, err
	}
	err = w.from.Decode(&rate)
	return rate, err
}

// measureAll answers requests until there are no more.
func measureAll(kind string, in io.Reader, out io.Writer) error {
	lib, err := blas.Open(kind)
	if err != nil {
		return err
	}
	name := lib.Name()
	if kind == blas.Builtin {
		name += ", " + sgemm.Kind()
	}
	requests, answers := json.NewDecoder(in), json.NewEncoder(out)
	if err := answers.Encode(name); err != nil {
		return err
	}
	for {
		var r request
		if err := requests.Decode(&r); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		p, err := parseProduct(r.Shape)
		if err != nil {
			return err
		}
		if err := answers.Encode(multiply(lib, p, r)); err != nil {
			return err
		}
	}
}

// parseProduct returns the product that a word such as tn256x47x1024 or nn128x32x128/1024/256/256
// describes.
func parseProduct(shape string) (p blas.Product, err error) {
	var ta, tb rune
	size, apart, _ := strings.Cut(shape, "/")
	if _, err := fmt.Sscanf(size, "%c%c%dx%dx%d", &ta, &tb, &p.M, &p.N, &p.K); err != nil {
		return p, fmt.Errorf("shape %q: %w", shape, err)
	}
	p.TransA, p.TransB = ta == 't', tb == 't'
	p.LDA, p.LDB, p.LDC = p.K, p.N, p.N
	if p.TransA {
		p.LDA = p.M
	}
	if p.TransB {
		p.LDB = p.K
	}
	if apart != "" {
		if _, err := fmt.Sscanf(apart, "%d/%d/%d", &p.LDA, &p.LDB, &p.LDC); err != nil {
			return p, fmt.Errorf("shape %q: %w", shape, err)
		}
	}
	return p, nil
}

// multiply returns the rate in 10⁹ operations a second.
func multiply(lib *blas.Library, p blas.Product, r request) float64 {
	runtime.GOMAXPROCS(max(r.Threads, 2))
	var wait sync.WaitGroup
	var mu sync.Mutex
	flops := 0.0
	operands := make([][3][]float32, r.Threads)
	for i := range operands {
		operands[i] = operandsOf(rand.New(rand.NewPCG(uint64(i), 1)), sizesOf(p))
	}
	for _, o := range operands {
		wait.Go(func() {
			begin, done := time.Now(), 0
			for time.Since(begin).Seconds() < r.Seconds {
				for range max(1, int(1e7/p.Flops())) {
					lib.Sgemm(p.TransA, p.TransB, p.M, p.N, p.K, 1, o[0], p.LDA, o[1], p.LDB, 0, o[2], p.LDC)
					done++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			flops += float64(done) * p.Flops() / time.Since(begin).Seconds()
		})
	}
	wait.Wait()
	return flops / 1e9
}

// sizesOf returns the numbers of elements of a product's operands.
func sizesOf(p blas.Product) [3]int {
	rows := [3]int{p.M, p.K, p.M}
	if p.TransA {
		rows[0] = p.K
	}
	if p.TransB {
		rows[1] = p.N
	}
	return [3]int{rows[0] * p.LDA, rows[1] * p.LDB, rows[2] * p.LDC}
}

func operandsOf(rng *rand.Rand, sizes [3]int) (o [3][]float32) {
	for i, n := range sizes {
		o[i] = make([]float32, n)
		for k := range o[i] {
			o[i][k] = float32(rng.NormFloat64())
		}
	}
	return o
}
