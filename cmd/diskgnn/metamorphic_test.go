package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"diskgnn/internal/metamorphic"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
)

// A variantRun runs the variants of a program, each in a directory of its own.
type variantRun struct {
	*prover
	dir     string
	p       *metamorphic.Program
	variant int
	faults  map[string]int // outcomes of faults, by kind
}

// refusedCommand is the error of a command that ended with a documented exit code, in peace.
type refusedCommand struct {
	message string
	code    int
}

func (r *refusedCommand) Error() string { return r.message }

// call is a command line in process.
type call struct {
	args           []string
	disk           vfs.FS
	code           int
	stdout, stderr bytes.Buffer
}

func (c *call) run() {
	g := &globals{stdout: &c.stdout, stderr: &c.stderr, args: append([]string{"diskgnn"}, c.args...), disk: c.disk}
	// A command that leaves at once ends the process: there is no other way to end its goroutines.
	g.exit = func(code int) {
		fmt.Fprintf(os.Stderr, "left at once: %s\n%s\n", c.describe(), stacks())
		os.Exit(code)
	}
	c.code = g.run(newApp(g), g.args)
}

// stacks returns the stacks of all goroutines.
func stacks() []byte {
	b := make([]byte, 1<<20)
	return b[:runtime.Stack(b, true)]
}

func (c *call) describe() string {
	return fmt.Sprintf("diskgnn %s: exit code %d\n%s", strings.Join(c.args, " "), c.code, c.stderr.String())
}

// path returns the path of one of the variant's directories.
func (l *variantRun) path(name string) string {
	return filepath.Join(l.dir, strconv.Itoa(l.variant), name)
}

// flags returns the flags of a command in the variant, without those in but.
func (l *variantRun) flags(command string, but ...string) (args []string) {
	for _, list := range [][]metamorphic.Setting{l.p.Content, l.p.Variants[l.variant]} {
		for _, s := range list {
			switch {
			case s.Command != command || slices.Contains(but, s.Flag):
			case s.Flag == "topology-memory" && l.p.Free(l.variant, command, "topology") == "":
			case s.Value == "yes":
				args = append(args, "--"+s.Flag)
			default:
				args = append(args, "--"+s.Flag, s.Value)
			}
		}
	}
	return args
}

// step is one command of a variant: its output, and the directories that it reads.
type step struct {
	command string // of which a Fault is
	out     string
	inputs  []string
	args    []string
	again   []string // further arguments when it is run again
}

