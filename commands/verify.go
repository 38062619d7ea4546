package commands

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"diskgnn/dataset"
	"diskgnn/graph"
	"diskgnn/inspection"
	"diskgnn/internal/budget"
	"diskgnn/internal/chart"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/internal/stage"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/nvme/target"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
	"diskgnn/train/exact"
	runreport "diskgnn/train/report"
	"diskgnn/train/rundir"
	"diskgnn/train/trained"
)

const verifyTeaches = `Reads a dataset, samples, a pack or a run from beginning to end and checks every byte
against its checksum, and the further rules of the format: after a copy to another machine,
or when a disk is in doubt. The error names the first wrong bytes. DIR may be nvme:TARGET, a
directory that diskgnn nvme load has put on raw drives. The traces and the report of a run
have no checksums.

   diskgnn verify pack
   diskgnn verify run
   diskgnn verify nvme:soft:drive`

// verified is verify's output.
type verified struct {
	Dir         string `json:"dir"`
	Format      string `json:"format"`
	Version     int    `json:"version"`
	Fingerprint string `json:"fingerprint,omitempty"` // a run has none
	State       string `json:"state,omitempty"`       // of a run
	Checkpoints int    `json:"checkpoints,omitempty"` // of a run
	// Unchecked are the files of a run that have no checksum.
	Unchecked []string `json:"unchecked,omitempty"`
	DiskBytes int64    `json:"disk_bytes"`
	Seconds   float64  `json:"seconds"`
}

func verifyCommand() command {
	return command{
		name:     "verify",
		usage:    "check every byte of a directory",
		teaches:  verifyTeaches,
		operands: []string{"DIR"},
		run: func(ctx context.Context, s *session) (outcome, error) {
			start, dir := time.Now(), s.args[0]
			if isRun(dir) {
				return verifyRun(dir, start)
			}
			m, err := s.verify(ctx, dir)
			if err != nil {
				return outcome{}, err
			}
			v := verified{Dir: dir, Format: m.Format.Name, Version: m.Format.Version, Fingerprint: m.Fingerprint, DiskBytes: m.Bytes(), Seconds: time.Since(start).Seconds()}
			return outcome{object: v, lines: []line{
				{"verified", dir + ": every byte matches its checksum"},
				{"format", m.Format.String()},
				{"fingerprint", m.Fingerprint},
				{"disk", budget.FormatBytes(v.DiskBytes)},
				{"time", units.Seconds(v.Seconds)},
			}}, nil
		},
	}
}

// isRun reports whether a directory is a run.
func isRun(dir string) bool {
	has := func(name string) bool {
		ok, _ := vfs.Exists(vfs.OS, filepath.Join(dir, name))
		return ok
	}
	return !has(stage.MetaFile) && (has(rundir.MetricsFile) || has(rundir.WeightsFile) || has(rundir.CheckpointsDir))
}

// verifyRun checks the files of a run.
func verifyRun(dir string, start time.Time) (outcome, error) {
	r, err := rundir.Verify(vfs.OS, dir)
	if err != nil {
		return outcome{}, fault.Remake(err, dir, trained.Maker)
	}
	f := &r.File
	v := verified{Dir: dir, Format: f.Format.Name, Version: f.Format.Version, State: string(f.State), Checkpoints: r.Checkpoints,
		Unchecked: r.Unchecked, DiskBytes: r.Bytes, Seconds: time.Since(start).Seconds()}
	says := dir + ": every byte of its results matches its checksum"
	if note := f.Note(dir); note != "" {
		says = note
	}
	out := outcome{object: v, lines: []line{{"verified", says}, {"format", f.Format.String()}, {"run", fmt.Sprintf("%s, %s", f.State, units.Of(v.Checkpoints, "checkpoint"))}}}
	if len(v.Unchecked) > 0 {
		out.lines = append(out.lines, line{"unchecked", strings.Join(v.Unchecked, ", ")})
	}
	out.lines = append(out.lines, line{"checked", budget.FormatBytes(v.DiskBytes)}, line{"time", units.Seconds(v.Seconds)})
	return out, nil
}

// readMeta reads the metadata of a directory.
func readMeta(dir string) (*stage.Meta, error) {
	m, err := stage.ReadMeta(vfs.OS, dir, "directory")
	if err == nil {
		return m, nil
	}
	if isRun(dir) {
		return nil, fault.New(fault.ErrInput, "%s is a run of train, no dataset, samples or pack: diskgnn report %s shows it", dir, units.ShellWord(dir))
	}
	return nil, err
}

