package commands

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"diskgnn/dataset"
	"diskgnn/dataset/importer"
	formats "diskgnn/dataset/importer/all"
	"diskgnn/dataset/importer/graphbolt"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/shard"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/internal/vfs/vfstest"
	"diskgnn/pack"
	"diskgnn/pack/packfile"
	"diskgnn/pack/slice"
	"diskgnn/presample"
	"diskgnn/train"
	"diskgnn/train/exact"
	"diskgnn/train/rundir"
	"diskgnn/train/safetensors"
	"diskgnn/train/traintest"
)

// TestPower cuts the power under every command that makes a directory, runs it again, and
// compares the directory with one that was made in peace: byte by byte, since a fingerprint
// says what a file should hold. make test-power cuts it after every operation, many times.
func TestPower(t *testing.T) {
	in := vfstest.DurableDir(t) // inputs, which are durable
	quiet := vfs.Unsynced(vfs.OS)
	g := generateOptions(0)
	samples := presample.Options{Dataset: in + "/g", Out: in + "/s", BatchSize: 16, Fanout: []int{3, 3}, Epochs: 2, Workers: 1, Memory: 1 << 30}
	packs := pack.Options{Dataset: in + "/g", Samples: in + "/s", Out: in + "/p", Cache: share(10), Bands: []float64{40}, Workers: 1, Memory: 1 << 30, IO: "pread", RangeRows: 50}
	_, err := dataset.Generate(t.Context(), quiet, in+"/g", g, progress.Discard)
	must(t, err)
	_, err = presample.Run(t.Context(), quiet, samples, progress.Discard)
	must(t, err)
	_, err = pack.Run(t.Context(), quiet, packs, progress.Discard)
	must(t, err)
	var samplesShards, packsShards []string
	for i := range 2 {
		s, p := samples, packs
		s.Shard, p.Shard = shard.Shard{Index: i, Count: 2}, shard.Shard{Index: i, Count: 2}
		_, err := presample.Run(t.Context(), quiet, s, progress.Discard)
		must(t, err)
		_, err = pack.Run(t.Context(), quiet, p, progress.Discard)
		must(t, err)
		samplesShards, packsShards = append(samplesShards, s.Shard.DirName(s.Out)), append(packsShards, p.Shard.DirName(p.Out))
	}
	must(t, trains(t, in+"/p", func(*train.Options) {}).Run(quiet, in))
	tree(t, in+"/tree")

	generate := func(change func(o *dataset.GenerateOptions)) vfstest.PowerCommand {
		return directory(func(fsys vfs.FS, out string) error {
			o := g
			change(&o)
			_, err := dataset.Generate(context.Background(), fsys, out, o, progress.Discard)
			return err
		})
	}
	sample := func(change func(o *presample.Options)) vfstest.PowerCommand {
		return directory(func(fsys vfs.FS, out string) error {
			o := samples
			o.Out = out
			change(&o)
			_, err := presample.Run(context.Background(), fsys, o, progress.Discard)
			return err
		})
	}
	packed := func(change func(o *pack.Options)) vfstest.PowerCommand {
		return directory(func(fsys vfs.FS, out string) error {
			o := packs
			o.Out = out
			change(&o)
			_, err := pack.Run(context.Background(), fsys, o, progress.Discard)
			return err
		})
	}
	merge := func(shards []string) vfstest.PowerCommand {
		return directory(func(fsys vfs.FS, out string) error {
			_, err := shard.Merge(context.Background(), fsys, shard.Options{Out: out, Shards: shards, Formats: merges}, progress.Discard)
			return err
		})
	}
	predicts := func(fsys vfs.FS, out string, of shard.Shard) error {
		o := exact.PredictOptions{Options: exact.Options{Run: in + "/out", Dataset: in + "/g", Scratch: filepath.Dir(out), Memory: 1 << 30, Threads: 1, IO: "pread", BLAS: "gonum"},
			Out: out, Shard: of, Force: true}
		_, err := exact.Predict(context.Background(), fsys, o, progress.Discard)
		return err
	}
	first, second := shard.Shard{Index: 0, Count: 2}, shard.Shard{Index: 1, Count: 2}
	predicted := vfstest.PowerCommand{
		Run: func(fsys vfs.FS, root string) error {
			return predicts(fsys, filepath.Join(root, "out.npy"), shard.Shard{})
		},
		Made: func(root string) (map[string][]byte, error) {
			b, err := os.ReadFile(filepath.Join(root, "out.npy"))
			return map[string][]byte{"out.npy": b}, err
		},
		Left: func(root string, made map[string][]byte) error {
			b, err := os.ReadFile(filepath.Join(root, "out.npy"))
			if err == nil && !bytes.Equal(b, made["out.npy"]) {
				return errors.New("what has the name is not complete")
			}
			return nil
		},
	}
	for name, c := range map[string]vfstest.PowerCommand{
		"generate":             generate(func(*dataset.GenerateOptions) {}),
		"generate, compressed": generate(func(o *dataset.GenerateOptions) { o.Compress, o.MultiLabel = true, true }),
		"generate, filled":     generate(func(o *dataset.GenerateOptions) { o.Types, o.Featureless, o.Fill = 2, 1, dataset.FillMean }),
		"import": directory(func(fsys vfs.FS, out string) error {
			_, err := formats.Import(context.Background(), fsys, out, "graphbolt", importer.Options{Sources: []string{in + "/tree"}, Symmetrize: true,
				Resources: dataset.Resources{Workers: 1, Memory: 1 << 30}}, progress.Discard)
			return err
		}),
		"import, classes with names": directory(func(fsys vfs.FS, out string) error {
			f := graphbolt.Format
			f.Open = func(fsys vfs.FS, sources []string, o *importer.Reading) (importer.Source, error) {
				s, err := graphbolt.Format.Open(fsys, sources, o)
				return namedClasses{s}, err
			}
			_, err := importer.Import(context.Background(), fsys, out, f, importer.Options{Sources: []string{in + "/tree"}, Resources: dataset.Resources{Workers: 1, Memory: 1 << 30}}, progress.Discard)
			return err
		}),
		"presample":          sample(func(*presample.Options) {}),
		"presample, overlap": sample(func(o *presample.Options) { o.Order = presample.OrderOverlap }),
		"presample, a shard": sample(func(o *presample.Options) { o.Shard = shard.Shard{Index: 1, Count: 2} }),
		"pack":               packed(func(*pack.Options) {}),
		"pack, int8 and s2":  packed(func(o *pack.Options) { o.DType, o.Compress, o.EvalChunks = "int8", packfile.CodecS2, true }),
		"pack, shared rows":  packed(func(o *pack.Options) { o.MaxDisk = &budget.Size{Value: 4.3, Unit: budget.UnitTimes} }),
		"pack, min":          packed(func(o *pack.Options) { o.Policy, o.Bands = packfile.PolicyMin, nil }),
		"pack, a shard":      packed(func(o *pack.Options) { o.Shard = shard.Shard{Index: 0, Count: 2} }),
		"merge, samples":     merge(samplesShards),
		"merge, copied":      linkless(merge(packsShards)),
		"merge, packs":       merge(packsShards),
		"slice": directory(func(fsys vfs.FS, out string) error {
			_, err := slice.Run(context.Background(), fsys, slice.Options{Pack: in + "/p", Out: out, Slice: packfile.Slice{Rank: 1, World: 2, Accumulate: 2}}, progress.Discard)
			return err
		}),
		"presample --force": replacing(sample(func(o *presample.Options) { o.Force, o.Seed = true, 1 }), func(out string) error {
			return os.CopyFS(out, os.DirFS(in+"/s"))
		}),
		"pack --force": replacing(packed(func(o *pack.Options) { o.Force, o.Cache = true, share(20) }), func(out string) error {
			return os.CopyFS(out, os.DirFS(in+"/p"))
		}),
		"train": trains(t, in+"/p", func(o *train.Options) { o.Resume = true }),
		"train, often better": trains(t, in+"/p", func(o *train.Options) {
			o.Resume, o.Epochs, o.LR, o.CheckpointEvery = true, 4, 0.01, rundir.Interval{Batches: 7}
		}),
		"predict":          predicted,
		"predict, a shard": directory(func(fsys vfs.FS, out string) error { return predicts(fsys, out+".npy", first) }),
		"merge, predictions": {
			Before: func(root string) error {
				return errors.Join(predicts(quiet, root+"/x.npy", first), predicts(quiet, root+"/x.npy", second))
			},
			Run: func(fsys vfs.FS, root string) error {
				o := exact.MergeOptions{Out: filepath.Join(root, "out.npy"), Shards: []string{first.DirName(root + "/x.npy"), second.DirName(root + "/x.npy")}, Force: true}
				_, err := exact.Merge(context.Background(), fsys, o, progress.Discard)
				return err
			},
			Made: predicted.Made,
			Left: predicted.Left,
		},
		"train --force": func() vfstest.PowerCommand {
			c := trains(t, in+"/p", func(o *train.Options) { o.Force = true })
			other := trains(t, in+"/p", func(o *train.Options) { o.Seed = 5 })
			c.Before, c.Left = func(root string) error { return other.Run(quiet, root) }, nil
			return c
		}(),
		"train --force, then --resume": func() vfstest.PowerCommand {
			c := trains(t, in+"/p", func(*train.Options) {})
			c.Before, c.Left = func(root string) error { return cutOff(t, in+"/p", root) }, nil
			c.Run = func(fsys vfs.FS, root string) error {
				b, err := vfs.ReadFile(fsys, filepath.Join(root, "out", stage.RunFile))
				begun := err == nil && !bytes.Contains(b, []byte(`"seed": 5`))
				return trains(t, in+"/p", func(o *train.Options) { o.Force, o.Resume = !begun, begun }).Run(fsys, root)
			}
			return c
		}(),
	} {
		t.Run(name, func(t *testing.T) { vfstest.SweepPower(t, c) })
	}
}

