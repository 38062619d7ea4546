package monitor

import (
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"diskgnn/internal/fault"
	"diskgnn/internal/secret"
)

// Access decides who may watch a run from other machines. A loopback address needs no token.
type Access struct {
	Token string // that they show; "": there is none
	Open  bool   // they may do without one
}

// permit refuses an address that other machines reach without protection, and reports whether the
// token is required there.
func (a Access) permit(address string, loopback bool) (ask bool, err error) {
	if !loopback && a.Token == "" && !a.Open {
		return false, fault.New(fault.ErrUsage, "--listen %s: other machines reach this address: give a secret, in %s or --secret-file (openssl rand -hex 32 makes one), or --insecure, or listen at 127.0.0.1", address, secret.Variable)
	}
	return !loopback && a.Token != "", nil
}

// names returns the host names of HOST:PORT that a browser may use, beside IP addresses: a page of
// another site could point its own name here, and then read the answers.
func names(address string) map[string]bool {
	known := map[string]bool{"localhost": true}
	if host, _, err := net.SplitHostPort(address); err == nil {
		known[plain(host)] = true
	}
	if host, err := os.Hostname(); err == nil {
		known[plain(host)] = true
	}
	delete(known, "")
	return known
}

// plain returns a host's name in the form for comparison.
func plain(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// named reports whether a request's Host is a name of this server.
func (m *Monitor) named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || m.names[plain(host)]
}

// shows reports whether a request has the token: as a bearer token, which Prometheus sends, or as
// the password that a browser asks for.
func (m *Monitor) shows(r *http.Request) bool {
	_, token, ok := r.BasicAuth()
	if !ok {
		scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if strings.EqualFold(scheme, "Bearer") {
			token = strings.TrimSpace(rest)
		}
	}
	return subtle.ConstantTimeCompare([]byte(token), []byte(m.access.Token)) == 1
}

// guard rejects requests without permission. Anyone may ask whether the run is under way.
func (m *Monitor) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !m.named(r.Host):
			http.Error(w, "this server has another name: ask for it by its IP address, by localhost, or by the name that --listen was given", http.StatusMisdirectedRequest)
		case m.asks && r.URL.Path != "/healthz" && !m.shows(r):
			w.Header().Set("WWW-Authenticate", `Basic realm="diskgnn", charset="UTF-8"`)
			http.Error(w, "the password is the token of the run's secret", http.StatusUnauthorized)
		default:
			next.ServeHTTP(w, r)
		}
	})
}
