package monitor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"diskgnn/internal/fault"
	"diskgnn/train/rundir"
	"diskgnn/train/score"
)

// serving returns a Monitor at a free port of the loopback.
func serving(t *testing.T) *Monitor {
	t.Helper()
	m, err := Listen("127.0.0.1:0", Access{}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// get returns the answer to a request.
func (m *Monitor) get(t *testing.T, method, path string) (code int, body string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, m.URL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(b), a.Header
}

func TestServed(t *testing.T) {
	m := serving(t)
	for _, c := range []struct {
		method, path string
		code         int
		kind, holds  string
	}{
		{"GET", "", 200, "text/html", "being prepared"},
		{"GET", "now", 200, "text/html", "being prepared"},
		{"GET", "report", 503, "text/plain", "the run has not begun"},
		{"GET", "metrics", 200, "text/plain; version=0.0.4", `diskgnn_phase{phase="preparing"} 1`},
		{"GET", "healthz", 200, "text/plain", "ok\n"},
		{"HEAD", "healthz", 200, "text/plain", ""},
		{"GET", "other", 404, "text/plain", ""},
		{"POST", "metrics", 405, "text/plain", ""},
		{"DELETE", "", 405, "text/plain", ""},
	} {
		code, body, h := m.get(t, c.method, c.path)
		if code != c.code || !strings.HasPrefix(h.Get("Content-Type"), c.kind) || !strings.Contains(body, c.holds) {
			t.Errorf("%s /%s: %d, %s, %q", c.method, c.path, code, h.Get("Content-Type"), body)
		}
		if code == 200 && (h.Get("Cache-Control") != "no-store" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'")) {
			t.Errorf("/%s: %v", c.path, h)
		}
	}
}

// The report is rendered once for all that look, until an epoch is finished. One that cannot
// be rendered is an answer, and no more.
func TestReport(t *testing.T) {
	m := serving(t)
	times := 0
	var failure error
	m.Begin("dir/run", file(), nil, func(w io.Writer) error {
		times++
		_, err := fmt.Fprintf(w, "report %d", times)
		return errors.Join(err, failure)
	})
	look := func(code int, want string) {
		t.Helper()
		if c, body, _ := m.get(t, "GET", "report"); c != code || body != want {
			t.Errorf("%d, %q", c, body)
		}
	}
	look(200, "report 1")
	look(200, "report 1")
	m.Step(&rundir.Epoch{Loss: score.Undefined}, 4)
	look(200, "report 1")
	m.Epoch(&rundir.Epoch{Batches: 10, ValidAccuracy: 0.5, Loss: 1.5})
	look(200, "report 2")
	failure = errors.New("no such file")
	m.Epoch(&rundir.Epoch{Epoch: 1, Batches: 10, ValidAccuracy: 0.25, Loss: 1.25})
	look(503, "no such file\n")
	m.Phase(Validating)
	_, body, _ := m.get(t, "GET", "")
	for _, want := range []string{`<b>dir/run</b>, validating. 2 of 3 epochs finished · epoch 2: 0 of 10 batches`, `data-version="3"`,
		`<b>1.2500</b><span>loss, latest epoch</span>`, `<b>50.00 %</b><span>best validation, epoch 0</span>`, `style="width: 66.7%"`} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in\n%s", want, body)
		}
	}
	// The page stands alone, and it renews the same piece that it begins with.
	_, now, _ := m.get(t, "GET", "now")
	if !strings.Contains(body, strings.Split(now, `<div class="tiles">`)[0]) {
		t.Errorf("/now is\n%s", now)
	}
	for _, foreign := range []string{"http:", "https:", "//"} {
		if strings.Contains(strings.ReplaceAll(body, "// renew", ""), foreign) {
			t.Errorf("the page has %s", foreign)
		}
	}
}

// An address that cannot be listened at is refused in one line.
func TestListenRefuses(t *testing.T) {
	m := serving(t)
	taken := m.listener.Addr().String()
	for address, want := range map[string]string{
		taken:             "--listen " + taken + ": address already in use",
		"9090":            `--listen "9090": give HOST:PORT, like 127.0.0.1:9090, or port 0 for any that is free`,
		"127.0.0.1:99999": "--listen 127.0.0.1:99999: address 99999: invalid port",
		"":                `--listen "": give HOST:PORT, like 127.0.0.1:9090, or port 0 for any that is free`,
	} {
		_, err := Listen(address, Access{Open: true}, t.Logf)
		if err == nil || err.Error() != want || !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := Listen(taken, Access{}, t.Logf); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("%v", err)
	}
}

// Without a host only this machine is listened to.
func TestLoopback(t *testing.T) {
	for address, want := range map[string]bool{":0": true, "localhost:0": true, "127.0.0.1:0": true, "0.0.0.0:0": false} {
		m, err := Listen(address, Access{Open: true}, t.Logf)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if m.Loopback() != want || strings.Contains(m.URL(), "0.0.0.0") || !strings.HasPrefix(m.URL(), "http://") {
			t.Errorf("%s: %s, of this machine alone: %t", address, m.URL(), m.Loopback())
		}
		m.Close()
	}
}

// Serving ends with Close, whatever clients hold.
func TestClose(t *testing.T) {
	m := serving(t)
	silent, err := net.Dial("tcp", m.listener.Addr().String()) // which never asks
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	m.get(t, "GET", "healthz") // whose connection stays open
	m.Close()
	m.Close()
	_ = silent.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := silent.Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection is still open: %v", err)
	}
	if c, err := net.Dial("tcp", m.listener.Addr().String()); err == nil {
		c.Close()
		t.Error("still listening")
	}
}

// What goes wrong in the server is noted in a line.
func TestFirstLine(t *testing.T) {
	var noted []string
	w := firstLine(func(format string, args ...any) { noted = append(noted, fmt.Sprintf(format, args...)) })
	if n, err := w.Write([]byte("http: panic serving\nstack\n")); n != 26 || err != nil {
		t.Error(n, err)
	}
	if len(noted) != 1 || noted[0] != "--listen: http: panic serving" {
		t.Errorf("%q", noted)
	}
}

// Everything is read while the run goes on: under the race detector nothing is shared.
func TestReadWhileTraining(t *testing.T) {
	m := serving(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var readers sync.WaitGroup
	var first sync.WaitGroup
	for _, path := range []string{"", "now", "report", "metrics"} {
		first.Add(1)
		readers.Go(func() {
			once := sync.OnceFunc(first.Done)
			defer once()
			for ctx.Err() == nil {
				m.get(t, "GET", path)
				once()
			}
		})
	}
	m.Begin("r", file(), nil, func(w io.Writer) error { _, err := io.WriteString(w, "report"); return err })
	first.Wait()
	l := links(0, 0)
	for e := range 3 {
		for b := range 10 {
			l[0].Busy++
			m.Step(&rundir.Epoch{Epoch: e, BytesRead: int64(b), Links: l}, b)
		}
		m.Phase(Validating)
		m.Epoch(&rundir.Epoch{Epoch: e, Batches: 10, Links: l})
		m.get(t, "GET", "metrics")
	}
	stop()
	readers.Wait()
}
