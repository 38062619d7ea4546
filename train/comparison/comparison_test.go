package comparison

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"diskgnn/dataset"
	"diskgnn/featurestore/all"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/presample"
	"diskgnn/presample/mbfile"
	"diskgnn/train/rundir"
)

var disk = vfs.Unsynced(vfs.OS)

// fake stands for the program: it draws samples, but packs are empty, and runs have times
// that it makes up.
type fake struct {
	t    *testing.T
	fail map[string]error // by store, or command
	ran  []string         // what was done, in order
}

// value returns a flag's.
func value(args []string, flag string) string {
	if i := slices.Index(args, flag); i >= 0 {
		return args[i+1]
	}
	return ""
}

func (f *fake) run(ctx context.Context, args []string) ([]byte, error) {
	out, store := value(args, "--out"), value(args, "--store")
	name := args[0]
	if store != "" {
		name = filepath.Base(out)
	}
	f.ran = append(f.ran, name)
	if err := errors.Join(f.fail[args[0]], f.fail[store]); err != nil {
		return nil, err
	}
	switch args[0] {
	case "presample":
		fan, err := presample.ParseFanout(value(args, "--fanout"))
		if err != nil {
			return nil, err
		}
		size, err := strconv.Atoi(value(args, "--batch-size"))
		if err != nil {
			return nil, err
		}
		epochs, err := strconv.Atoi(value(args, "--epochs"))
		if err != nil {
			return nil, err
		}
		_, err = presample.Run(ctx, disk, presample.Options{Dataset: value(args, "--dataset"), Out: out, BatchSize: size, Fanout: fan, Epochs: epochs}, progress.Discard)
		return []byte("{}"), err
	case "pack":
		err := os.MkdirAll(out, 0o777)
		if err == nil {
			err = os.WriteFile(filepath.Join(out, "run.json"), []byte(`{"seconds": 12}`), 0o666)
		}
		return []byte("{}"), err
	}
	d, err := rundir.Begin(disk, out, slices.Contains(args, "--force"), rundir.File{})
	if err != nil {
		return nil, err
	}
	defer d.Unlock()
	d.End(rundir.StateFinished, nil)
	d.File.Result = run(9, 2, 2)
	if store != "packed" {
		d.File.Result = run(9, 2, 6)
	}
	return []byte("{}"), errors.Join(d.CloseMetrics(), d.Save())
}

// begin returns a program and options that compare two stores on a small graph.
func begin(t *testing.T) (*fake, Options) {
	t.Helper()
	dir := t.TempDir()
	data := filepath.Join(dir, "g")
	if _, err := dataset.Generate(t.Context(), disk, data, dataset.GenerateOptions{Nodes: 400, Dim: 8, AvgDegree: 3, Classes: 2, TrainRatio: 0.2}, progress.Discard); err != nil {
		t.Fatal(err)
	}
	o := Defaults(all.Builtin())
	o.Dataset, o.Out, o.Stores, o.DriveSeconds = data, filepath.Join(dir, "out"), []string{"rows", "packed"}, 0.001
	o.Sampling.Fanout, o.Sampling.BatchSize = []int{2, 2}, 10
	o.Train.IO = "pread"
	return &fake{t: t, fail: map[string]error{}}, o
}

func (f *fake) compare(o Options) (Result, error) {
	f.ran = nil
	return Run(f.t.Context(), disk, o, f.run, progress.Discard)
}

func (f *fake) expect(want ...string) {
	f.t.Helper()
	if !slices.Equal(f.ran, want) {
		f.t.Errorf("ran %q, want %q", f.ran, want)
	}
}