// run runs a step, with the program's fault if it is in this step. After the fault the step must run, or
// be refused as it is without the fault: by its options.
func (l *variantRun) run(s step) error {
	f := l.p.Fault
	if f == nil || f.Variant != l.variant || f.Command != s.command {
		return l.inPeace(s)
	}
	if err := l.faulty(s, f); err != nil {
		return err
	}
	err := l.inPeace(s)
	no, is := errors.AsType[*refusedCommand](err)
	if !is || no.code == exitUsage || no.code == exitSpace {
		return err
	}
	if slices.Contains(lies, f.Kind) && no.code == exitInput { // a damaged output stays until somebody removes it
		damaged := []string{s.out, stage.Partial(s.out), filepath.Join(l.path("samples"), "features.partitioned")}
		for _, name := range damaged {
			if err := os.RemoveAll(name); err != nil {
				return err
			}
		}
		if err = l.inPeace(s); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s: the command does not run when the fault is over: %w", f, errors.New(err.Error()))
}

// inPeace runs a step without a fault. Where the output is there already, it is as the step makes it.
func (l *variantRun) inPeace(s step) error {
	c := &call{args: append(slices.Concat(s.args, s.again), "--quiet")}
	if c.run(); c.code == exitDone {
		return nil
	}
	if c.code == exitInternal || strings.Contains(c.stderr.String(), "goroutine ") {
		return fmt.Errorf("an internal error: %s", c.describe())
	}
	return &refusedCommand{c.describe(), c.code}
}

// graph makes the variant's dataset.
func (l *variantRun) graph() error {
	free := l.flagsOf("generate", "workers", "memory")
	switch by := l.p.Value("generate", "by"); by {
	case "":
		return l.run(step{"generate", l.path("graph"), nil, append([]string{"generate", "--out", l.path("graph")}, l.flags("generate", "by")...), nil})
	case "import":
		if err := l.inPeace(step{args: append([]string{"generate", "--out", l.path("made")}, l.flags("generate", "by")...)}); err != nil {
			return err
		}
		if err := l.inPeace(step{args: []string{"export", "--dataset", l.path("made"), "--format", "graphbolt", "--out", l.path("tree")}}); err != nil {
			return err
		}
		return l.run(step{"generate", l.path("graph"), nil, append([]string{"import", l.path("tree"), "--out", l.path("graph")}, free...), nil})
	default:
		return os.CopyFS(l.path("graph"), os.DirFS(filepath.Join(l.old, by, "graph")))
	}
}

// flagsOf returns some free flags of a command.
func (l *variantRun) flagsOf(command string, names ...string) (args []string) {
	for _, name := range names {
		if v := l.p.Free(l.variant, command, name); v != "" {
			args = append(args, "--"+name, v)
		}
	}
	return args
}

// sharded runs a step whole, or as shards that are merged.
func (l *variantRun) sharded(s step) error {
	n, _ := strconv.Atoi(l.p.Free(l.variant, s.command, "shards"))
	if n == 0 {
		return l.run(s)
	}
	merge := []string{"merge", "--out", s.out}
	for i := range n {
		part := s
		part.args = append(slices.Clip(s.args), "--shard", fmt.Sprintf("%d/%d", i, n))
		part.out = fmt.Sprintf("%s.shard-%d-of-%d", s.out, i, n)
		run := l.inPeace
		if i == 1 {
			run = l.run
		}
		if err := run(part); err != nil {
			return err
		}
		merge = append(merge, part.out)
	}
	return l.inPeace(step{args: merge})
}

func (l *variantRun) samples() error {
	return l.sharded(step{"presample", l.path("samples"), []string{l.path("graph")},
		append([]string{"presample", "--dataset", l.path("graph"), "--out", l.path("samples")}, l.flags("presample", "shards")...), nil})
}

func (l *variantRun) pack() error {
	return l.sharded(step{"pack", l.path("pack"), []string{l.path("graph"), l.path("samples")},
		append([]string{"pack", "--dataset", l.path("graph"), "--samples", l.path("samples"), "--out", l.path("pack")}, l.flags("pack", "shards")...), nil})
}

// train trains on the store that the variant names.
func (l *variantRun) train() error {
	free := func(flag string) string { return l.p.Free(l.variant, "train", flag) }
	store := l.p.Store(l.variant)
	args := []string{"train", "--out", l.path("run"), "--engine", l.engine(), "--store", store}
	args = append(args, l.flags("train", "store", "batches", "engine", "io", "interrupt", "ranks", "slice", "init-from", "ram-cache", "gpu-cache", "cache-policy")...)
	if store == "rows" {
		args = append(args, l.flagsOf("train", "cache-policy")...)
	}
	if l.engine() == "gpu" {
		args = append(args, "--reduce", "host") // NVIDIA's library is no part of the emulation
		args = append(args, l.flagsOf("train", "gpu-cache")...)
	}
	if cache := free("ram-cache"); cache != "" && l.p.Value("pack", "policy") != "min" && store != "memory" && store != "mmap" && store != "marius" {
		args = append(args, "--ram-cache", cache)
	}
	inputs := []string{l.path("pack")}
	switch {
	case store == "packed":
		if free("slice") != "" && free("io") != "nvme" {
			dir, err := l.sliced()
			if err != nil {
				return err
			}
			inputs[0] = dir
		}
		args = append(args, "--pack", inputs[0])
	case free("batches") == "live":
		inputs = []string{l.path("graph")}
		args = append(args, "--dataset", l.path("graph"), "--dry-epochs", "all")
		for _, s := range l.p.Content {
			if s.Command == "presample" && !slices.Contains([]string{"epochs", "order", "partitions", "buffer", "walk"}, s.Flag) {
				args = append(args, "--"+strings.Replace(s.Flag, "seed", "sample-seed", 1))
				if s.Value != "yes" {
					args = append(args, s.Value)
				}
			}
		}
	default:
		inputs = []string{l.path("graph"), l.path("samples")}
		args = append(args, "--dataset", l.path("graph"), "--samples", l.path("samples"))
	}
	if l.p.Value("train", "init-from") != "" {
		if l.variant == metamorphic.Reference {
			if err := l.initial(); err != nil {
				return err
			}
		}
		args = append(args, "--init-from", l.reference("init"))
	}
	io, err := l.stack(free("io"), inputs[0])
	if err != nil {
		return err
	}
	s := step{"train", l.path("run"), inputs, append(args, "--io", io), []string{"--resume"}}
	if n, _ := strconv.Atoi(free("interrupt")); n > 0 {
		if err := l.interrupted(s, n); err != nil {
			return err
		}
	}
	if free("ranks") != "" {
		return l.ranks(s)
	}
	return l.run(s)
}

// stack returns the value of --io, and loads a directory onto a drive if it needs one.
func (l *variantRun) stack(name, dir string) (string, error) {
	if name != "nvme" {
		return name, nil
	}
	target := "soft:" + l.path("drive")
	return "nvme:" + target, l.inPeace(step{args: []string{"nvme", "load", dir, target, "--size", "8MiB"}})
}

// engine returns the engine of a variant.
func (l *variantRun) engine() string { return cmp.Or(l.p.Free(l.variant, "train", "engine"), "cpu") }

// initial trains the run with the weights that the variants begin with.
func (l *variantRun) initial() error {
	args := []string{"train", "--pack", l.path("pack"), "--out", l.path("init"), "--engine", "cpu", "--epochs", "1", "--seed", "9"}
	return l.inPeace(step{args: append(args, l.modelFlags()...)})
}

// modelFlags returns the flags of train that decide the shapes of weights.
func (l *variantRun) modelFlags() (args []string) {
	for _, s := range l.p.Content {
		if s.Command == "train" && slices.Contains([]string{"model", "hidden", "heads", "aggregator", "gcn-norm", "norm", "residual", "input-projection", "activation"}, s.Flag) {
			if args = append(args, "--"+s.Flag); s.Value != "yes" {
				args = append(args, s.Value)
			}
		}
	}
	return args
}

// sliced makes slices of the pack, and returns the directory to train from. One rank trains from its
// slice. The slices of two have all bytes of the pack together, and zeros where bytes are missing; they
// train from the pack, because ranks of one host find each other by its path.
func (l *variantRun) sliced() (string, error) {
	world := max(1, number(l.p.Free(l.variant, "train", "ranks")))
	var made []string
	for i := range world {
		made = append(made, l.path(fmt.Sprintf("slice-%d", i)))
		args := []string{"slice", "--rank", fmt.Sprintf("%d/%d", i, world), "--accumulate", l.p.Value("train", "accumulate"), l.path("pack"), made[i]}
		if err := l.inPeace(step{args: args}); err != nil {
			return "", err
		}
		if err := l.inPeace(step{args: []string{"verify", made[i]}}); err != nil {
			return "", errors.New(err.Error())
		}
	}
	want, err := content(l.path("pack"))
	for name, b := range want {
		union := make([]byte, len(b))
		for _, dir := range made {
			part, e := os.ReadFile(dir + name)
			if err = errors.Join(err, e); len(part) != len(b) {
				return "", errors.Join(err, fmt.Errorf("%s%s has %d bytes, of the pack's %d", filepath.Base(dir), name, len(part), len(b)))
			}
			for i, x := range part {
				union[i] |= x
			}
		}
		if !bytes.Equal(union, b) {
			return "", fmt.Errorf("the slices of %s of variant %d differ from the pack", name, l.variant)
		}
	}
	if world > 1 {
		return l.path("pack"), err
	}
	return made[0], err
}

// ranks trains with two ranks.
func (l *variantRun) ranks(s step) error {
	var calls [2]*call
	for i := range calls {
		calls[i] = &call{args: append(slices.Concat(s.args, s.again), "--quiet", "--rank", fmt.Sprintf("%d/2", i))}
	}
	var both sync.WaitGroup
	var ended atomic.Bool
	errs := make([]error, len(calls))
	for i, c := range calls {
		both.Go(func() {
			if c.run(); c.code != exitDone && !ended.Swap(true) {
				errs[i] = l.interrupt() // the other rank may wait ten minutes for this one to join
			}
		})
	}
	both.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, c := range calls {
		if c.code == exitInternal {
			return fmt.Errorf("an internal error: %s", c.describe())
		}
	}
	for _, c := range calls {
		if c.code != exitDone {
			return &refusedCommand{c.describe(), c.code}
		}
	}
	return nil
}

func (l *variantRun) predict() error {
	args := append([]string{"predict", "--run", l.path("run"), "--dataset", l.path("graph"), "--out", l.path("out.npy")}, l.flags("predict")...)
	return l.run(step{"predict", l.path("out.npy"), []string{l.path("graph"), l.path("run")}, args, nil})
}

// verify runs verify on the directories of the variant, and it must find nothing.
func (l *variantRun) verify() error {
	for _, name := range []string{"graph", "samples", "pack", "run"} {
		if there, err := vfs.Exists(vfs.OS, l.path(name)); err != nil || !there {
			continue
		}
		c := &call{args: []string{"verify", l.path(name), "--quiet"}}
		if c.run(); c.code != exitDone {
			return fmt.Errorf("a directory that a command has made: %s", c.describe())
		}
	}
	return nil
}

// execute runs the variant. It returns a *refusedCommand if a command was refused.
func (l *variantRun) execute() error {
	if err := os.MkdirAll(l.path("."), 0o777); err != nil {
		return err
	}
	reference := l.variant == metamorphic.Reference
	for _, part := range []struct {
		do      func() error
		left    bool
		compare func() error
	}{
		{l.graph, false, func() error { return l.sameFiles("graph") }},
		{l.samples, l.p.Live(l.variant) && !reference, func() error { return l.sameFiles("samples") }},
		{l.pack, l.p.Store(l.variant) != "packed" && !reference, func() error { return l.sameFiles("pack") }},
		{l.train, false, l.sameRun},
		{l.predict, !l.learns(), l.samePredictions},
		{l.judgeRun, !l.learns(), nil},
	} {
		if part.left {
			continue
		}
		if err := part.do(); err != nil {
			return err
		}
		if !reference && part.compare != nil {
			if err := part.compare(); err != nil {
				return err
			}
		}
	}
	return l.verify()
}

// reference returns the path of a directory of the reference.
func (l *variantRun) reference(name string) string {
	return filepath.Join(l.dir, strconv.Itoa(metamorphic.Reference), name)
}

// content returns the files of a directory that its fingerprint covers.
func content(dir string) (map[string][]byte, error) {
	files := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "run.json" || strings.HasSuffix(path, ".pages") {
			return err
		}
		b, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir)] = b
		return err
	})
	return files, err
}

