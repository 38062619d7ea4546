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

// Access says who may look at a run from other machines. At a loopback address nobody is asked.
type Access struct {
	Token string // that they show; "": there is none
	Open  bool   // they may do without one
}

// permit refuses an address that other machines reach and nothing protects, and says whether the
// token is asked for there.
func (a Access) permit(address string, loopback bool) (ask bool, err error) {
	if !loopback && a.Token == "" && !a.Open {
		return false, fault.New(fault.ErrUsage, "--listen %s: other machines reach this address: give a secret, in %s or --secret-file (openssl rand -hex 32 makes one), or --insecure, or listen at 127.0.0.1", address, secret.Variable)
	}
	return !loopback && a.Token != "", nil
}

// names returns the names by which a browser may ask for what is served at HOST:PORT, beside those
// that are IP addresses: a page of another site could have its own name lead here, and would read
// the answers then.
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

// plain returns a host's name as names are compared.
func plain(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// named reports whether a request's Host is one that this server has.
func (m *Monitor) named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || m.names[plain(host)]
}

// shows reports whether a request has the token: as a bearer's, as Prometheus sends it, or as the
// password that a browser asks for.
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

// guard answers requests that may not be. Whether the run is under way may be asked by all.
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
