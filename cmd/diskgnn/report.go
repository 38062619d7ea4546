package main

import (
	"context"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/train"
	"diskgnn/train/rundir"
)

const reportTeaches = `Makes a run's report.html, one page that needs neither scripts nor network: what was
learned, where the time went, what was read and held. train makes it too; this is for
another look, and for runs that were killed.

   diskgnn report run
   diskgnn report run --drive-rate 2.1GB     compare with what bench io measured`

// reported is what report prints.
type reported struct {
	Report string `json:"report"`
	State  string `json:"state"`
	Epochs int    `json:"epochs"`
}

func newReportCommand(g *globals) *cli.Command {
	var rate int64
	return g.add(command{
		name:     "report",
		usage:    "show a run on a page",
		teaches:  reportTeaches,
		operands: []string{"RUN"},
		flags: []cli.Flag{
			bytesFlag("drive-rate", "the drive's sequential rate, in bytes per second, to compare with", "not compared", &rate),
		},
		run: func(_ context.Context, s *session) (outcome, error) {
			dir := s.args[0]
			r, err := train.Report(vfs.OS, dir, float64(rate))
			if err != nil {
				return outcome{}, err
			}
			v := reported{Report: filepath.Join(dir, rundir.ReportFile), State: string(r.State), Epochs: len(r.Epochs)}
			return outcome{object: v, lines: []line{
				{"made", v.Report},
				{"run", v.State + ", " + units.Of(v.Epochs, "epoch")},
			}}, nil
		},
	})
}
