// Command sgemm times the kinds of matrix products that package blas has, side by side, on
// the shapes of training steps and on others.
//
//	go build -o bin/sgemm ./bench/sgemm
//	bin/sgemm [-threads 2] [-rounds 7] [-shape tn256x256x1024] [-kinds avx512,openblas]
//
// Each kind runs in a process of its own, since OpenBLAS chooses its kernels when it is
// loaded: avx512 and avx2 are the program's own, openblas and haswell OpenBLAS with kernels
// for AVX-512 and for AVX2. DISKGNN_OPENBLAS has the path of an OpenBLAS that is not found by
// its name. They take turns, round by round; on each of -threads goroutines the same
// product is computed over and over on operands of its own. Prints a line per shape, with
// 10⁹ operations a second in the best of the rounds, since what else the machine does only
// makes products slower, and what the program's own are of OpenBLAS'; and the same as one
// JSON line at the end.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"diskgnn/bench/internal/tool"
	"diskgnn/train/cpu/blas"
	"diskgnn/train/cpu/sgemm"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sgemm:", err)
		os.Exit(1)
	}
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

// ratios are the kinds whose rates are divided.
var ratios = [][2]string{{"avx512", "openblas"}, {"avx2", "haswell"}}

// shapes are those of a GraphSAGE, GCN and GAT step of hidden width 256, on features of width
// 100 and 47 classes, as the CPU engine computes them: 512 rows at a time, gradients of
// weights by 256 of their rows. The others show what sizes cost.
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

func run(args []string) error {
	f := flag.NewFlagSet("sgemm", flag.ContinueOnError)
	threads := f.Int("threads", 1, "goroutines that multiply, each its own operands")
	rounds := f.Int("rounds", 7, "of all kinds in turn")
	last := f.Duration("time", 50*time.Millisecond, "of one measurement")
	shape := f.String("shape", strings.Join(shapes, ","), "transposes of A and B, n or t, and M×N×K; /LDA/LDB/LDC where rows are further apart")
	only := f.String("kinds", "", "those to measure; without, all that are here")
	serve := f.String("serve", "", "a BLAS: measure what standard input has")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *serve != "" {
		return measureAll(*serve, os.Stdin, os.Stdout)
	}
	if *rounds < 1 || *threads < 1 {
		return errors.New("at least one round of one thread")
	}
	workers, err := start(*only)
	if err != nil {
		return err
	}
	defer func() {
		for _, w := range workers {
			w.end()
		}
	}()
	return compare(os.Stdout, workers, strings.Split(*shape, ","), *rounds, request{Threads: *threads, Seconds: last.Seconds()})
}

// request is what a worker measures next.
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

// start starts the kinds that are here.
func start(only string) ([]*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var workers []*worker
	for _, k := range kinds {
		if only != "" && !slices.Contains(strings.Split(only, ","), k.name) {
			continue
		}
		w := &worker{kind: k, cmd: exec.Command(self, "-serve", k.blas)}
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
			fmt.Fprintf(os.Stderr, "sgemm: without %s\n", k.name)
			continue
		}
		if i := strings.Index(k.environment, "SIMD="); i >= 0 && !strings.Contains(w.library, k.environment[i+len("SIMD="):]) {
			w.end() // another kind, since the processor has not this one
			continue
		}
		workers = append(workers, w)
	}
	if len(workers) == 0 {
		return nil, errors.New("none of the kinds is here")
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

// line is what is found of a shape.
type line struct {
	Shape  string             `json:"shape"`
	Rates  map[string]float64 `json:"gflops"`
	Ratios map[string]float64 `json:"ratios"`
}

func compare(out io.Writer, workers []*worker, shapes []string, rounds int, r request) error {
	libraries := make(map[string]string)
	fmt.Fprintf(out, "%-27s", "")
	for _, w := range workers {
		fmt.Fprintf(out, "%10s", w.name)
		libraries[w.name] = w.library
	}
	for _, pair := range ratios {
		fmt.Fprintf(out, "%18s", pair[0]+"/"+pair[1])
	}
	fmt.Fprintln(out)
	var lines []line
	for _, r.Shape = range shapes {
		l := line{r.Shape, make(map[string]float64), make(map[string]float64)}
		for range rounds {
			for _, w := range workers {
				rate, err := w.measure(r)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", w.name, r.Shape, err)
				}
				l.Rates[w.name] = max(l.Rates[w.name], rate)
			}
		}
		fmt.Fprintf(out, "%-27s", r.Shape)
		for _, w := range workers {
			fmt.Fprintf(out, "%10.1f", l.Rates[w.name])
		}
		for _, pair := range ratios {
			if a, b := l.Rates[pair[0]], l.Rates[pair[1]]; a > 0 && b > 0 {
				l.Ratios[pair[0]+"/"+pair[1]] = a / b
				fmt.Fprintf(out, "%18.2f", a/b)
			}
		}
		fmt.Fprintln(out)
		lines = append(lines, l)
	}
	return tool.Print(map[string]any{"threads": r.Threads, "rounds": rounds, "libraries": libraries, "shapes": lines})
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
		p, err := parse(r.Shape)
		if err != nil {
			return err
		}
		if err := answers.Encode(measure(lib, p, r)); err != nil {
			return err
		}
	}
}

// parse returns the product that a word such as tn256x47x1024 or nn128x32x128/1024/256/256
// describes.
func parse(shape string) (p blas.Product, err error) {
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

// measure returns 10⁹ operations a second.
func measure(lib *blas.Library, p blas.Product, r request) float64 {
	runtime.GOMAXPROCS(max(r.Threads, 2))
	var wait sync.WaitGroup
	var mu sync.Mutex
	flops := 0.0
	operands := make([][3][]float32, r.Threads)
	for i := range operands {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		rows := [3]int{p.M, p.K, p.M}
		if p.TransA {
			rows[0] = p.K
		}
		if p.TransB {
			rows[1] = p.N
		}
		for j, n := range []int{rows[0] * p.LDA, rows[1] * p.LDB, rows[2] * p.LDC} {
			operands[i][j] = make([]float32, n)
			for k := range operands[i][j] {
				operands[i][j][k] = float32(rng.NormFloat64())
			}
		}
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
