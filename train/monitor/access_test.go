package monitor

import (
	"errors"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"diskgnn/internal/fault"
)

// ask returns the answer to a request with a Host and an Authorization.
func (m *Monitor) ask(t *testing.T, path, host, authorization string) (code int, header http.Header) {
	t.Helper()
	_, port, _ := strings.Cut(strings.TrimPrefix(m.URL(), "http://"), ":")
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://127.0.0.1:"+port+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Host = host; authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	return a.StatusCode, a.Header
}

// A page of another site cannot have its name lead here.
func TestNames(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	m := serving(t)
	for host, want := range map[string]int{
		"127.0.0.1": 200, "127.0.0.1:1": 200, "[::1]": 200, "[::1]:9090": 200, "::1": 200, "10.1.2.3:80": 200,
		"localhost": 200, "LocalHost:9090": 200, "localhost.": 200, own: 200, strings.ToUpper(own) + ":1": 200,
		"evil.example": 421, "evil.example:9090": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example": 421, "xlocalhost": 421,
	} {
		for _, path := range []string{"", "metrics", "healthz"} {
			if got, _ := m.ask(t, path, host, ""); got != want {
				t.Errorf("%s of %s: %d, want %d", path, host, got, want)
			}
		}
	}
	if known := names("Run.Example.:9090"); !known["run.example"] || !known["localhost"] || known[""] {
		t.Errorf("%v", known)
	}
	if known := names(":9090"); known[""] {
		t.Errorf("%v", known)
	}
}

// Beyond the loopback the token is asked for, of all but whether the run is under way.
func TestToken(t *testing.T) {
	const token = "0123456789abcdef"
	m, err := Listen("0.0.0.0:0", Access{Token: token}, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if !m.Asks() {
		t.Error("nobody is asked")
	}
	const basic = "Basic OjAxMjM0NTY3ODlhYmNkZWY=" // :0123456789abcdef
	for authorization, want := range map[string]int{
		"": 401, "Bearer " + token: 200, "bearer  " + token: 200, basic: 200, "Basic YW55Ym9keTowMTIzNDU2Nzg5YWJjZGVm": 200, // anybody:…
		"Bearer": 401, "Bearer " + token + "0": 401, "Bearer " + token[1:]: 401, token: 401, "Digest " + token: 401, "Basic Og==": 401, "Basic MDEyMzQ1Njc4OWFiY2RlZjo=": 401, // the token as the user
	} {
		for _, path := range []string{"", "now", "report", "metrics", "other"} {
			code, h := m.ask(t, path, "127.0.0.1", authorization)
			if (code == 401) != (want == 401) || (code == 401) != strings.HasPrefix(h.Get("WWW-Authenticate"), "Basic ") {
				t.Errorf("/%s with %q: %d, want %d; %v", path, authorization, code, want, h)
			}
		}
		if code, _ := m.ask(t, "healthz", "127.0.0.1", authorization); code != 200 {
			t.Errorf("/healthz with %q: %d", authorization, code)
		}
	}
	if code, _ := m.ask(t, "metrics", "evil.example", "Bearer "+token); code != 421 {
		t.Errorf("another name: %d", code)
	}
}

// What other machines reach is listened at with a token, or where that is wanted open.
func TestPermit(t *testing.T) {
	for _, c := range []struct {
		access         Access
		loopback       bool
		asked, refused bool
	}{
		{Access{}, true, false, false},
		{Access{Token: "x"}, true, false, false},
		{Access{}, false, false, true},
		{Access{Token: "x"}, false, true, false},
		{Access{Open: true}, false, false, false},
		{Access{Token: "x", Open: true}, false, true, false},
	} {
		asked, err := c.access.permit("0.0.0.0:9090", c.loopback)
		if asked != c.asked || (err != nil) != c.refused || err != nil && !errors.Is(err, fault.ErrUsage) {
			t.Errorf("%+v: %t, %v", c, asked, err)
		}
	}
	m, err := Listen("0.0.0.0:0", Access{}, t.Logf)
	if err == nil {
		m.Close()
		t.Error("listens at all addresses")
	}
}

// Of too many connections the one that has said nothing for longest is closed, so that those who
// hold connections open keep nobody out.
func TestConnectionsAreCapped(t *testing.T) {
	m := serving(t)
	address := m.listener.Addr().String()
	open := func() int {
		m.counting.Lock()
		defer m.counting.Unlock()
		return len(m.open)
	}
	until := func(want int) {
		t.Helper()
		for end := time.Now().Add(time.Minute); open() != want; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("%d connections, want %d", open(), want)
			}
		}
	}
	var held []net.Conn
	for i := range mostConnections {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		held = append(held, c)
		until(i + 1)
	}
	if code, _ := m.ask(t, "healthz", "localhost", ""); code != 200 {
		t.Errorf("beside as many as there may be: %d", code)
	}
	if n, err := held[0].Read(make([]byte, 1)); n > 0 || err == nil {
		t.Errorf("the oldest: %d bytes, %v", n, err)
	}
	for _, c := range held {
		c.Close()
	}
	for end := time.Now().Add(time.Minute); open() > 1; runtime.Gosched() { // the request's own may be kept
		if time.Now().After(end) {
			t.Fatalf("%d connections are left", open())
		}
	}
}
