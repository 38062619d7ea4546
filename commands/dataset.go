package commands

import (
	"context"
	"fmt"
	"strings"

	"diskgnn/dataset"
	"diskgnn/dataset/export"
	"diskgnn/dataset/importer"
	formats "diskgnn/dataset/importer/all"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
)

const generateTeaches = `Makes a graph for experiments: degrees follow a power law, most edges stay inside
communities, and a node's neighbourhood predicts its label well, its own features hardly.
The graph is streamed to disk, so it may be far larger than memory.

   diskgnn generate --out graph
   diskgnn generate --out big --nodes 50000000 --dim 256 --dtype bfloat16

The next command is diskgnn presample.`

func generateCommand() command {
	var out string
	var o dataset.GenerateOptions
	o.EnsureDefaults()
	o.Workers, o.Memory = 0, 0
	return command{
		name:    "generate",
		resumes: byItself,
		usage:   "make a synthetic graph",
		teaches: generateTeaches,
		flags: append(flags{
			outFlag(&out, "the dataset"),
			intFlag("nodes", "number of nodes", "", &o.Nodes, 1),
			positiveFlag("avg-degree", "stored directed edges per node", &o.AvgDegree),
			intFlag("dim", "elements of a feature row", "", &o.Dim, 1),
			intFlag("classes", "number of classes", "", &o.Classes, 2),
			dtypeFlag("type of the features: float32, float16 or bfloat16", string(o.DType), &o.DType),
			boolFlag("compress", "store the features compressed", &o.Compress),
			boolFlag("multi-label", "give nodes any number of classes", &o.MultiLabel),
			intFlag("types", "number of node types; the first has half of the nodes and all labels", "", &o.Types, 1),
			intFlag("featureless", "number of types without features, the last ones", "", &o.Featureless, 0),
			nameFlag("fill", "HOW", "features for the types without: mean, of the rows of their neighbours", []string{dataset.FillMean}, &o.Fill),
			positiveFlag("train-ratio", "share of the nodes for training; validation and test get a fifth of it each", &o.TrainRatio),
			seedFlag(&o.Seed),
		}, stageFlags(&o.Workers, &o.Memory, &o.Force)...),
		check: func(s *session) error {
			if err := required("out", out); err != nil {
				return err
			}
			return s.settle(&o, &o.Memory)
		},
		agrees: func(ctx context.Context) error { return dataset.GenerateAgrees(ctx, vfs.OS, out, o) },
		run: shows(func(ctx context.Context, s *session) (dataset.Result, error) {
			return dataset.Generate(ctx, s.disk, out, o, s.rep)
		}, func(r dataset.Result) outcome { return datasetMade(r, o.Memory) }),
	}
}

// ofLabels returns the text after the number of classes for nodes that may have several, else "".
func ofLabels(kind string) string {
	if kind == "class" {
		return ""
	}
	return ", any number per node"
}

// labelLines describes a dataset's labels and splits.
func labelLines(kind string, classes int, unlabelled, train, valid, test int64) []line {
	if kind == dataset.NoLabels {
		return []line{{"labels", "none, and no splits: the dataset is for prediction"}}
	}
	return []line{
		{"labels", fmt.Sprintf("%s%s, %s unlabelled", units.Of(classes, "class"), ofLabels(kind), units.Of(unlabelled, "node"))},
		{"splits", fmt.Sprintf("%s train, %s validation, %s test", units.Count(train), units.Count(valid), units.Count(test))},
	}
}

