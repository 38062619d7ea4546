package report

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"diskgnn/internal/units"
	"diskgnn/train/model"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

func (r *Run) title() string {
	name := "A model"
	if m := r.Params.Model; m != "" {
		name = model.Kind(m).Title()
	}
	return fmt.Sprintf("%s on %s", name, filepath.Base(r.PackFacts.Dir))
}

func (r *Run) metric() string {
	switch r.Params.Metric {
	case "auc":
		return "AUC"
	case "f1":
		return "micro F1"
	case "":
		return "score"
	}
	return r.Params.Metric
}

// score writes a score of the run's metric.
func (r *Run) score(v score.Score) string {
	if r.Params.Metric == "auc" {
		return fmt.Sprintf("%.4f", v)
	}
	return fmt.Sprintf("%.2f %%", 100*v)
}

// tick writes a score on an axis.
func (r *Run) tick(v float64) string {
	if r.Params.Metric == "auc" {
		return plain(v)
	}
	return plain(100*v) + " %"
}

// optional writes a score that may be undefined.
func (r *Run) optional(v score.Score) string {
	if !v.Defined() {
		return "–"
	}
	return r.score(v)
}

// sentence summarises the run.
func (r *Run) sentence() string {
	s := r.progress()
	if last := len(r.Epochs) - 1; last >= 0 {
		s += r.outcome(&r.Epochs[last])
		s += fmt.Sprintf(" %s takes %s.", capital(r.anEpoch()), units.Seconds(float64(r.epochSeconds())))
	}
	return s
}

func (r *Run) progress() string {
	done := fmt.Sprintf("%d of %s", len(r.Epochs), units.Of(r.Params.Epochs, "epoch"))
	switch r.State {
	case rundir.StateFinished:
		if r.Result != nil && r.Result.StoppedEarly {
			return fmt.Sprintf("Stopped early, after %s: the scores no longer improved.", done)
		}
		return fmt.Sprintf("Finished %s.", units.Of(len(r.Epochs), "epoch"))
	case rundir.StateRunning:
		return fmt.Sprintf("Running: %s so far.", done)
	case Killed:
		return fmt.Sprintf("Ended without an error message after %s.", done)
	}
	s := fmt.Sprintf("%s after %s", capital(string(r.State)), done)
	if r.Error != "" && r.State == rundir.StateFailed {
		return s + ": " + strings.TrimSuffix(r.Error, ".") + "."
	}
	return s + "."
}

// outcome describes the scores until the last epoch.
func (r *Run) outcome(last *rundir.Epoch) string {
	best := r.best()
	switch {
	case r.Setup.Engine == "none":
		return " Batches were loaded and thrown away, nothing was computed."
	case best < 0 && !last.Loss.Defined():
		return " Nothing was validated."
	case best < 0:
		return fmt.Sprintf(" The loss came to %.4g; nothing was validated.", last.Loss)
	}
	e := &r.Epochs[best]
	if r.Result != nil && r.Result.TestAccuracy.Defined() {
		return fmt.Sprintf(" Test %s %s, with the weights of epoch %d, the best in validation (%s).", r.metric(), r.score(r.Result.TestAccuracy), e.Epoch, r.score(e.ValidAccuracy))
	}
	return fmt.Sprintf(" Best validation %s %s, at epoch %d.", r.metric(), r.score(e.ValidAccuracy), e.Epoch)
}

// anEpoch names the epochs that epochSeconds averages.
func (r *Run) anEpoch() string {
	if len(r.Epochs) > 1 {
		return "an epoch after the first"
	}
	return "an epoch"
}

// flagName matches flags that units.ShellWord would take for paths.
var flagName = regexp.MustCompile(`^--?([a-z][a-z0-9-]*)?$`)

// command is the command line that began the run, as typed in a shell.
func (r *Run) command() string {
	words := make([]string, len(r.Command))
	for i, w := range r.Command {
		switch name, value, given := strings.Cut(w, "="); {
		case i == 0:
			words[i] = units.ShellWord(filepath.Base(w))
		case !flagName.MatchString(name):
			words[i] = units.ShellWord(w)
		case given:
			words[i] = name + "=" + units.ShellWord(value)
		default:
			words[i] = name
		}
	}
	return strings.Join(words, " ")
}

// plain writes a number in its shortest form, to six digits.
func plain(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

func seconds(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) + " s" }

func numbers(list []int, separator string) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, separator)
}

func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// when returns the date of the run, to the minute.
func (r *Run) when() string {
	const minute = "2 January 2006, 15:04 MST"
	s := "Begun " + r.Begun.UTC().Format(minute)
	if r.Ended != nil {
		s += ", ended " + r.Ended.UTC().Format(minute) + ", after " + units.Seconds(r.Ended.Sub(r.Begun).Round(time.Second).Seconds())
	}
	if r.Host != nil && r.Host.Name != "" {
		s += ", on " + r.Host.Name
	}
	return s + "."
}