// verify checks a directory, or one on a volume, and returns its metadata.
func (s *session) verify(ctx context.Context, dir string) (*stage.Meta, error) {
	if strings.HasPrefix(dir, target.Prefix) {
		return s.verifyTarget(ctx, dir)
	}
	m, err := readMeta(dir)
	if err != nil {
		return nil, err
	}
	return m, stage.Damaged(s.verifyFiles(ctx, vfs.OS, dir, m), dir, m.Format)
}

// verifyFiles checks a directory of a file system.
func (s *session) verifyFiles(ctx context.Context, fsys vfs.FS, dir string, m *stage.Meta) error {
	switch m.Format.Name {
	case dataset.Format.Name:
		if fsys != vfs.OS { // its topology cannot be mapped, so only its bytes are checked
			return dataset.Check(ctx, fsys, dir, m, stage.Bytes)
		}
		d, err := dataset.OpenAny(fsys, dir)
		if err != nil {
			return err
		}
		return d.Verify(ctx, s.rep, 0)
	case mbfile.Format.Name:
		r, err := mbfile.Open(fsys, dir)
		if err != nil {
			return err
		}
		return errors.Join(r.Verify(ctx, s.rep), r.Close())
	case mbfile.Format.Shard().Name:
		r, err := mbfile.OpenShard(fsys, dir)
		if err != nil {
			return err
		}
		return errors.Join(r.Verify(ctx, s.rep), r.Close())
	case packfile.Format.Name:
		r, err := packfile.OpenSlice(fsys, dir)
		if err != nil {
			return err
		}
		return r.Verify(ctx, fsys, s.rep)
	case packfile.Format.Shard().Name:
		r, err := packfile.OpenShard(fsys, dir)
		if err != nil {
			return err
		}
		return r.Verify(ctx, fsys, s.rep)
	case exact.ShareFormat.Name:
		if _, err := stage.Open(fsys, dir, "shard of a prediction", exact.ShareFormat); err != nil {
			return err
		}
		return exact.CheckShare(ctx, fsys, dir, m, stage.Bytes)
	}
	return fault.New(fault.ErrInput, "%s is a %s: no dataset, samples or pack", dir, m.Format.Name)
}

const inspectTeaches = `Describes the content of a dataset, samples or a pack from its metadata and tables, without
reading rows. For samples it shows the share of the accesses that go to the hottest nodes:
the hits of a cache that holds them. For a pack it shows the bytes of each level and, for
every cache that a trainer may choose, the bytes that are read. --html writes a page with
charts of it, and of the degrees and classes of a dataset; for these it also reads index
pointers, labels and counts.

   diskgnn inspect samples
   diskgnn inspect pack --json
   diskgnn inspect pack --html pack.html`

// inspected is inspect's output.
type inspected struct {
	Dir         string            `json:"dir"`
	Format      string            `json:"format"`
	Version     int               `json:"version"`
	Fingerprint string            `json:"fingerprint"`
	Parents     map[string]string `json:"parents"` // fingerprints by role
	Files       int               `json:"files"`
	DiskBytes   int64             `json:"disk_bytes"`

	Dataset *dataset.Facts `json:"dataset,omitempty"`
	// ClassNames are the names of a dataset's classes, in their order.
	ClassNames []string              `json:"class_names,omitempty"`
	Samples    *mbfile.Description   `json:"samples,omitempty"`
	Pack       *packfile.Description `json:"pack,omitempty"`
	Slice      *packfile.Slice       `json:"slice,omitempty"`

	Page    string         `json:"page,omitempty"`    // name of the written page
	Figures []chart.Figure `json:"figures,omitempty"` // data of the page's charts
}

func inspectCommand() command {
	var page string
	return command{
		name:     "inspect",
		usage:    "describe the content of a directory",
		teaches:  inspectTeaches,
		operands: []string{"DIR"},
		flags:    flags{outputFlag("html", "FILE", "write a page with charts of the content", &page)},
		run: func(ctx context.Context, s *session) (outcome, error) {
			dir := s.args[0]
			m, err := readMeta(dir)
			if err != nil {
				return outcome{}, err
			}
			v := inspected{Dir: dir, Format: m.Format.Name, Version: m.Format.Version, Fingerprint: m.Fingerprint, Parents: m.Parents, Files: len(m.Files), DiskBytes: m.Bytes()}
			lines := []line{
				{"directory", dir},
				{"format", m.Format.String()},
				{"fingerprint", m.Fingerprint},
				{"disk", fmt.Sprintf("%s in %s", budget.FormatBytes(v.DiskBytes), units.Of(v.Files, "file"))},
			}
			more, err := inspect(&v)
			if err == nil && page != "" {
				err = drawPage(ctx, &v, page, s.rep)
				more = append(more, line{"made", page})
			}
			return outcome{object: v, lines: append(lines, more...)}, err
		},
	}
}

