package train

import (
	"io"

	"diskgnn/internal/progress"
	"diskgnn/internal/vfs"
	"diskgnn/train/monitor"
	"diskgnn/train/report"
)

// Listening is the fact of kind "listening": the address at which a run under way can be watched.
type Listening struct {
	URL     string `json:"url"`     // of the report
	Metrics string `json:"metrics"` // of the metrics
}

// String returns the address as a sentence for the user.
func (l Listening) String() string {
	return "listening: the report is at " + l.URL + ", metrics are at " + l.Metrics
}

// listen serves the run under way, if the options ask for it. Of several ranks rank 0 does. A nil
// monitor serves nothing.
func (o *Options) listen(rep progress.Reporter) (*monitor.Monitor, error) {
	if o.Listen == "" {
		return nil, nil
	}
	if !o.root() {
		rep.Logf("--listen: only rank 0 listens")
		return nil, nil
	}
	m, err := monitor.Listen(o.Listen, monitor.Access{Token: o.Secret.Token(), Open: o.Insecure}, rep.Logf)
	if err != nil {
		return nil, err
	}
	at := Listening{URL: m.URL(), Metrics: m.URL() + "metrics"}
	rep.Logf("%s", at)
	switch {
	case m.Asks():
		rep.Logf("--listen %s: the password is the token of the secret", o.Listen)
	case !m.Loopback():
		rep.Logf("--listen %s: whoever reaches this address can read the report and the metrics", o.Listen)
	}
	progress.Record(rep, "listening", at)
	return m, nil
}

// pageOf returns a function that writes the report of a run under way.
func pageOf(fsys vfs.FS, dir string) func(io.Writer) error {
	return func(w io.Writer) error {
		r, err := report.Read(fsys, dir)
		if err != nil {
			return err
		}
		return report.Write(w, r)
	}
}
