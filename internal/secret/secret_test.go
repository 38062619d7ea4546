package secret

import (
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"diskgnn/internal/fault"
)

const text = "0123456789abcdef"

func none(string) (string, bool) { return "", false }

// A secret that could be guessed, or is none, is refused, and is not repeated in the error.
func TestRefused(t *testing.T) {
	for _, bad := range []string{"", " \n\t", "0123456789abcde", strings.Repeat("x", 64), "two words of a secret", "éèàùéèàù", strings.Repeat("ab", 2048) + "c"} {
		s, err := New(bad, "FROM")
		if !errors.Is(err, fault.ErrUsage) || s.Given() || !strings.HasPrefix(err.Error(), "FROM") || strings.TrimSpace(bad) != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, good := range []string{text, " " + text + "\n", strings.Repeat("ab", 2048)} {
		if s, err := New(good, ""); err != nil || *s.text != strings.TrimSpace(good) {
			t.Errorf("%q: %v", good, err)
		}
	}
}

// A file wins over the environment; what is named and is no secret is refused.
func TestFind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	write := func(s string) {
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	variable := func(value string) func(string) (string, bool) {
		return func(name string) (string, bool) { return value, name == "DISKGNN_SECRET" }
	}
	if s, err := Find("", none); err != nil || s.Given() {
		t.Error(s, err)
	}
	if s, err := Find("", variable("of the environment")); err == nil || s.Given() {
		t.Error(s, err)
	}
	if s, err := Find("", variable("0123456789abcdeX")); err != nil || *s.text != "0123456789abcdeX" {
		t.Error(s, err)
	}
	if _, err := Find("", variable("")); !errors.Is(err, fault.ErrUsage) {
		t.Error(err)
	}
	write(text + "\n")
	if s, err := Find(file, variable("0123456789abcdeX")); err != nil || *s.text != text {
		t.Error(s, err)
	}
	for _, bad := range []string{"\n", strings.Repeat("0123456789", 1000)} {
		if write(bad); true {
			if _, err := Find(file, none); !errors.Is(err, fault.ErrUsage) {
				t.Error(err)
			}
		}
	}
	if _, err := Find(file+".none", variable(text)); !errors.Is(err, fault.ErrUsage) || !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// However a secret is printed, its text is not.
func TestNotPrinted(t *testing.T) {
	s, err := New(text, "")
	if err != nil {
		t.Fatal(err)
	}
	if s.String() != "(a secret)" || (Secret{}).String() != "(no secret)" {
		t.Errorf("%s and %s", s, Secret{})
	}
	b, err := json.Marshal(struct{ S Secret }{s})
	if err != nil {
		t.Fatal(err)
	}
	for _, printed := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q %d %x", s, s, s, s, s, s, s), fmt.Sprintf("%+v %#v", struct{ S Secret }{s}, struct{ S *Secret }{&s}), fmt.Sprintf("%+v %#v %d", struct{ s Secret }{s}, struct{ s Secret }{s}, struct{ s Secret }{s}), string(b)} {
		if strings.Contains(printed, text) || strings.Contains(printed, hex.EncodeToString([]byte(text))) {
			t.Errorf("%s", printed)
		}
	}
}

// Keys and token are those of other implementations: Python's hmac.
func TestDerived(t *testing.T) {
	s, err := New(text, "")
	if err != nil {
		t.Fatal(err)
	}
	for purpose, want := range map[string]string{
		listener: "5307722f1e9ab85f71fd67f9deb3642fbd1c22a532f1510e9df7ae3908e1934c",
		dialer:   "694f4bbcd267026990521fafca5b7d4ab4b107de918c07e3cf427a8dd5d9e6d9",
	} {
		if got, err := s.seed(purpose); err != nil || hex.EncodeToString(got) != want {
			t.Errorf("%s: %x, %v", purpose, got, err)
		}
	}
	if s.Token() != "e9c8f1a90031aebc71c0b65a0250cde772f483e44be17b3252832c00c39b7871" || (Secret{}).Token() != "" {
		t.Errorf("token %s", s.Token())
	}
}

// handshake connects two ends, each with a message for the other, and returns what went wrong.
func handshake(t *testing.T, server, client *tls.Config) (ofServer, ofClient error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan error)
	go func() {
		c, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer c.Close()
		done <- greet(tls.Server(c, server))
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ofClient = greet(tls.Client(c, client))
	if ofClient != nil {
		c.Close()
	}
	return <-done, ofClient
}

// greet says a byte and hears one.
func greet(c *tls.Conn) error {
	if _, err := c.Write([]byte{7}); err != nil {
		return err
	}
	_, err := c.Read(make([]byte, 1))
	return err
}

// Both ends take the same secret, in its own place, over TLS 1.3 alone.
func TestEnds(t *testing.T) {
	end := func(text string, of func(Secret) (*tls.Config, error)) *tls.Config {
		s, err := New(text, "")
		if err != nil {
			t.Fatal(err)
		}
		c, err := of(s)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const another = "0123456789abcdeX"
	without := func(c *tls.Config) *tls.Config { c.Certificates = nil; return c }
	blind := func(c *tls.Config) *tls.Config { c.VerifyConnection = nil; return c }
	old := func(c *tls.Config) *tls.Config {
		c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		return c
	}
	for name, c := range map[string]struct {
		server, client     *tls.Config
		byServer, byClient bool // which end refuses
	}{
		"the same":               {end(text, Secret.Listener), end(text, Secret.Dialer), false, false},
		"another dialer":         {end(text, Secret.Listener), blind(end(another, Secret.Dialer)), true, true},
		"another listener":       {blind(end(another, Secret.Listener)), end(text, Secret.Dialer), true, true},
		"a reflected dialer":     {end(text, Secret.Listener), blind(end(text, Secret.Listener)), true, true},
		"a reflected listener":   {blind(end(text, Secret.Dialer)), end(text, Secret.Dialer), true, true},
		"a dialer without a key": {end(text, Secret.Listener), without(end(text, Secret.Dialer)), true, true},
		"TLS 1.2":                {end(text, Secret.Listener), old(end(text, Secret.Dialer)), true, true},
	} {
		byServer, byClient := handshake(t, c.server, c.client)
		if (byServer != nil) != c.byServer || (byClient != nil) != c.byClient {
			t.Errorf("%s: the listener says %v, the dialer %v", name, byServer, byClient)
		}
	}
}