// TestRounds: stores run in turn, and what is finished is not run again, also when more
// rounds or stores are wanted. Another comparison is refused.
func TestRounds(t *testing.T) {
	f, o := begin(t)
	r, err := f.compare(o)
	if err != nil {
		t.Fatal(err)
	}
	f.expect("presample", "pack", "rows-1", "packed-1", "rows-2", "packed-2")
	rows, packed := r.Stores[0], r.Stores[1]
	if len(r.Stores) != 2 || rows.Store != "rows" || rows.Rounds != 2 || rows.EpochSeconds != 4 || packed.EpochSeconds != 2 {
		t.Errorf("%+v", r.Stores)
	}
	if packed.Preparation != (Preparation{12, 15}) || rows.Preparation != r.Checksums || *rows.PackPays != 7 || packed.PackPays != nil {
		t.Errorf("%+v", r.Stores)
	}
	if c := r.Checksums; c.Seconds <= 0 || c.DiskBytes != 16 { // 12,800 bytes of features are on four pages
		t.Errorf("checksums %+v", c)
	}
	if r.Seeds != 80 || r.SeedFraction != 0.2 || r.Batches != 8 {
		t.Errorf("%d seed nodes, %v of all, in %d batches", r.Seeds, r.SeedFraction, r.Batches)
	}
	if r.Drive.Sequential <= 0 || r.Drive.Random <= 0 || r.Drive.Backend != "pread" || r.EstimatedSeconds <= 0 || r.Sampling.DiskBytes == 0 {
		t.Errorf("%+v", r)
	}
	if sum := rows.EstimatedSeconds + packed.EstimatedSeconds; sum != r.EstimatedSeconds || rows.EstimatedSeconds == packed.EstimatedSeconds {
		t.Errorf("estimates %v and %v of %v", rows.EstimatedSeconds, packed.EstimatedSeconds, r.EstimatedSeconds)
	}

	o.Rounds, o.Stores = 3, []string{"memory", "rows"}
	if err := os.RemoveAll(filepath.Join(o.Out, "rows-2")); err != nil {
		t.Fatal(err)
	}
	again, err := f.compare(o)
	if err != nil {
		t.Fatal(err)
	}
	f.expect("presample", "memory-1", "memory-2", "rows-2", "memory-3", "rows-3")
	if again.Checksums != r.Checksums || again.Stores[0].Preparation != (Preparation{}) || again.Stores[1].Preparation != r.Checksums {
		t.Errorf("checksums were %+v: %+v", r.Checksums, again)
	}

	o.Train.PageCache = "cgroup"
	if _, err := f.compare(o); !errors.Is(err, fault.ErrExists) {
		t.Errorf("another page cache: %v", err)
	}
	o.Train.PageCache = ""
	o.Train.Hidden = 12
	if _, err := f.compare(o); !errors.Is(err, fault.ErrExists) || !strings.Contains(err.Error(), "another --out") {
		t.Errorf("other flags: %v", err)
	}
	o.Out = filepath.Dir(o.Out)
	if _, err := f.compare(o); !errors.Is(err, fault.ErrExists) {
		t.Errorf("another directory: %v", err)
	}
	f.expect()
}