// datasetMade describes the outcome of generate and import.
func datasetMade(r dataset.Result, memory int64) outcome {
	lines := []line{
		made(r.Out, r.Fingerprint, r.State),
		{"graph", fmt.Sprintf("%s, %s", units.Of(r.Nodes, "node"), units.Of(r.Edges, "edge"))},
		{"features", fmt.Sprintf("%d × %s", r.Dim, r.DType)},
	}
	lines = append(lines, labelLines(r.LabelKind, r.Classes, r.Unlabelled, r.Train, r.Valid, r.Test)...)
	if r.Compression != "" {
		table := float64(r.Nodes) * float64(r.Dim*r.DType.Size())
		lines = append(lines, line{"compressed", fmt.Sprintf("features to %s (%.2fx)", budget.FormatBytes(r.FeatureBytes), table/float64(r.FeatureBytes))})
	}
	lines = append(lines, fillLines(r.Fill, "")...)
	if r.FeaturesAlone != nil {
		lines = append(lines, line{"baseline", fmt.Sprintf("features alone score %s", percent(*r.FeaturesAlone))})
	}
	next := fmt.Sprintf("diskgnn presample --dataset %s --out samples", units.ShellWord(r.Out))
	if r.LabelKind == dataset.NoLabels {
		next = predicting(someRun, r.Out)
	}
	return outcome{
		object: r,
		lines: append(lines,
			line{"disk", budget.FormatBytes(r.DiskBytes)},
			line{"time", units.Seconds(r.Seconds)},
			held(r.PeakAnon, memory)),
		next: next,
	}
}

// fillLines describes how node types were filled. most precedes bounds.
func fillLines(fills []dataset.Filled, most string) (lines []line) {
	for _, f := range fills {
		lines = append(lines, line{"filled", fmt.Sprintf("%s from %s: %s, %s%s read, %s written", f.Type, strings.Join(f.From, ", "), units.Of(f.Passes, "pass"), most, budget.FormatBytes(f.ReadBytes), budget.FormatBytes(f.WriteBytes))})
	}
	return lines
}

const importTeaches = `Makes a dataset of a graph in another format, in bounded memory: edges are sorted on
disk, features are streamed, archives are unpacked while they are read.

   diskgnn import --out graph path/to/tree
   diskgnn import --out arxiv ogbn_arxiv --symmetrize
   diskgnn import --out computers amazon-computers.npz --binarize --row-normalize
   diskgnn import --out own --edges e.parquet --features f.npy --labels l.csv --split 60/20/20
   diskgnn import --out tomorrow --for predict --edges e.parquet --features f.npy

The format is detected from the source, unless --format names it. --plan imports nothing:
it examines the source, and prints the size of the dataset, the memory and disk that the
import needs, and the problems of the source.

The next command is diskgnn presample, or, with --for predict, diskgnn predict.`

// imported has the options of import.
type imported struct {
	importer.Options
	out, format    string
	sources        []string // of a configuration file
	split          importer.Split
	plan, stratify bool
}

func importCommand() command {
	c := imported{format: formats.Auto}
	c.EnsureDefaults()
	c.Workers, c.Memory = 0, 0
	return command{
		name:     "import",
		resumes:  byItself,
		usage:    "make a dataset of a graph in another format",
		teaches:  importTeaches,
		operands: []string{"[SOURCE...]"},
		flags:    c.flags(),
		check:    c.check,
		agrees:   func(ctx context.Context) error { return formats.Agrees(ctx, vfs.OS, c.out, c.format, c.Options) },
		planning: &c.plan,
		plan: shows(func(ctx context.Context, s *session) (importer.Plan, error) {
			return formats.MakePlan(ctx, s.disk, c.out, c.format, c.Options, s.rep)
		}, importPlan),
		run: shows(func(ctx context.Context, s *session) (dataset.Result, error) {
			return formats.Import(ctx, s.disk, c.out, c.format, c.Options, s.rep)
		}, func(r dataset.Result) outcome { return datasetMade(r, c.Memory) }),
	}
}

