// Package secret has the secret that the ranks of a run, and people who watch it, share. It proves
// who belongs to a run, and is never sent, printed or stored: each use has a key of its own.
//
//	secret ── HKDF-SHA-256, info "diskgnn ranks 1 listener" ──► Ed25519 key of rank 0
//	       ── HKDF-SHA-256, info "diskgnn ranks 1 dialer" ────► Ed25519 key of all other ranks
//	       ── HMAC-SHA-256, of "diskgnn listen" ──────────────► token that a browser or Prometheus shows
//
// The secret is the text without white space around it. HKDF has no salt; its 32 bytes are the
// seed of RFC 8032.
package secret

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"diskgnn/internal/fault"
)

// Variable is the environment variable that has the secret.
const Variable = "DISKGNN_SECRET"

// The least characters and the most bytes of a secret. Whoever reaches rank 0 gets its public key, and may
// try guesses on it: random bytes, and enough of them, are the only protection.
const (
	least = 16
	most  = 4096
)

// Secret is one, or none as long as it is the zero Secret. Its text is behind a pointer, since fmt
// calls no methods of unexported fields: however it is printed, the text is not.
type Secret struct{ text *string }

// New returns the secret with a text; from says where that is from, for errors.
func New(text, from string) (Secret, error) {
	text = strings.TrimSpace(text)
	hint := "make one: openssl rand -hex 32"
	switch {
	case text == "":
		return Secret{}, fault.New(fault.ErrUsage, "%s has no secret; %s", from, hint)
	case utf8.RuneCountInString(text) < least:
		return Secret{}, fault.New(fault.ErrUsage, "%s: a secret has at least %d characters; %s", from, least, hint)
	case len(text) > most:
		return Secret{}, fault.New(fault.ErrUsage, "%s: a secret has at most %d bytes; %s", from, most, hint)
	case strings.ContainsFunc(text, unicode.IsSpace):
		return Secret{}, fault.New(fault.ErrUsage, "%s: a secret must be one word; %s", from, hint)
	case strings.Count(text, text[:1]) == len(text):
		return Secret{}, fault.New(fault.ErrUsage, "%s: a secret must be random; %s", from, hint)
	}
	return Secret{&text}, nil
}

// Find returns the secret of a file, or of the environment where no file is named; the zero Secret
// where neither has one. A variable that is set and empty is refused.
func Find(file string, lookup func(string) (string, bool)) (Secret, error) {
	if file == "" {
		text, ok := lookup(Variable)
		if !ok {
			return Secret{}, nil
		}
		return New(text, Variable)
	}
	f, err := os.Open(file)
	if err != nil {
		return Secret{}, fault.New(fault.ErrUsage, "read the secret: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 2*most))
	if err != nil {
		return Secret{}, fault.New(fault.ErrUsage, "read the secret: %w", err)
	}
	return New(string(b), file)
}

// Given reports whether there is a secret.
func (s Secret) Given() bool { return s.text != nil }

// Token returns the token that a watcher shows: 64 hexadecimal digits, "" without a secret.
func (s Secret) Token() string {
	if !s.Given() {
		return ""
	}
	h := hmac.New(sha256.New, []byte(*s.text))
	h.Write([]byte("diskgnn listen")) // which never fails
	return hex.EncodeToString(h.Sum(nil))
}

func (s Secret) seed(purpose string) ([]byte, error) {
	b, err := hkdf.Key(sha256.New, []byte(*s.text), nil, purpose, 32)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	return b, nil
}

// String says whether there is a secret.
func (s Secret) String() string {
	if s.Given() {
		return "(a secret)"
	}
	return "(no secret)"
}

// Format prints String's text, whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText returns String's text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// The purposes of the keys of both ends.
const (
	listener = "diskgnn ranks 1 listener"
	dialer   = "diskgnn ranks 1 dialer"
)

// errOther says that the other end has another key.
var errOther = errors.New("it has another secret")

// Listener returns the TLS 1.3 configuration that accepts connections from a Dialer with the same
// secret alone.
func (s Secret) Listener() (*tls.Config, error) { return s.end(listener, dialer) }

// Dialer returns the end of TLS 1.3 that makes connections, and takes only a Listener with the
// same secret.
func (s Secret) Dialer() (*tls.Config, error) { return s.end(dialer, listener) }

// end returns an end with the key of one purpose, which wants the key of another one opposite. Nobody
// else vouches for the keys: certificates only carry them, and nothing else in them is looked at.
func (s Secret) end(own, other string) (*tls.Config, error) {
	key, err := s.key(own)
	if err != nil {
		return nil, err
	}
	opposite, err := s.key(other)
	if err != nil {
		return nil, err
	}
	certificate, err := carry(key)
	if err != nil {
		return nil, err
	}
	want := opposite.Public().(ed25519.PublicKey)
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{certificate},
		ClientAuth:             tls.RequireAnyClientCert,
		InsecureSkipVerify:     true, // of names and authorities; VerifyConnection compares the key
		SessionTicketsDisabled: true,
		VerifyConnection: func(c tls.ConnectionState) error { // there is a certificate: it is required
			if got, ok := c.PeerCertificates[0].PublicKey.(ed25519.PublicKey); !ok || !got.Equal(want) {
				return errOther
			}
			return nil
		},
	}, nil
}

func (s Secret) key(purpose string) (ed25519.PrivateKey, error) {
	seed, err := s.seed(purpose)
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// carry returns a certificate that a key signs for itself.
func carry(key ed25519.PrivateKey) (tls.Certificate, error) {
	is := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0)}
	der, err := x509.CreateCertificate(nil, &is, &is, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
