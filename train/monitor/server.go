package monitor

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"diskgnn/internal/budget"
	"diskgnn/internal/fault"
)

// listen listens at an address. Other machines can reach it only if the address says so.
func listen(address string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fault.New(fault.ErrUsage, "--listen %q: give HOST:PORT, like 127.0.0.1:9090, or port 0 for any that is free", address)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		why := err
		if op, ok := errors.AsType[*net.OpError](err); ok {
			why = op.Err
		}
		if call, ok := errors.AsType[*os.SyscallError](err); ok {
			why = call.Err
		}
		return nil, fault.New(fault.ErrUsage, "--listen %s: %w", address, why)
	}
	return l, nil
}

// URL returns the report's URL. If the server listens at every address of the machine, the URL has
// the machine's name.
func (m *Monitor) URL() string {
	host, port, err := net.SplitHostPort(m.listener.Addr().String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	return "http://" + net.JoinHostPort(host, port) + "/"
}

// Loopback reports whether no other machine can reach the server.
func (m *Monitor) Loopback() bool {
	a, ok := m.listener.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}

// closing is how long Close waits for answers under way.
const closing = 200 * time.Millisecond

// Asks reports whether viewers have to show the token.
func (m *Monitor) Asks() bool { return m.asks }

// Close stops serving. It waits a short time for answers under way.
func (m *Monitor) Close() {
	if m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	if m.server.Shutdown(ctx) != nil {
		_ = m.server.Close() // its listener was only read from
	}
	m.served.Wait()
}

// mostConnections is the most connections at a time: the run needs the descriptors.
const mostConnections = 64

// count keeps the connections, the one with the oldest state first, and closes that one when there
// are too many: open connections do not keep others out.
func (m *Monitor) count(c net.Conn, s http.ConnState) {
	m.counting.Lock()
	defer m.counting.Unlock()
	if i := slices.Index(m.open, c); i >= 0 {
		m.open = slices.Delete(m.open, i, i+1)
	}
	if s == http.StateClosed || s == http.StateHijacked {
		return
	}
	if len(m.open) == mostConnections {
		_ = m.open[0].Close() // it was only read from
		m.open = slices.Delete(m.open, 0, 1)
	}
	m.open = append(m.open, c)
}

func (m *Monitor) serve() {
	m.served.Go(func() {
		defer fault.Crash()
		_ = m.server.Serve(m.listener) // which ends with Close
	})
}

// policy forbids pages to load anything: they include all that they need.
const policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; connect-src 'self'; frame-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"

func (m *Monitor) handler() http.Handler {
	mux := http.NewServeMux()
	get := func(path, kind string, content func() ([]byte, error)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			h.Set("Cache-Control", "no-store")
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Content-Security-Policy", policy)
			b, err := content()
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			h.Set("Content-Type", kind)
			_, _ = w.Write(b) // the client may have gone
		})
	}
	const html = "text/html; charset=utf-8"
	get("/{$}", html, m.live)
	get("/now", html, m.now)
	get("/report", html, m.report)
	get("/metrics", contentType, func() ([]byte, error) {
		s := m.look()
		return s.metrics(budget.Now()), nil
	})
	get("/healthz", "text/plain; charset=utf-8", func() ([]byte, error) { return []byte("ok\n"), nil })
	mux.HandleFunc("GET /debug/pprof/{name...}", m.profiles)
	return m.guard(mux)
}

// report returns the run's report, rendered once for all requests until an epoch is finished.
func (m *Monitor) report() ([]byte, error) {
	m.rendering.Lock()
	defer m.rendering.Unlock()
	s := m.look()
	if !s.begun {
		return nil, errors.New("the run has not begun: it is being prepared")
	}
	if m.rendered == nil || m.version != s.version {
		var page bytes.Buffer
		if err := s.page(&page); err != nil {
			return nil, err
		}
		m.rendered, m.version = page.Bytes(), s.version
	}
	return m.rendered, nil
}

// firstLine notes the first line written to it.
type firstLine func(format string, args ...any)

func (note firstLine) Write(p []byte) (int, error) {
	line, _, _ := strings.Cut(string(p), "\n")
	note("--listen: %s", line)
	return len(p), nil
}