func (c *imported) flags() flags {
	return append(flags{
		stringsFlag("source", "PATHS", "in a configuration file: the SOURCE arguments", &c.sources),
		nameFlag("format", "NAME", "format of the source: "+strings.Join(formats.Names(), ", ")+", or auto, which detects it", append([]string{formats.Auto}, formats.Names()...), &c.format),
		outFlag(&c.out, "the dataset"),
		boolFlag("plan", "import nothing: examine the source, and print the size, the needs and the problems of an import", &c.plan),
		stringFlag("split", "SHARES", "if the source has no split, draw one of the labelled nodes: percents like 60/20/20, or shares like 0.6/0.2/0.2", &c.split.Parts),
		seedFlag(&c.split.Seed),
		boolFlag("stratify", "with --split: take the same shares of every class", &c.stratify),
		nameFlag("for", "USE", "use of the dataset: predict, which needs no labels and splits, and stores none", []string{importer.ForPredict}, &c.For),
		boolFlag("typed", "keep the types of nodes and the relations of the source; else all nodes become nodes of one type", &c.Typed),
		stringsFlag("without-features", "TYPES", "with --typed: node types to import without their features", &c.Featureless),
		nameFlag("fill", "HOW", "with --typed: features for node types that have none: mean, of the rows of their neighbours", []string{dataset.FillMean}, &c.Fill),
		stringFlag("task", "NAME", "name of the task, if the source has several", &c.Task),
		stringsFlag("feature", "NAMES", "name of the features, if the source has several, or names to concatenate, like a,b", &c.Features),
		stringFlag("edges", "FILE", "file of edges, without a SOURCE: an array, a table or text", &c.Edges),
		stringFlag("features", "FILE", "file of features, for raw arrays, tables and lists of edges; or random:DIM", &c.FeatureFile),
		stringFlag("labels", "FILE", "file of labels, for the same sources; or random:CLASSES", &c.LabelFile),
		stringsFlag("split-files", "FILES", "three files of nodes, for the same sources: training, validation, test", &c.SplitFiles),
		intFlag("nodes", "number of nodes, for the same sources, if no file gives it", "by the largest id", &c.Nodes, 1),
		stringFlag("node-ids", "FILE", "ids of nodes that are not numbered from 0, for the same sources: a file with a column of ids, or edges, for the ids in the edges", &c.NodeIDs),
		stringsFlag("edge-columns", "SRC,DST", "columns of --edges with the sources and the destinations, by name or by number from 0", &c.EdgeColumns),
		stringsFlag("feature-columns", "NAMES", "columns of --features to take: names, also like f*, or numbers from 0, also like 3-10", &c.FeatureColumns),
		stringsFlag("drop", "NAMES", "columns of --features to leave out, named as --feature-columns names them", &c.Drop),
		stringFlag("label-column", "NAME", "column of --labels with the classes or, without --labels, of --features", &c.LabelColumn),
		stringFlag("split-column", "NAME", "column of --features or --labels with the set of each node: train, valid or test", &c.SplitColumn),
		stringFlag("id-column", "NAME", "column of --features and --labels with the ids of the nodes", &c.IDColumn),
		nameFlag("labels-as", "KIND", "meaning of labels with several columns of ones and zeros: classes, where each row has a single one, or multi", importer.LabelsAs(), &c.LabelsAs),
		intFlag("split-index", "column of masks that have several columns, counted from 0", "", &c.SplitIndex, 0),
		nameFlag("add-reverse-edges", "WHEN", "store the reverse of every edge too: yes, no, or auto, as the format's own library does", importer.Reverses(), &c.Reverse),
		boolFlag("symmetrize", "store every edge in both directions, once, without self-loops", &c.Symmetrize),
		boolFlag("dedupe", "store equal edges once", &c.Dedupe),
		nameFlag("self-loops", "MODE", "edges from a node to itself: keep, drop, or add, one for every node", importer.Loops(), &c.SelfLoops),
		nameFlag("relabel", "ORDER", "how nodes are numbered: none, as in the source, degree, by falling in-degree, or bfs, breadth first", importer.Relabels(), &c.Relabel),
		boolFlag("binarize", "set features above 0 to 1, and all others to 0", &c.Binarize),
		boolFlag("row-normalize", "scale every feature row to the sum 1, after --binarize", &c.RowNormalize),
		dtypeFlag("type of the features: float32, float16 or bfloat16", "float32, or the source's if that is float16 or bfloat16", &c.DType),
		boolFlag("compress", "store the features compressed", &c.Compress),
	}, stageFlags(&c.Workers, &c.Memory, &c.Force)...)
}

// check completes the options, and refuses invalid ones.
func (c *imported) check(s *session) error {
	if c.plan {
		s.planned(&c.out, "graph")
	} else if err := required("out", c.out); err != nil {
		return err
	}
	if c.Sources = s.args; len(s.args) == 0 {
		c.Sources = c.sources
	}
	if len(c.Sources) == 0 && c.Edges == "" {
		return fault.New(fault.ErrUsage, "SOURCE is missing")
	}
	c.Seed = c.split.Seed
	switch {
	case c.split.Parts != "":
		c.split.Stratify = c.stratify
		c.Split = &c.split
	case c.stratify:
		return fault.New(fault.ErrUsage, "--stratify needs --split")
	}
	return s.settle(&c.Options, &c.Memory)
}