// drawPage draws a directory of the format that v names.
func drawPage(ctx context.Context, v *inspected, name string, rep progress.Reporter) error {
	var p *inspection.Page
	switch {
	case v.Dataset != nil:
		d, err := dataset.OpenAny(vfs.OS, v.Dir)
		if err != nil {
			return err
		}
		if p, err = inspection.Dataset(ctx, d, rep); err != nil {
			return err
		}
	case v.Samples != nil:
		r, err := mbfile.Open(vfs.OS, v.Dir)
		if err != nil {
			return err
		}
		p, err = inspection.Samples(r)
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
	case v.Pack != nil && v.Format == packfile.Format.Name:
		r, err := packfile.OpenSlice(vfs.OS, v.Dir)
		if err != nil {
			return err
		}
		p = inspection.Pack(r)
	default:
		return fault.New(fault.ErrUsage, "--html: %s is a shard: diskgnn merge combines all shards", v.Dir)
	}
	v.Page, v.Figures = name, p.Figures
	return writePage(name, p.Write)
}

// inspect describes a directory of the format that v names.
func inspect(v *inspected) ([]line, error) {
	part := []line{{"part", "a shard: diskgnn merge combines all shards"}}
	switch v.Format {
	case dataset.Format.Name:
		d, err := dataset.OpenAny(vfs.OS, v.Dir)
		if err != nil {
			return nil, err
		}
		f := d.Facts()
		v.Dataset = &f
		if v.ClassNames, err = d.ClassNames(); err != nil {
			return nil, err
		}
		return append(datasetLines(&f), classNameLines(v.ClassNames)...), nil
	case mbfile.Format.Name:
		r, err := mbfile.Open(vfs.OS, v.Dir)
		if err != nil {
			return nil, err
		}
		d, err := r.Describe()
		v.Samples = &d
		return samplesLines(&d), errors.Join(err, r.Close())
	case mbfile.Format.Shard().Name, exact.ShareFormat.Name:
		return part, nil
	case packfile.Format.Name:
		r, err := packfile.OpenSlice(vfs.OS, v.Dir)
		if err != nil {
			return nil, err
		}
		d := r.Describe()
		v.Pack, v.Slice = &d, r.Slice()
		if v.Slice != nil {
			part = []line{{"part", v.Slice.String() + "; the other lines describe the whole pack"}}
		}
		return append(part, packLines(&d)...), nil
	case packfile.Format.Shard().Name:
		r, err := packfile.OpenShard(vfs.OS, v.Dir)
		if err != nil {
			return nil, err
		}
		d := r.Describe()
		v.Pack = &d
		return append(part, packLines(&d)...), nil
	}
	return nil, fault.New(fault.ErrInput, "%s is a %s: no dataset, samples or pack", v.Dir, v.Format)
}

func datasetLines(f *dataset.Facts) []line {
	lines := []line{
		{"graph", fmt.Sprintf("%s, %s", units.Of(f.Nodes, "node"), units.Of(f.Edges, "edge"))},
		{"features", fmt.Sprintf("%d of %s: %s a row, %s", f.Dim, f.DType, budget.FormatBytes(int64(f.RowBytes())), budget.FormatBytes(f.FeatureRows()*int64(f.RowBytes())))},
	}
	lines = append(lines, typeLines(f.Types, nil)...)
	if f.Labelled() {
		lines = append(lines,
			line{"classes", fmt.Sprintf("%d%s, scored by %s", f.Classes, ofLabels(f.LabelKind), f.Metric)},
			line{"splits", fmt.Sprintf("%s to train on, %s to validate, %s to test", units.Count(f.Train), units.Count(f.Valid), units.Count(f.Test))})
	} else {
		lines = append(lines, labelLines(f.LabelKind, 0, 0, 0, 0, 0)...)
	}
	switch f.OriginalIDs {
	case dataset.IDNumbers:
		lines = append(lines, line{"ids", "nodes are renumbered; the dataset keeps the numbers of the source"})
	case dataset.IDNames:
		lines = append(lines, line{"ids", fmt.Sprintf("nodes have names, of %s", budget.FormatBytes(f.NameBytes))})
	}
	return lines
}

// typeLines has a line for each node type, with the relations into it: see runreport.TypeRows.
func typeLines(t *graph.Types, inputs []int64) (lines []line) {
	for _, r := range runreport.TypeRows(t, inputs) {
		lines = append(lines, line{"type", r.Name + ": " + r.Value})
	}
	return lines
}

