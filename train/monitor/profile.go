package monitor

import (
	"fmt"
	"io"
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"time"
)

// snapshots are the profiles of a moment, by their names in package runtime/pprof.
var snapshots = []string{"allocs", "goroutine", "heap", "threadcreate"}

// recordings are the profiles of a period that begins with the request. One of a kind may be under way.
var recordings = map[string]struct {
	begin func(io.Writer) error
	end   func()
	usual time.Duration
}{
	"profile": {pprof.StartCPUProfile, pprof.StopCPUProfile, 30 * time.Second},
	"trace":   {trace.Start, trace.Stop, time.Second},
}

// mostRecorded is the longest period of a recording.
const mostRecorded = 5 * time.Minute

// profiles serves profiles of the process, as "go tool pprof" and "go tool trace" request them. They show
// more than the pages and slow the run down, so they are stricter: an address that other machines reach
// needs the token even with Access.Open, and pages of other sites get none. Package net/http/pprof would
// add handlers to http.DefaultServeMux, where no guard is.
func (m *Monitor) profiles(w http.ResponseWriter, r *http.Request) {
	name, site := r.PathValue("name"), r.Header.Get("Sec-Fetch-Site")
	_, records := recordings[name]
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case !m.Loopback() && !m.asks:
		http.Error(w, "profiles need a secret at an address that other machines reach", http.StatusForbidden)
	case site != "" && site != "same-origin" && site != "none":
		http.Error(w, "a page of another site gets no profile", http.StatusForbidden)
	case name == "":
		fmt.Fprintf(w, "of the moment: %s; of a period, ?seconds=N: profile, trace\n", strings.Join(snapshots, ", "))
	case records:
		record(w, r, name)
	case slices.Contains(snapshots, name):
		debug, _ := strconv.Atoi(r.FormValue("debug")) // 0: for the tools; else text
		kind := "application/octet-stream"
		if debug > 0 {
			kind = "text/plain; charset=utf-8"
		}
		w.Header().Set("Content-Type", kind)
		_ = pprof.Lookup(name).WriteTo(w, debug) // the client may have gone
	default:
		http.Error(w, "there is no such profile", http.StatusNotFound)
	}
}

// record answers with a profile of a period. The period ends early if the client goes away or the run ends.
func record(w http.ResponseWriter, r *http.Request, name string) {
	how := recordings[name]
	period := how.usual
	if s := r.FormValue("seconds"); s != "" {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil || !(v > 0 && v <= mostRecorded.Seconds()) {
			http.Error(w, fmt.Sprintf("seconds=%q: give a number up to %.0f", s, mostRecorded.Seconds()), http.StatusBadRequest)
			return
		}
		period = time.Duration(v * float64(time.Second))
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(period + writeTimeout)) // else it is the shorter one of other answers
	w.Header().Set("Content-Type", "application/octet-stream")
	if err := how.begin(w); err != nil { // one is under way
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	defer how.end()
	over := time.NewTimer(period)
	defer over.Stop()
	select {
	case <-over.C:
	case <-r.Context().Done():
	}
}