// TestUnfinished: a run that was cut off is replaced, and a directory in use is left alone.
func TestUnfinished(t *testing.T) {
	f, o := begin(t)
	o.Stores, o.Rounds = []string{"rows"}, 1
	if _, err := f.compare(o); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(o.Out, "rows-1")
	d, err := rundir.Begin(disk, dir, true, rundir.File{Result: run(1, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err := f.compare(o); err != nil || r.Stores[0].Rounds != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	f.expect("presample", "rows-1")

	lock, err := disk.Lock(filepath.Join(o.Out, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if _, err := f.compare(o); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("locked: %v", err)
	}
}

// TestFailures: a store that fails has its error in its row, and is not tried again; the
// others go on. If none runs, there is an error.
func TestFailures(t *testing.T) {
	f, o := begin(t)
	little := fault.New(fault.ErrBudget, "too little")
	f.fail["rows"] = little
	r, err := f.compare(o)
	if err != nil {
		t.Fatal(err)
	}
	f.expect("presample", "pack", "rows-1", "packed-1", "packed-2")
	if s := r.Stores[0]; s.Error != "too little" || s.Rounds != 0 || s.EpochSeconds.Defined() || r.Stores[1].Error != "" {
		t.Errorf("%+v", r.Stores)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}

	o.Out += "2"
	f.fail["pack"] = little
	_, err = f.compare(o)
	f.expect("presample", "pack", "rows-1")
	if !errors.Is(err, fault.ErrBudget) || !strings.Contains(err.Error(), "training failed with every store; the first failure: rows: too little") {
		t.Errorf("none runs: %v", err)
	}
	delete(f.fail, "rows")
	if r, err = f.compare(o); err != nil || r.Stores[1].Error != "too little" || r.Stores[0].Rounds != 2 {
		t.Errorf("without a pack: %+v, %v", r.Stores, err)
	}

	o.Out += "3"
	f.fail["presample"] = little
	if _, err := f.compare(o); !errors.Is(err, fault.ErrBudget) {
		t.Errorf("no samples: %v", err)
	}
	f.expect("presample")
	if _, err := os.Stat(o.Out); err == nil {
		t.Error("a refusal left its directory")
	}
	delete(f.fail, "presample")
	o.Train.Epochs++ // which is another comparison
	if _, err := f.compare(o); err != nil {
		t.Error("after a refusal:", err)
	}
}

// TestInterrupted: when the context ends, so does the comparison, whose finished rounds stay.
func TestInterrupted(t *testing.T) {
	f, o := begin(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	program := func(ctx context.Context, args []string) ([]byte, error) {
		if filepath.Base(value(args, "--out")) == "packed-1" {
			cancel(fault.ErrInterrupted)
			return nil, context.Cause(ctx)
		}
		return f.run(ctx, args)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := Run(ended, disk, o, program, progress.Discard); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := os.Stat(o.Out); err != nil {
		t.Error("interrupted at once:", err)
	}
	if _, err := Run(ctx, disk, o, program, progress.Discard); !errors.Is(err, fault.ErrInterrupted) {
		t.Fatal(err)
	}
	f.expect("presample", "pack", "rows-1")
	if _, err := f.compare(o); err != nil {
		t.Fatal(err)
	}
	f.expect("presample", "pack", "packed-1", "rows-2", "packed-2")
}

// TestGivenSamples are not drawn, and others are another comparison.
func TestGivenSamples(t *testing.T) {
	f, o := begin(t)
	o.Stores, o.Rounds = []string{"memory"}, 1
	given := filepath.Join(filepath.Dir(o.Out), "s")
	for seed := range uint64(2) {
		so := presample.Options{Dataset: o.Dataset, Out: given, BatchSize: 10, Fanout: []int{2}, Seed: seed, Force: true}
		if _, err := presample.Run(t.Context(), disk, so, progress.Discard); err != nil {
			t.Fatal(err)
		}
		o.Samples = given
		r, err := f.compare(o)
		if seed == 1 {
			if !errors.Is(err, fault.ErrExists) {
				t.Errorf("other samples: %v", err)
			}
			continue
		}
		f.expect("memory-1")
		if err != nil || r.Samples != given || r.Sampling != (Preparation{}) {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

// TestArguments: all that decides what a run computes and holds reaches its process.
func TestArguments(t *testing.T) {
	o := Defaults(all.Builtin())
	o.Dataset, o.Samples = "d", "s"
	o.Train.Memory, o.Train.GPUMemory, o.Train.Slots, o.Train.Threads = 5, 6, 2, 2
	o.Train.Model, o.Train.Hidden, o.Train.Epochs, o.Train.Seed, o.Train.Engine, o.Train.IO, o.Train.BLAS = "gcn", 8, 3, 4, "auto", "pread", "gonum"
	o.Sampling.Fanout, o.Sampling.EvalFanout = []int{3, -1}, "all"
	o.Ablations = []string{"no-pipeline", "no-gpu-cache+no-ram-cache"}
	list, err := o.variants()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range list {
		v.samples, v.pack = "s", "p"
	}
	train := func(v *variant, store string, packed bool) []string {
		return (&row{store: store, of: v, packed: packed}).trainArgs("r")
	}
	drawn := *list[0]
	drawn.o.Live = true
	unheld := variant{o: drawn.o}
	unheld.o.Ablations = []string{"no-topology-cache"}
	if list, err := unheld.o.variants(); err != nil {
		t.Fatal(err)
	} else {
		unheld = *list[1]
	}
	mapped := *list[0]
	mapped.o.Train.PageCache = "cgroup"
	const common = " --model gcn --hidden 8 --epochs 3 --seed 4 --memory 5B --threads 2 --engine auto --io pread --blas gonum --gpu-memory 6B --slots "
	for want, got := range map[string][]string{
		"train --store rows --out r --force --dataset d --samples s" + common + "2":                                                                                               train(list[0], "rows", false),
		"train --store mmap --out r --force --dataset d --samples s --page-cache cgroup" + common + "2":                                                                           train(&mapped, "mmap", false),
		"train --store gids --out r --force --dataset d --samples s" + common + "2":                                                                                               train(&mapped, "gids", false),
		"train --store packed --out r --force --pack p" + common + "2":                                                                                                            train(list[0], "packed", true),
		"train --store rows --out r --force --dataset d --fanout 3,all --batch-size 1024 --eval-fanout all --sample-seed 4" + common + "2":                                        train(&drawn, "rows", false),
		"train --store rows --out r --force --dataset d --fanout 3,all --batch-size 1024 --eval-fanout all --sample-seed 4 --topology cached --topology-memory 0%" + common + "2": train(&unheld, "rows", false),
		"train --store packed --out r --force --pack p " + common[1:] + "1":                                                                                                       train(list[1], "packed", true),
		"train --store rows --out r --force --dataset d --samples s" + common + "2 --gpu-cache 0% --ram-cache 0%":                                                                 train(list[2], "rows", false),
		"presample --dataset d --out s --batch-size 1024 --fanout 3,all --eval-fanout all --epochs 1 --seed 4 --memory 5B":                                                        o.samplingArgs("s"),
		"pack --dataset d --samples s --out p --io pread --memory 5B":                                                                                                             list[0].packArgs(),
		"pack --dataset d --samples s --out p --io pread --memory 5B --cache 0%":                                                                                                  list[2].packArgs(),
	} {
		if strings.Join(got, " ") != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestAblations: every store trains once more without a part, on samples and a pack of its own
// where these differ, and such rows join a comparison that is there.
func TestAblations(t *testing.T) {
	f, o := begin(t)
	o.Rounds = 1
	if _, err := f.compare(o); err != nil {
		t.Fatal(err)
	}
	f.expect("presample", "pack", "rows-1", "packed-1")
	o.Ablations = []string{"no-pipeline", "layers-3+no-pipeline", "no-ram-cache"}
	r, err := f.compare(o)
	if err != nil {
		t.Fatal(err)
	}
	f.expect("presample", "presample", "pack", "pack", "pack", "rows.no-pipeline-1", "packed.no-pipeline-1",
		"rows.layers-3+no-pipeline-1", "packed.layers-3+no-pipeline-1", "rows.no-ram-cache-1", "packed.no-ram-cache-1")
	var names []string
	for i := range r.Stores {
		names = append(names, r.Stores[i].Name())
		if s := &r.Stores[i]; (s.Preparation.Seconds == 12) != (s.Store == "packed") || (s.PackPays != nil) != (s.Store == "rows") || s.EstimatedSeconds <= 0 {
			t.Errorf("%+v", s)
		}
	}
	if want := "rows packed rows.no-pipeline packed.no-pipeline rows.layers-3+no-pipeline packed.layers-3+no-pipeline rows.no-ram-cache packed.no-ram-cache"; strings.Join(names, " ") != want {
		t.Errorf("rows %q", names)
	}
	for name, want := range map[string]int{"samples": 2, "samples.layers-3": 3} {
		s, err := mbfile.Open(disk, filepath.Join(o.Out, name))
		if err != nil {
			t.Fatal(err)
		}
		if n := s.Facts().Layers; n != want {
			t.Errorf("%s has %d layers", name, n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"pack", "pack.layers-3", "pack.no-ram-cache"} {
		if _, err := os.Stat(filepath.Join(o.Out, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestLayered: those nearest the seeds stay, and the farthest is repeated.
func TestLayered(t *testing.T) {
	for _, c := range []struct {
		from []int
		n    int
		want []int
	}{{[]int{10, 15, 20}, 2, []int{15, 20}}, {[]int{10, 15}, 3, []int{10, 10, 15}}, {[]int{7}, 3, []int{7, 7, 7}}, {[]int{1, 2}, 2, []int{1, 2}}} {
		if got := layered(c.from, c.n); !slices.Equal(got, c.want) {
			t.Errorf("%v of %d layers: %v", c.from, c.n, got)
		}
	}
	v := variant{o: Options{}}
	v.o.Sampling.Fanout, v.o.Sampling.EvalFanout = []int{4, 5}, "7,all"
	if err := v.layer(3); err != nil || v.o.Sampling.EvalFanout != "7,7,all" {
		t.Errorf("%q, %v", v.o.Sampling.EvalFanout, err)
	}
}

// TestLive: batches are drawn while training; samples, of as many epochs, are for packs alone,
// and count as preparing them.
func TestLive(t *testing.T) {
	f, o := begin(t)
	o.Live, o.Rounds, o.Stores, o.Train.Epochs = true, 1, []string{"rows"}, 3
	r, err := f.compare(o)
	if err != nil || !r.Live || r.Samples != "" || r.Sampling != (Preparation{}) || r.EstimatedSeconds <= 0 || r.Seeds != 80 || r.Batches != 8 {
		t.Errorf("%+v, %v", r, err)
	}
	f.expect("rows-1")
	o.Stores = append(o.Stores, "packed")
	if r, err = f.compare(o); err != nil {
		t.Fatal(err)
	}
	f.expect("presample", "pack", "packed-1")
	s, err := mbfile.Open(disk, r.Samples)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := s.Facts().Epochs; n != 3 {
		t.Errorf("samples of %d epochs", n)
	}
	if p := r.Stores[1].Preparation; r.Sampling != (Preparation{}) || p.Seconds <= 12 || p.DiskBytes <= 15 || r.Stores[0].Preparation != r.Checksums {
		t.Errorf("preparation of the pack: %+v; sampling %+v", p, r.Sampling)
	}
	o.Ablations = []string{"no-topology-cache"}
	if r, err = f.compare(o); err != nil {
		t.Fatal(err)
	}
	f.expect("presample", "pack", "rows.no-topology-cache-1")
	if s := &r.Stores[3]; s.Name() != "packed.no-topology-cache" || s.Error != "it trains on a pack, and draws nothing" || s.Preparation != (Preparation{}) {
		t.Errorf("%+v", s)
	}
	o.Ablations = nil
	o.Live, o.Sampling.Epochs = false, 3
	if _, err := f.compare(o); !errors.Is(err, fault.ErrExists) {
		t.Errorf("drawn ahead: %v", err)
	}
}

// TestValidate names the flag.
func TestValidate(t *testing.T) {
	for want, change := range map[string]func(o *Options){
		"--dataset is missing":                                          func(o *Options) { o.Dataset = "" },
		"--out is missing":                                              func(o *Options) { o.Out = "" },
		"--stores is empty":                                             func(o *Options) { o.Stores = []string{} },
		"--stores disk is not one of":                                   func(o *Options) { o.Stores = []string{"disk"} },
		"--stores auto is not one of":                                   func(o *Options) { o.Stores = []string{"auto"} },
		"--stores names rows twice":                                     func(o *Options) { o.Stores = []string{"rows", "rows"} },
		"--rounds -1":                                                   func(o *Options) { o.Rounds = -1 },
		"--drive-seconds 3601":                                          func(o *Options) { o.DriveSeconds = 3601 },
		"--blas abacus":                                                 func(o *Options) { o.Train.BLAS = "abacus" },
		"--engine abacus":                                               func(o *Options) { o.Train.Engine = "abacus" },
		"--ablate no-disk is not one of":                                func(o *Options) { o.Ablations = []string{"no-pipeline+no-disk"} },
		"--ablate \"\" is not one of":                                   func(o *Options) { o.Ablations = []string{""} },
		"--ablate names no-pipeline twice":                              func(o *Options) { o.Ablations = []string{"no-pipeline", "no-pipeline"} },
		"--ablate no-gpu-cache: --engine cpu has no":                    func(o *Options) { o.Ablations, o.Train.Engine = []string{"no-gpu-cache"}, "cpu" },
		"--ablate layers-2: --fanou":                                    func(o *Options) { o.Ablations = []string{"layers-2"} },
		"--live draws batches while":                                    func(o *Options) { o.Live, o.Samples = true, "s" },
		"--ablate no-topology-cache":                                    func(o *Options) { o.Ablations = []string{"no-pipeline+no-topology-cache"} },
		"--eval-fanout none":                                            func(o *Options) { o.Sampling.EvalFanout = "none" },
		"go.mod is no directory":                                        func(o *Options) { o.Out = "../../go.mod/out" },
		"--ablate names no-pipeline+layers-3 twice":                     func(o *Options) { o.Ablations = []string{"no-pipeline+layers-3", "layers-3+no-pipeline"} },
		"--ablate no-pipeline+no-pipeline names no-pipeline twice":      func(o *Options) { o.Ablations = []string{"no-pipeline+no-pipeline"} },
		"--ablate layers-3: layers-2 sets the number of layers already": func(o *Options) { o.Sampling.Fanout, o.Ablations = []int{4}, []string{"layers-2+layers-3"} },
	} {
		f, o := begin(t)
		change(&o)
		if _, err := f.compare(o); !errors.Is(err, fault.ErrUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		f.expect()
	}
}
