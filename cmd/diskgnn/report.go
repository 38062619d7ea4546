package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"diskgnn/internal/fault"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/train"
	"diskgnn/train/rundir"
	"diskgnn/train/tensorboard"
)

const reportTeaches = `Makes a run's report.html, one page that needs neither scripts nor network: what was
learned, where the time went, what was read and held. train makes it too; this is for
another look, and for runs that were killed.

   diskgnn report run
   diskgnn report run --drive-rate 2.1GB     compare with what bench io measured
   diskgnn report run --tensorboard logs/run write an event file instead, also of a run
                                             under way; then: tensorboard --logdir logs`

// reported is what report prints.
type reported struct {
	Report      string `json:"report,omitempty"`
	TensorBoard string `json:"tensorboard,omitempty"`
	State       string `json:"state"`
	Epochs      int    `json:"epochs"`
}

func newReportCommand(g *globals) *cli.Command {
	var rate int64
	var board string
	return g.add(command{
		name:     "report",
		usage:    "show a run on a page",
		teaches:  reportTeaches,
		operands: []string{"RUN"},
		flags: []cli.Flag{
			bytesFlag("drive-rate", "the drive's sequential rate, in bytes per second, to compare with", "not compared", &rate),
			stringFlag("tensorboard", "DIR", "write the epochs as an event file into this directory, and no page", &board),
		},
		run: func(_ context.Context, s *session) (outcome, error) {
			dir := s.args[0]
			if board != "" {
				if rate != 0 {
					return outcome{}, fault.New(fault.ErrUsage, "--drive-rate is for the page, which --tensorboard does not make")
				}
				return writeEvents(dir, board)
			}
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

// writeEvents writes a run's epochs, as far as they are finished, for TensorBoard.
func writeEvents(dir, board string) (outcome, error) {
	f, err := rundir.Read(vfs.OS, dir)
	if err != nil {
		return outcome{}, err
	}
	epochs, err := rundir.ReadLines(vfs.OS, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return outcome{}, err
	}
	if err := tensorboard.Write(vfs.OS, board, f.Begun, epochs); err != nil {
		return outcome{}, fmt.Errorf("write events of %s: %w", dir, err)
	}
	v := reported{TensorBoard: filepath.Join(board, tensorboard.FileName), State: string(f.State), Epochs: len(epochs)}
	return outcome{object: v, lines: []line{{"made", v.TensorBoard}, {"run", v.State + ", " + units.Of(v.Epochs, "epoch")}}}, nil
}
