package monitor

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"diskgnn/internal/budget"
	"diskgnn/internal/chart"
	"diskgnn/internal/units"
	"diskgnn/train/recipe"
	"diskgnn/train/score"
)

//go:embed live.html
var liveText string

var livePage = template.Must(template.New("live").Parse(liveText))

// standing is the page's data about the run's progress.
type standing struct {
	Style    template.CSS
	Run      string
	Version  int // of the report
	Phase    string
	Share    float64 // of the run's batches that are done
	Sentence string
	Tiles    []tile
}

type tile struct{ Name, Value string }

// live returns the page that renews itself.
func (m *Monitor) live() ([]byte, error) { return m.execute("live") }

// now returns the progress above the report.
func (m *Monitor) now() ([]byte, error) { return m.execute("now") }

func (m *Monitor) execute(name string) ([]byte, error) {
	s := m.look()
	var page bytes.Buffer
	err := livePage.ExecuteTemplate(&page, name, s.standing(time.Now(), budget.Now()))
	return page.Bytes(), err
}

func (s *state) standing(now time.Time, held budget.Usage) *standing {
	v := &standing{Style: chart.Style(), Run: s.dir, Version: s.version, Phase: string(s.phase)}
	if !s.begun {
		v.Run, v.Sentence = "a run", "The run is being prepared."
		return v
	}
	total, epochs := s.perEpoch(), s.file.Params.Epochs
	if all := total * epochs; all > 0 {
		v.Share = 100 * min(1, float64(s.sums.Epoch*total+s.done)/float64(all))
	}
	parts := []string{fmt.Sprintf("%d of %s finished", s.epochs, units.Of(epochs, "epoch"))}
	if s.sums.Epoch < epochs {
		parts = append(parts, fmt.Sprintf("epoch %d: %s of %s", s.sums.Epoch, units.Count(s.done), units.Of(total, "batch")))
	}
	if left := s.left(now); left > 0 {
		parts = append(parts, "about "+units.Duration(coarse(left))+" left")
	}
	v.Sentence = capital(strings.Join(parts, " · "))

	add := func(name, value string) { v.Tiles = append(v.Tiles, tile{name, value}) }
	if s.sums.Loss.Defined() {
		add("loss, this epoch so far", fmt.Sprintf("%.4f", float64(s.sums.Loss)))
	} else if s.last.Epoch < s.epochs && s.last.Loss.Defined() {
		add("loss, latest epoch", fmt.Sprintf("%.4f", float64(s.last.Loss)))
	}
	if s.best.Defined() {
		add(fmt.Sprintf("best validation, epoch %d", s.bestAt), s.score(s.best))
	}
	if s.sums.Seconds > 0 {
		add("read, this epoch", units.BytesPerSecond(float64(s.sums.BytesRead)/s.sums.Seconds))
		add("batches", units.PerSecond(float64(s.done)/s.sums.Seconds))
	}
	if n := held.Anon + held.Locked; n > 0 {
		add("held of "+budget.FormatBytes(s.file.Setup.Memory), budget.FormatBytes(n))
	}
	return v
}

// coarse rounds to the precision of an estimate.
func coarse(d time.Duration) time.Duration {
	switch {
	case d > 10*time.Minute:
		return d.Round(time.Minute)
	case d > time.Minute:
		return d.Round(10 * time.Second)
	}
	return d.Round(time.Second)
}

// score writes a score for people.
func (s *state) score(v score.Score) string {
	if s.file.Params.Metric == recipe.MetricAUC {
		return fmt.Sprintf("%.4f", float64(v))
	}
	return fmt.Sprintf("%.2f %%", 100*float64(v))
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
