package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"diskgnn/dataset"
	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/nvme/target"
	"diskgnn/pack/packfile"
	"diskgnn/presample/mbfile"
	"diskgnn/train/rundir"
)

const verifyTeaches = `Reads a dataset, samples, a pack or a run from beginning to end and checks every byte against
its checksum, and what the format promises beyond: after a copy to another machine,
or when a disk is in doubt. The first wrong byte is named. What diskgnn nvme load has
put on raw drives is named by them. Of a run, traces and the report have no checksums.

   diskgnn verify pack
   diskgnn verify run
   diskgnn verify nvme:soft:drive`

// verified is what verify prints.
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

func newVerifyCommand(g *globals) *cli.Command {
	return g.add(command{
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
				{"verified", dir + ": every byte is what was written"},
				{"format", m.Format.String()},
				{"fingerprint", m.Fingerprint},
				{"disk", budget.FormatBytes(v.DiskBytes)},
				{"time", units.Seconds(v.Seconds)},
			}}, nil
		},
	})
}

// isRun tells whether a directory is one of train.
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
		return outcome{}, err
	}
	f := &r.File
	v := verified{Dir: dir, Format: f.Format.Name, Version: f.Format.Version, State: string(f.State), Checkpoints: r.Checkpoints,
		Unchecked: r.Unchecked, DiskBytes: r.Bytes, Seconds: time.Since(start).Seconds()}
	says := dir + ": every byte of its results is what was written"
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

// readMeta reads what a directory says that it is.
func readMeta(dir string) (*stage.Meta, error) {
	m, err := stage.ReadMeta(vfs.OS, dir, "directory")
	if err == nil {
		return m, nil
	}
	if isRun(dir) {
		return nil, fault.New(fault.ErrInput, "%s is a run of train, no dataset, samples or pack: diskgnn report %s shows what it did", dir, units.ShellWord(dir))
	}
	return nil, err
}

// verify checks a directory, or one on a volume, and returns what it says that it is.
func (s *session) verify(ctx context.Context, dir string) (*stage.Meta, error) {
	if strings.HasPrefix(dir, target.Prefix) {
		return s.verifyTarget(ctx, dir)
	}
	m, err := readMeta(dir)
	if err != nil {
		return nil, err
	}
	return m, s.verifyFiles(ctx, vfs.OS, dir, m)
}

// verifyFiles checks a directory of a file system.
func (s *session) verifyFiles(ctx context.Context, fsys vfs.FS, dir string, m *stage.Meta) error {
	switch m.Format.Name {
	case dataset.Format.Name:
		if fsys != vfs.OS { // its topology cannot be mapped, so it is not looked at beyond its bytes
			return dataset.Check(ctx, fsys, dir, m, stage.Bytes)
		}
		d, err := dataset.Open(fsys, dir)
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
	}
	return fault.New(fault.ErrInput, "%s is a %s: no dataset, samples or pack", dir, m.Format.Name)
}
