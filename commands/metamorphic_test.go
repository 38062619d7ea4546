package commands

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"diskgnn/device/cuda"
	"diskgnn/internal/mapped"
	"diskgnn/internal/metamorphic"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/faultio"
)

// A variantRun runs the variants of a program, each in a directory of its own.
type variantRun struct {
	*prover
	dir     string
	p       *metamorphic.Program
	variant int
	faults  map[string]int     // outcomes of faults, by kind
	looking func(*watch) error // unless nil, called with the operations of a step that will be struck; an error ends the variant
	one     map[string][]byte  // content of the run on one GPU, if the variant trains on several
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
	below          func(file string, offset int64, p []byte) (int, error) // unless nil, sees reads of storage stacks
	reads          func(files []*mapped.File)                             // and this one reads of mappings
	code           int
	stdout, stderr bytes.Buffer
}

func (c *call) run() {
	g := &globals{stores: builtin, stdout: &c.stdout, stderr: &c.stderr, args: append([]string{"diskgnn"}, c.args...), disk: c.disk}
	// A command that leaves at once ends the process: there is no other way to end its goroutines.
	g.exit = func(code int) {
		fmt.Fprintf(os.Stderr, "left at once: %s\n%s\n", c.describe(), stacks())
		os.Exit(code)
	}
	if c.below != nil {
		defer faultio.Below(c.below)()
	}
	if c.reads != nil {
		defer mapped.Observe(c.reads)()
	}
	c.code = g.run(newApp(g), g.args)
}