// namedClasses is a source of three classes, which have names.
type namedClasses struct{ importer.Source }

func (n namedClasses) Shape() importer.Shape {
	s := n.Source.Shape()
	s.Classes, s.ClassNames = 3, []string{"ant", "bee", "crow"}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func share(v float64) *budget.Size { return &budget.Size{Value: v, Unit: budget.UnitPercent} }

func generateOptions(seed uint64) dataset.GenerateOptions {
	return dataset.GenerateOptions{Nodes: 300, AvgDegree: 5, Dim: 60, Classes: 3, TrainRatio: 0.3, Seed: seed, Resources: dataset.Resources{Workers: 1, Memory: 1 << 30}}
}

// directory is a command that makes a directory of a stage.
func directory(run func(fsys vfs.FS, out string) error) vfstest.PowerCommand {
	return vfstest.PowerCommand{
		Run: func(fsys vfs.FS, root string) error { return run(fsys, filepath.Join(root, "out")) },
		Made: func(root string) (map[string][]byte, error) {
			files, err := vfstest.Files(root, stage.RunFile) // all that is there: nothing else may be left
			maps.DeleteFunc(files, func(name string, _ []byte) bool {
				return strings.HasPrefix(name, "out.replaced"+string(filepath.Separator))
			})
			return files, err
		},
	}
}

// linkless is a command on a file system that gives no file a second name.
func linkless(c vfstest.PowerCommand) vfstest.PowerCommand {
	run := c.Run
	c.Run = func(fsys vfs.FS, root string) error { return run(noLinks{fsys}, root) }
	return c
}

type noLinks struct{ vfs.FS }

func (noLinks) Link(from, to string) error {
	return &os.LinkError{Op: "link", Old: from, New: to, Err: syscall.EXDEV}
}

// replacing is a command that makes a directory in place of another: one of the two is
// always there, whole.
func replacing(c vfstest.PowerCommand, other func(out string) error) vfstest.PowerCommand {
	var was map[string][]byte
	c.Before = func(root string) (err error) {
		if err = other(filepath.Join(root, "out")); err == nil {
			was, err = vfstest.Files(filepath.Join(root, "out"), stage.RunFile)
		}
		return err
	}
	c.Left = func(root string, made map[string][]byte) error {
		for _, name := range []string{"out", "out.replaced", "out.partial"} {
			for _, whole := range []map[string][]byte{was, made} {
				if holds(filepath.Join(root, name), whole) {
					return nil
				}
			}
		}
		return errors.New("neither the old directory nor the new is left")
	}
	return c
}

// holds reports whether a directory has all of some files, which may be named as below its
// parent.
func holds(dir string, files map[string][]byte) bool {
	for name, want := range files {
		if rel, err := filepath.Rel("out", name); err == nil && filepath.IsLocal(rel) {
			name = rel
		}
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != string(want) {
			return false
		}
	}
	return true
}

// cutOff leaves a run of another seed that was cut off, with its checkpoints.
func cutOff(t *testing.T, dir, root string) error {
	v, err := vfs.NewVolatile(root)
	if err != nil {
		return err
	}
	v.CutAt(50) // it has none before
	err = trains(t, dir, func(o *train.Options) { o.Seed = 5 }).Run(v, root)
	if names, _ := os.ReadDir(filepath.Join(root, "out", rundir.CheckpointsDir)); !errors.Is(err, vfs.ErrPower) || len(names) == 0 {
		return fmt.Errorf("%d checkpoints are left: %v", len(names), err)
	}
	return nil
}

// trains is a command that trains. As soon as an epoch is said to be over, there are weights.
func trains(t *testing.T, dir string, change func(o *train.Options)) vfstest.PowerCommand {
	return vfstest.PowerCommand{
		Run: func(fsys vfs.FS, root string) error {
			o := train.Defaults()
			o.Stores = builtin
			o.Pack, o.Out = dir, filepath.Join(root, "out")
			o.Hidden, o.Epochs, o.Threads, o.Engine, o.BLAS, o.IO, o.Memory, o.LR = 4, 2, 1, train.EngineCPU, "gonum", "pread", 1<<30, 0.01
			o.CheckpointEvery, o.Keep = rundir.Interval{Batches: 2}, 2
			change(&o)
			_, err := train.Run(context.Background(), fsys, o, progress.Discard)
			return err
		},
		Made: func(root string) (map[string][]byte, error) {
			files, err := vfstest.Files(filepath.Join(root, "out"), stage.RunFile, rundir.ReportFile, "lock")
			// Checkpoints, and what was to become a report, may stay behind.
			maps.DeleteFunc(files, func(name string, _ []byte) bool {
				return filepath.Dir(name) == rundir.CheckpointsDir || name == rundir.ReportFile+vfs.TempSuffix
			})
			files[rundir.MetricsFile] = []byte(traintest.WithoutTimes(t, files[rundir.MetricsFile]))
			return files, err
		},
		Left: func(root string, _ map[string][]byte) error {
			if _, err := rundir.Verify(vfs.OS, filepath.Join(root, "out")); errors.Is(err, fault.ErrCorrupt) {
				return err
			}
			metrics, err := os.ReadFile(filepath.Join(root, "out", rundir.MetricsFile))
			if err != nil || !bytes.Contains(metrics, []byte("}\n")) {
				return nil
			}
			b, err := os.ReadFile(filepath.Join(root, "out", rundir.WeightsFile))
			if err == nil {
				_, _, err = safetensors.Decode(b)
			}
			return err
		},
	}
}

// tree makes a source tree of GraphBolt's.
func tree(t *testing.T, dir string) {
	t.Helper()
	must(t, os.Mkdir(dir, 0o777))
	const nodes, dim = 60, 5
	var feats []float32
	var edges, seeds, labels []int64
	for v := range int64(nodes) {
		for k := range int64(dim) {
			feats = append(feats, float32(v*k%7)-2)
		}
		for k := range 1 + v%4 {
			edges = append(edges, v, (v*5+k*11+1)%nodes)
		}
		seeds, labels = append(seeds, v), append(labels, v*v%3)
	}
	array(t, dir+"/feat.npy", "<f4", fmt.Sprintf("%d, %d", nodes, dim), feats)
	for i, part := range []string{"train", "valid", "test"} {
		lo, hi := i*nodes/3, (i+1)*nodes/3
		array(t, dir+"/"+part+"_seeds.npy", "<i8", fmt.Sprintf("%d,", hi-lo), seeds[lo:hi])
		array(t, dir+"/"+part+"_labels.npy", "<i8", fmt.Sprintf("%d,", hi-lo), labels[lo:hi])
	}
	text := ""
	for e := 0; e < len(edges); e += 2 {
		text += fmt.Sprintf("%d,%d\n", edges[e], edges[e+1])
	}
	must(t, os.WriteFile(dir+"/edges.csv", []byte(text), 0o666))
	set := func(name string) string {
		return fmt.Sprintf("      - data:\n          - {name: seeds, format: numpy, path: %s_seeds.npy}\n          - {name: labels, format: numpy, path: %s_labels.npy}\n", name, name)
	}
	must(t, os.WriteFile(dir+"/metadata.yaml", fmt.Appendf(nil, `dataset_name: small
graph:
  nodes:
    - num: %d
  edges:
    - {format: csv, path: edges.csv}
feature_data:
  - {domain: node, name: feat, format: numpy, path: feat.npy}
tasks:
  - name: node_classification
    num_classes: 3
    train_set:
%s    validation_set:
%s    test_set:
%s`, nodes, set("train"), set("valid"), set("test")), 0o666))
}

// array writes a .npy file.
func array(t *testing.T, name, dtype, shape string, values any) {
	t.Helper()
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", dtype, shape)
	for (10+len(header)+1)%64 != 0 {
		header += " "
	}
	b := append([]byte("\x93NUMPY\x01\x00"), byte((len(header)+1)&0xff), byte((len(header)+1)>>8))
	b = append(b, header+"\n"...)
	b, err := binary.Append(b, binary.LittleEndian, values)
	must(t, err)
	must(t, os.WriteFile(name, b, 0o666))
}
