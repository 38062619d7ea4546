package monitor

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/trace"
	"slices"
	"strings"
	"testing"
)

// profileStrings returns the string table of a profile: field 6 of its message, in the format of pprof.
func profileStrings(t *testing.T, profile string) (table []string) {
	t.Helper()
	z, err := gzip.NewReader(strings.NewReader(profile))
	if err != nil {
		t.Fatalf("%v in %.80q", err, profile)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for r := bytes.NewReader(b); r.Len() > 0; {
		tag, err := binary.ReadUvarint(r)
		if err != nil {
			t.Fatal(err)
		}
		n, err := binary.ReadUvarint(r)
		if err != nil || tag&7 != 0 && tag&7 != 2 {
			t.Fatalf("field %d: %v", tag, err)
		}
		if tag&7 == 0 {
			continue
		}
		field := make([]byte, n)
		if _, err := io.ReadFull(r, field); err != nil {
			t.Fatal(err)
		}
		if tag>>3 == 6 {
			table = append(table, string(field))
		}
	}
	return table
}

// Profiles of this process are those that the tools read.
func TestProfiles(t *testing.T) {
	m := serving(t)
	for path, want := range map[string][]string{
		"profile?seconds=0.01": {"cpu", "nanoseconds", "samples", "count"},
		"heap":                 {"inuse_space", "bytes", "alloc_objects"},
		"allocs":               {"alloc_space", "inuse_objects"},
		"goroutine":            {"goroutine", "diskgnn/train/monitor.(*Monitor).profiles"},
		"threadcreate":         {"threadcreate"},
	} {
		code, body, h := m.get(t, "GET", "debug/pprof/"+path)
		if code != 200 || h.Get("Content-Type") != "application/octet-stream" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %v", path, code, h)
			continue
		}
		table := profileStrings(t, body)
		for _, s := range want {
			if !slices.Contains(table, s) {
				t.Errorf("%s: no %q in %q", path, s, table)
			}
		}
	}
	if code, body, _ := m.get(t, "GET", "debug/pprof/trace?seconds=0.01"); code != 200 || !strings.HasPrefix(body, "go 1.") {
		t.Errorf("a trace: %d, %.20q", code, body)
	}
	for path, want := range map[string]string{
		"":                       "200 of the moment: allocs, goroutine, heap, threadcreate; of a period, ?seconds=N: profile, trace\n",
		"goroutine?debug=1":      "200 goroutine profile: total ",
		"cmdline":                "404 there is no such profile\n",
		"profile/x":              "404 there is no such profile\n",
		"profile?seconds=0":      "400 seconds=\"0\": give a number up to 300\n",
		"trace?seconds=-1":       "400 seconds=\"-1\": give a number up to 300\n",
		"trace?seconds=NaN":      "400 seconds=\"NaN\": give a number up to 300\n",
		"trace?seconds=300.1":    "400 seconds=\"300.1\": give a number up to 300\n",
		"profile?seconds=a+hour": "400 seconds=\"a hour\": give a number up to 300\n",
	} {
		code, body, h := m.get(t, "GET", "debug/pprof/"+path)
		if !strings.HasPrefix(fmt.Sprint(code, " ", body), want) || !strings.HasPrefix(h.Get("Content-Type"), "text/plain") {
			t.Errorf("%q: %d %.80q, %v; want %q", path, code, body, h, want)
		}
	}
	if code, _, _ := m.get(t, "POST", "debug/pprof/heap"); code != 405 {
		t.Errorf("POST: %d", code)
	}
}

// One recording of a kind is made at a time. It ends with the run, or when the client goes away.
func TestRecordingEnds(t *testing.T) {
	m := serving(t)
	answered := make(chan error, 1)
	go func() {
		r, err := http.Get(m.URL() + "debug/pprof/trace?seconds=300")
		if err == nil {
			_, err = io.Copy(io.Discard, r.Body)
			r.Body.Close()
		}
		answered <- err
	}()
	for !trace.IsEnabled() {
		runtime.Gosched()
	}
	if code, body, _ := m.get(t, "GET", "debug/pprof/trace?seconds=300"); code != 409 || !strings.Contains(body, "already enabled") {
		t.Errorf("beside another: %d %q", code, body)
	}
	m.Close()
	if err := <-answered; err == nil {
		t.Error("the recording was whole")
	}
	for trace.IsEnabled() { // the handler ends by itself
		runtime.Gosched()
	}
}

// Profiles are for the loopback, or whoever shows the token; and for no page of another site.
func TestProfilesAreGuarded(t *testing.T) {
	const path = "debug/pprof/goroutine"
	m := serving(t)
	for site, want := range map[string]int{"": 200, "none": 200, "same-origin": 200, "same-site": 403, "cross-site": 403} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", m.URL()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != want {
			t.Errorf("asked by %q: %d, want %d", site, a.StatusCode, want)
		}
	}
	const token = "0123456789abcdef"
	for _, c := range []struct {
		address       string
		access        Access
		authorization string
		want          int
	}{
		{"127.0.0.1:0", Access{Token: token}, "", 200},
		{"0.0.0.0:0", Access{Token: token}, "", 401},
		{"0.0.0.0:0", Access{Token: token}, "Bearer " + token[1:], 401},
		{"0.0.0.0:0", Access{Token: token}, "Bearer " + token, 200},
		{"0.0.0.0:0", Access{Token: token, Open: true}, "", 401},
		{"0.0.0.0:0", Access{Open: true}, "", 403},
	} {
		m, err := Listen(c.address, c.access, t.Logf)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/debug/pprof/", "/" + path} {
			if code, _ := m.ask(t, path, "127.0.0.1", c.authorization); code != c.want {
				t.Errorf("%s at %s with %+v, showing %q: %d, want %d", path, c.address, c.access, c.authorization, code, c.want)
			}
		}
		m.Close()
	}
}