// watched makes an observer see all operations of the call.
func (c *call) watched(o observer) {
	c.disk, c.below, c.reads = vfs.Inject(vfs.OS, o), o.below, o.reads
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
func (l *variantRun) flags(command string, but ...string) []string {
	return append(l.contentFlags(command, but...), l.flagsIn(l.p.Variants[l.variant], command, but)...)
}

// contentFlags returns the flags of a command that all variants have, without those in but.
func (l *variantRun) contentFlags(command string, but ...string) []string {
	return l.flagsIn(l.p.Content, command, but)
}

func (l *variantRun) flagsIn(list []metamorphic.Setting, command string, but []string) (args []string) {
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

// run runs a step. Where the program has a fault in it, the step makes its output in peace, and then again
// with several faults, one at a time: it must make the same each time.
func (l *variantRun) run(s step) error {
	f := l.p.Fault
	if f == nil || f.Variant != l.variant || f.Command != s.command {
		return l.inPeace(s)
	}
	list, want, err := l.plan(s, f)
	if err != nil {
		return err
	}
	for _, now := range list {
		if err := s.remove(); err != nil {
			return err
		}
		if err := l.strike(s, now); err != nil {
			return err
		}
		got, err := s.content()
		if err != nil {
			return err
		}
		if file := differing(want, got); file != "" {
			return fmt.Errorf("%s: %s%s differs from that in peace", now, filepath.Base(s.out), file)
		}
	}
	return nil
}

// plan runs a step in peace. It returns the faults of a kind that will strike it, and the step's content.
func (l *variantRun) plan(s step, f *metamorphic.Fault) (list []*strike, content map[string][]byte, err error) {
	var files []string
	if inputFault(f.Kind) {
		if files, err = s.inputFiles(); err != nil {
			return nil, nil, err
		}
	}
	w := newWatch(nil)
	if duringRun(f.Kind) {
		w = newWatch(files)
	}
	if err := l.ends(s, w); err != nil {
		return nil, nil, err
	}
	if l.looking != nil {
		if err := l.looking(w); err != nil {
			return nil, nil, err
		}
	}
	content, err = s.content()
	return strikes(f, w, files), content, err
}

// strike runs a step with a fault, and again without it: it must run then.
func (l *variantRun) strike(s step, f *strike) error {
	if err := l.faulty(s, f); err != nil {
		return err
	}
	err := l.inPeace(s)
	no, is := errors.AsType[*refusedCommand](err)
	if !is {
		return err
	}
	if slices.Contains(lies, f.Kind) && no.code == exitInput { // a damaged output stays until somebody removes it
		if err := errors.Join(s.remove(), os.RemoveAll(filepath.Join(l.path("samples"), "features.partitioned"))); err != nil {
			return err
		}
		if err = l.inPeace(s); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s: the command does not run when the fault is over: %w", f, errors.New(err.Error()))
}

// inPeace runs a step without a fault. Where the output is there already, it is as the step makes it.
func (l *variantRun) inPeace(s step) error { return l.ends(s, nil) }

// ends is inPeace, under a watch unless it is nil.
func (l *variantRun) ends(s step, w *watch) error {
	c := &call{args: append(slices.Concat(s.args, s.again), "--quiet")}
	if w != nil {
		c.watched(w)
	}
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
		args := []string{"import", l.path("tree"), "--out", l.path("graph")}
		if l.p.Typed() {
			args = append(args, "--typed")
		}
		return l.run(step{"generate", l.path("graph"), nil, append(args, free...), nil})
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
	args = append(args, l.flags("train", "store", "batches", "engine", "io", "interrupt", "ranks", "slice", "resume", "longer", "init-from", "ram-cache", "gpu-cache", "cache-policy", "gpus", "peers")...)
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
		args = append(args, l.drawing()...)
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
	if gpus := free("gpus"); gpus != "" {
		if err := l.onOneGPU(s); err != nil {
			return err
		}
		s.args = append(slices.Clip(s.args), "--gpus", gpus)
	}
	if l.lengthened() {
		first := s
		first.args = append(slices.Clip(s.args), "--epochs", "1")
		if err := l.inPeace(first); err != nil {
			return err
		}
		return l.trains(s)
	}
	if n := number(free("interrupt")); n > 0 {
		return l.resumed(s, n)
	}
	return l.trains(s)
}

// onOneGPU trains on one GPU, in peace, and keeps the content for a comparison with several GPUs.
func (l *variantRun) onOneGPU(s step) (err error) {
	if err := l.inPeace(s); err != nil {
		return err
	}
	l.one, err = s.content()
	return errors.Join(err, s.remove())
}

// lengthened reports whether the run first ends after one epoch, and goes on then. Learning rates and
// validations must not depend on the number of epochs.
func (l *variantRun) lengthened() bool {
	p := l.p
	return l.learns() && p.Free(l.variant, "train", "longer") != "" && p.Value("train", "schedule") != "cosine" && p.Value("train", "validate-every") == "" && !p.Live(l.variant)
}

// trains runs training in one process, or in two.
func (l *variantRun) trains(s step) error {
	if l.p.Free(l.variant, "train", "ranks") != "" {
		return l.ranks(s)
	}
	return l.run(s)
}

// resumed interrupts training at its n-th operation on files, and resumes it. The run must be as one without
// interruption; if no other variant has its bits, that one is made first.
func (l *variantRun) resumed(s step, n int) error {
	var want map[string][]byte
	if !l.comparable() || !l.bits() {
		err := l.trains(s)
		if err == nil {
			want, err = s.content()
		}
		if err = errors.Join(err, s.remove()); err != nil {
			return err
		}
	}
	if err := l.interrupted(s, n); err != nil {
		return err
	}
	if l.p.Free(l.variant, "train", "resume") != "" {
		s.again = append(s.again, "--threads", "2", "--slots", "2", "--checkpoint-every", "1")
	}
	err := l.trains(s)
	if err != nil || want == nil {
		return err
	}
	got, err := s.content()
	if err == nil {
		if file := differing(want, got); file != "" {
			err = fmt.Errorf("%s of variant %d, which was resumed, differs from that without interruption", file, l.variant)
		}
	}
	return err
}

// drawing returns the flags of train that draw batches as the samples' were drawn.
func (l *variantRun) drawing() (args []string) {
	for _, s := range l.p.Content {
		if s.Command == "presample" && !slices.Contains([]string{"epochs", "order", "partitions", "buffer", "walk"}, s.Flag) {
			args = append(args, "--"+strings.Replace(s.Flag, "seed", "sample-seed", 1))
			if s.Value != "yes" {
				args = append(args, s.Value)
			}
		}
	}
	return args
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

// emulatedGPUs is the number of GPUs of the emulated machine.
const emulatedGPUs = 3

// apart reports whether the emulated GPUs do not reach each other's memory: then each has the hottest rows.
func (l *variantRun) apart() bool { return l.p.Free(l.variant, "train", "peers") != "" }

// initial trains the run with the weights that the variants begin with.
func (l *variantRun) initial() error {
	args := []string{"train", "--pack", l.path("pack"), "--out", l.path("init"), "--engine", "cpu", "--epochs", "1", "--seed", "9"}
	return l.inPeace(step{args: append(args, l.modelFlags()...)})
}

// modelFlags returns the flags of train that decide the shapes of weights.
func (l *variantRun) modelFlags() (args []string) {
	for _, s := range l.p.Content {
		if s.Command == "train" && slices.Contains([]string{"model", "hidden", "heads", "aggregator", "gcn-norm", "norm", "residual", "input-projection", "activation", "bases"}, s.Flag) {
			if args = append(args, "--"+s.Flag); s.Value != "yes" {
				args = append(args, s.Value)
			}
		}
	}
	return args
}

// sliced makes slices of the pack, and returns the directory to train from. One rank trains from its
// slice. The slices of several have all bytes of the pack together, and zeros where bytes are missing; they
// train from the pack, because ranks of one host find each other by its path, and GPUs share it.
func (l *variantRun) sliced() (string, error) {
	world := max(1, number(l.p.Free(l.variant, "train", "ranks")), number(l.p.Free(l.variant, "train", "gpus")))
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
	args := append([]string{"predict", "--run", l.path("run"), "--dataset", l.path("graph"), "--out", l.path("out.npy")}, l.flags("predict", "shards")...)
	return l.sharded(step{"predict", l.path("out.npy"), []string{l.path("graph"), l.path("run")}, args, nil})
}

// verify runs verify on the directories of the variant, and it must find nothing.
func (l *variantRun) verify() error {
	names := []string{"run"}
	if l.variant == metamorphic.Reference { // the others have the same bytes
		names = append(names, "graph", "samples", "pack")
	}
	for _, name := range names {
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
	if !onRealGPU() {
		defer cuda.Emulate(emulator.Run, emulatedGPUs, l.apart())()
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
		{l.recorded, !l.learns(), nil},
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