// mostNamesShown is the number of classes that a line names.
const mostNamesShown = 8

// classNameLines returns a line with the names of the first classes, if they have some.
func classNameLines(names []string) []line {
	if len(names) == 0 {
		return nil
	}
	text := strings.Join(names[:min(len(names), mostNamesShown)], ", ")
	if more := len(names) - mostNamesShown; more > 0 {
		text += fmt.Sprintf(" and %s", units.Of(more, "other"))
	}
	return []line{{"names", text}}
}

func samplesLines(d *mbfile.Description) []line {
	f, p := &d.Facts, &d.Params
	lines := []line{
		{"sampled", fmt.Sprintf("fanout %s of batches of %d, %s, %s order%s, seed %d%s", sampler.FormatFanout(p.Fanout), p.BatchSize, units.Of(p.Epochs, "epoch"), p.Order, bufferOf(p), p.Seed, methodOf(p))},
		{"batches", fmt.Sprintf("%s to train on, %s to validate, %s to test", units.Count(f.TrainBatches), units.Count(f.ValidBatches), units.Count(f.TestBatches))},
		{"rows", fmt.Sprintf("%s read by training, of %s nodes", units.Count(f.Train.InputNodes), units.Count(d.Touched))},
	}
	if p.Merged {
		lines = append(lines, line{"relations", "drawn from together"})
	}
	for _, name := range slices.Sorted(maps.Keys(p.RelationFanout)) {
		lines = append(lines, line{"relation", name + ": fanout " + sampler.FormatFanout(p.RelationFanout[name])})
	}
	for i, s := range d.Types {
		text := fmt.Sprintf("%s: %s of the rows", s.Name, percent(s.Accesses))
		if f.Types.Nodes[i].Features {
			text += fmt.Sprintf(", of %s nodes", units.Count(s.Touched))
		} else {
			text += ", one that its nodes share"
		}
		lines = append(lines, line{"type", text})
	}
	for _, h := range d.Curve {
		if h.Share < 1 {
			lines = append(lines, line{"hotness", fmt.Sprintf("%3.0f%% of the nodes are %s of the rows", 100*h.Share, percent(h.Accesses))})
		}
	}
	return lines
}

// bufferOf describes the partitions of the graph that batches are drawn from.
func bufferOf(p *mbfile.Params) string {
	if p.Partitions == 0 {
		return ""
	}
	text := fmt.Sprintf(" of %d of %d partitions", p.Buffer, p.Partitions)
	if p.Walk != "" {
		text += ", walk " + p.Walk
	}
	return text
}

// methodOf describes the parts of the sampling that are not uniform.
func methodOf(p *mbfile.Params) string {
	if p.Method == "" {
		return ""
	}
	text := ", sampler " + p.Method
	if p.BatchDependency > 0 {
		text += fmt.Sprintf(", batch dependency %d", p.BatchDependency)
	}
	if p.LayerDependency {
		text += ", layer dependency"
	}
	return text
}

func packLines(d *packfile.Description) []line {
	segments := ""
	if d.Segment > 1 {
		segments = fmt.Sprintf(", the training batches in %s segments of %d", units.Count(d.Segments), d.Segment)
	}
	lines := []line{
		{"batches", fmt.Sprintf("%s%s, policy %s", units.Count(d.Batches), segments, d.Policy)},
		{"rows", fmt.Sprintf("%s each, %s, chunks compressed: %s", budget.FormatBytes(int64(d.RowBytes)), d.DType, d.Codec)},
		{"blow-up", fmt.Sprintf("%.2f times the features", d.Blowup)},
	}
	for _, l := range d.Levels {
		text := budget.FormatBytes(l.Bytes)
		if l.Rows > 0 {
			text = rows(l.Rows, l.Bytes)
		}
		lines = append(lines, line{l.Name, text})
	}
	for _, c := range d.Caches {
		text := fmt.Sprintf("%.3g%% of the nodes (%s): serves %s of the rows; a round of epochs reads %s", 100*c.Share, budget.FormatBytes(c.Bytes), percent(c.Hits), budget.FormatBytes(c.ColdBytes+c.SSDBytes+c.GraphBytes))
		if c.SSDRows > 0 {
			text += fmt.Sprintf(", %s of it shared rows", budget.FormatBytes(c.SSDBytes))
		}
		lines = append(lines, line{"cache", text})
	}
	return append(lines, typeLines(d.Types, d.TypeInputs)...)
}