// sameFiles compares a directory with the reference's, byte by byte.
func (l *variantRun) sameFiles(name string) error {
	want, err := content(l.reference(name))
	if err != nil {
		return err
	}
	got, err := content(l.path(name))
	if err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(want)) {
		if b, ok := got[file]; !ok || !bytes.Equal(b, want[file]) {
			return fmt.Errorf("%s%s of variant %d differs from variant 0's", name, file, l.variant)
		}
	}
	for file := range got {
		if _, ok := want[file]; !ok {
			return fmt.Errorf("%s%s of variant %d is a file that variant 0 does not have", name, file, l.variant)
		}
	}
	return nil
}

// bits reports whether the weights of a variant must have the reference's bits: the order of sums
// follows from the blocks alone, or the rows are in the same order.
func (l *variantRun) bits() bool {
	p := l.p
	fixed := p.Value("train", "model") != "gat" && (p.Value("train", "layer-order") == "aggregate" || p.Value("train", "aggregator") == "max")
	same := func(flag string) bool {
		return p.Free(l.variant, "train", flag) == p.Free(metamorphic.Reference, "train", flag)
	}
	return same("engine") && (fixed || same("store") && same("ram-cache") && same("memory"))
}

// learns reports whether the variant's training has weights: the engine none only loads batches.
func (l *variantRun) learns() bool { return l.engine() != "none" }