// importPlan describes the predicted outcome of an import.
func importPlan(p importer.Plan) outcome {
	about := ""
	if p.Estimated {
		about = "about "
	}
	lines := []line{
		{"source", fmt.Sprintf("%s, %s", p.Format, budget.FormatBytes(p.SourceBytes))},
		{"graph", fmt.Sprintf("%s, at most %s%s", units.Of(p.Nodes, "node"), about, units.Of(p.Edges, "edge"))},
		{"features", fmt.Sprintf("%d × %s, read as %s", p.Dim, p.DType, p.SourceDType)},
	}
	lines = append(lines, labelLines(p.LabelKind, p.Classes, p.Unlabelled, p.Train, p.Valid, p.Test)...)
	lines = append(lines, []line{
		{"memory", fmt.Sprintf("%s at least", budget.FormatBytes(p.MemoryBytes))},
		{"disk", fmt.Sprintf("%s, %s during the import, of which %s to sort edges", budget.FormatBytes(p.DiskBytes), budget.FormatBytes(p.NeededBytes), budget.FormatBytes(p.ScratchBytes))},
	}...)
	lines = append(lines, fillLines(p.Fill, "at most ")...)
	switch p.OriginalIDs {
	case dataset.IDNumbers:
		lines = append(lines, line{"ids", "nodes are renumbered; the dataset keeps the numbers of the source"})
	case dataset.IDNames:
		lines = append(lines, line{"ids", "nodes have names, which the dataset keeps"})
	}
	if p.Nodes == 0 { // the source could not be read: only its problems are known
		lines = []line{{"source", p.Format}}
	}
	for _, note := range p.Notes {
		lines = append(lines, line{"note", fault.Line(note)})
	}
	for _, problem := range p.Problems {
		lines = append(lines, line{"problem", fault.Line(problem)})
	}
	return outcome{object: p, lines: lines}
}

const exportTeaches = `Writes a dataset in a form that other tools read.

   diskgnn export --dataset graph --format graphbolt --out tree
   diskgnn export --dataset graph --format npy --out arrays
   diskgnn export --dataset graph --format pyg --out arrays

graphbolt is a source tree of GraphBolt's OnDiskDataset, which diskgnn import reads again;
npy is the dataset's arrays, as NumPy's files; pyg is arrays with a program, load.py, that
makes a Data or, with node types, a HeteroData of PyTorch Geometric of them. The Python package diskgnn opens
datasets, samples and packs without a copy: see docs/python.md.`

func exportCommand() command {
	var o export.Options
	var dir string
	return command{
		name:    "export",
		usage:   "write a dataset in a form that other tools read",
		teaches: exportTeaches,
		flags: flags{
			stringFlag("dataset", "DIR", "dataset, made by generate or import", &dir),
			stringFlag("format", "NAME", "format to write: "+strings.Join(export.Formats(), ", "), &o.Format),
			outFlag(&o.Out, "the exported files"),
			memoryFlag(&o.Memory),
			spaceFlag(),
		},
		run: func(ctx context.Context, s *session) (outcome, error) {
			for _, f := range []struct{ name, value string }{{"dataset", dir}, {"format", o.Format}, {"out", o.Out}} {
				if err := required(f.name, f.value); err != nil {
					return outcome{}, err
				}
			}
			if err := s.settle(&o, &o.Memory); err != nil {
				return outcome{}, err
			}
			d, err := dataset.OpenAny(vfs.OS, dir)
			if err != nil {
				return outcome{}, err
			}
			r, err := export.Run(ctx, s.disk, d, o, s.rep)
			if err != nil {
				return outcome{}, err
			}
			return outcome{object: r, lines: []line{
				{"exported", fmt.Sprintf("%s as %s", r.Out, r.Format)},
				{"graph", fmt.Sprintf("%s, %s", units.Of(r.Nodes, "node"), units.Of(r.Edges, "edge"))},
				{"disk", budget.FormatBytes(r.DiskBytes)},
				{"time", units.Seconds(r.Seconds)},
				held(r.PeakAnon, o.Memory),
			}}, nil
		},
	}
}
