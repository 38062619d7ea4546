package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"diskgnn/internal/fault"
	"diskgnn/internal/units"
	"diskgnn/internal/vfs"
	"diskgnn/train"
	runreport "diskgnn/train/report"
	"diskgnn/train/rundir"
	"diskgnn/train/tensorboard"
)

const reportTeaches = `Makes a run's report.html, one page without scripts or network access: the bottleneck, the
scores, the times, the bytes read and the memory. train makes the page too; this command
makes it again, or for a run that was killed. For several runs it compares the results,
lists the differences of their parameters, and draws them together.

   diskgnn report run
   diskgnn report run --drive-rate 2.1GB   beside the rate that bench io measured
   diskgnn report run1 run2 run3           compare runs, in comparison.html
   diskgnn report run --html page.html     also of a run under way
   diskgnn report run --tensorboard logs   event files, for TensorBoard`

// reported is report's output.
type reported struct {
	Report      string `json:"report,omitempty"`
	TensorBoard string `json:"tensorboard,omitempty"`
	State       string `json:"state"`
	Epochs      int    `json:"epochs"`
	// The content of the page as data.
	Document *runreport.Document `json:"document,omitempty"`
}

// comparedRuns is report's output for several runs.
type comparedRuns struct {
	Report string `json:"report"`
	*runreport.Comparison
}

func reportCommand() command {
	var rate int64
	var board, page string
	return command{
		name:     "report",
		usage:    "show a run on a page, or compare several",
		teaches:  reportTeaches,
		operands: []string{"RUN..."},
		flags: flags{
			bytesFlag("drive-rate", "the drive's sequential rate, in bytes per second, to compare with", "not compared", &rate),
			outputFlag("html", "FILE", "write the page there, and leave the run's directory as it is", &page),
			outputFlag("tensorboard", "DIR", "write the epochs as an event file into this directory, and no page", &board),
		},
		check: func(s *session) error {
			switch {
			case board == "":
				return nil
			case rate != 0:
				return fault.New(fault.ErrUsage, "--drive-rate is for the page, which --tensorboard does not make")
			case page != "":
				return fault.New(fault.ErrUsage, "--html is for the page, which --tensorboard does not make")
			case len(s.args) > 1:
				return fault.New(fault.ErrUsage, "--tensorboard takes one run: give each run a directory of its own below one DIR")
			}
			return nil
		},
		run: func(_ context.Context, s *session) (outcome, error) {
			dir := s.args[0]
			if board != "" {
				return writeEvents(dir, board)
			}
			if len(s.args) > 1 {
				return comparePage(s.args, page, float64(rate))
			}
			return reportRun(dir, page, float64(rate))
		},
	}
}

// reportRun makes the page of a run: in its directory, unless another file is named.
func reportRun(dir, page string, rate float64) (outcome, error) {
	var r *runreport.Run
	var err error
	if page == "" {
		r, err = train.Report(vfs.OS, dir, rate)
		page = filepath.Join(dir, rundir.ReportFile)
	} else if r, err = readRun(dir, rate); err == nil {
		err = writePage(page, func(w io.Writer) error { return runreport.Write(w, r) })
	}
	if err != nil {
		return outcome{}, err
	}
	d := r.Document()
	v := reported{Report: page, State: string(r.State), Epochs: len(r.Epochs), Document: &d}
	lines := []line{{"made", v.Report}, {"run", v.State + ", " + units.Of(v.Epochs, "epoch")}}
	for _, f := range d.Verdict {
		lines = append(lines, line{f.ID, f.Text})
	}
	return outcome{object: v, lines: lines}, nil
}

// readRun reads a finished run, or a run under way.
func readRun(dir string, rate float64) (*runreport.Run, error) {
	r, err := runreport.Read(vfs.OS, dir)
	if err != nil {
		return nil, err
	}
	if r.DriveRate = rate; r.State == rundir.StateRunning && r.Unlocked(vfs.OS, dir) == nil {
		r.State = runreport.Killed
	}
	return r, nil
}

// comparePage makes a page of several runs.
func comparePage(dirs []string, page string, rate float64) (outcome, error) {
	runs := make([]*runreport.Run, len(dirs))
	for i, dir := range dirs {
		var err error
		if runs[i], err = readRun(dir, rate); err != nil {
			return outcome{}, err
		}
	}
	c, err := runreport.Compare(runs)
	if err != nil {
		return outcome{}, err
	}
	page = cmp.Or(page, "comparison.html")
	if err := writePage(page, c.Write); err != nil {
		return outcome{}, err
	}
	return outcome{object: comparedRuns{page, c}, text: comparisonText(c), lines: []line{{"made", page}}}, nil
}

// comparisonText returns the comparison as a table with a column for each run, in blocks of at most 80
// characters. The differences of the runs follow their figures.
func comparisonText(c *runreport.Comparison) string {
	table := c.Table()
	var names []string
	columns := make([][]string, len(table)-1)
	add := func(name string, cells []string) {
		names = append(names, name)
		for i, cell := range cells {
			columns[i] = append(columns[i], strings.ReplaceAll(cell, "\u00a0", " "))
		}
	}
	for k, name := range table[0] {
		cells := make([]string, len(columns))
		for i := range columns {
			cells[i] = table[i+1][k]
		}
		add(name, cells)
	}
	for _, d := range c.Differences {
		add(d.Name, d.Values)
	}
	wide := func(list []string) (n int) {
		for _, s := range list {
			n = max(n, utf8.RuneCountInString(s))
		}
		return n
	}
	var b strings.Builder
	for len(columns) > 0 {
		n, width := 1, wide(names)+2+wide(columns[0])
		for n < len(columns) && width+2+wide(columns[n]) <= 80 {
			width += 2 + wide(columns[n])
			n++
		}
		for k, name := range names {
			text := fmt.Sprintf("%-*s", wide(names), name)
			for _, column := range columns[:n] {
				text += fmt.Sprintf("  %-*s", wide(column), column[k])
			}
			b.WriteString(strings.TrimRight(text, " ") + "\n")
		}
		b.WriteString("\n")
		columns = columns[n:]
	}
	b.WriteString(strings.ReplaceAll(strings.ReplaceAll(c.Sentence(), ". ", ".\n"), "\u00a0", " ") + "\n")
	return b.String()
}

// writeEvents writes a run's finished epochs for TensorBoard.
func writeEvents(dir, board string) (outcome, error) {
	f, err := rundir.Read(vfs.OS, dir)
	if err != nil {
		return outcome{}, err
	}
	epochs, err := f.ReadLines(vfs.OS, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return outcome{}, err
	}
	if err := tensorboard.Write(vfs.OS, board, f.Begun, epochs); err != nil {
		return outcome{}, fmt.Errorf("write events of %s: %w", dir, err)
	}
	v := reported{TensorBoard: filepath.Join(board, tensorboard.FileName), State: string(f.State), Epochs: len(epochs)}
	return outcome{
		object: v,
		lines:  []line{{"made", v.TensorBoard}, {"run", v.State + ", " + units.Of(v.Epochs, "epoch")}},
		next:   "tensorboard --logdir " + units.ShellWord(board),
	}, nil
}