// comparable reports whether the variant trains on the reference's rows and batches.
func (l *variantRun) comparable() bool {
	p := l.p
	rounded := p.Value("pack", "dtype") != "" && p.Store(l.variant) != "packed"
	drawn, epochs := max(1, number(p.Value("presample", "epochs"))), number(p.Value("train", "epochs"))
	fresh := p.Live(l.variant) && (p.Value("presample", "order") != "" || drawn < epochs ||
		p.Value("train", "input-projection") != "" && drawn != epochs) // dropout there follows from the hotness
	return l.learns() && !rounded && !fresh
}

func number(s string) int { n, _ := strconv.Atoi(s); return n }

func (l *variantRun) sameRun() error {
	if !l.comparable() {
		return nil
	}
	if !l.bits() {
		return l.sameFirstLoss()
	}
	for _, name := range []string{"metrics.jsonl", "final.safetensors", "weights.safetensors"} {
		want, err := os.ReadFile(filepath.Join(l.reference("run"), name))
		if err != nil {
			return err
		}
		got, err := os.ReadFile(filepath.Join(l.path("run"), name))
		if err != nil {
			return err
		}
		if name == "metrics.jsonl" {
			want, got = losses(want), losses(got)
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%s of variant %d differs from variant 0's", name, l.variant)
		}
	}
	return nil
}

func (l *variantRun) samePredictions() error {
	if !l.comparable() || !l.bits() {
		return nil
	}
	want, err := os.ReadFile(l.reference("out.npy"))
	if err != nil {
		return err
	}
	got, err := os.ReadFile(l.path("out.npy"))
	if err == nil && !bytes.Equal(got, want) {
		err = fmt.Errorf("predictions of variant %d differ from variant 0's", l.variant)
	}
	return err
}

// losses returns the content of metrics.jsonl without times and counters of reads.
func losses(metrics []byte) []byte {
	var out bytes.Buffer
	for line := range bytes.Lines(metrics) {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			fmt.Fprintln(&out, err)
		}
		for _, k := range []string{"epoch", "lr", "loss", "train_accuracy", "valid_accuracy", "train_f1", "valid_f1", "batches", "input_nodes"} {
			fmt.Fprint(&out, k, " ", e[k], " ")
		}
		fmt.Fprintln(&out)
	}
	return out.Bytes()
}
