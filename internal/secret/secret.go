// Package secret has the shared secret of the ranks of a run, and of the people who watch it. The secret
// proves that a process belongs to the run. It is never sent, printed or stored: each use derives a key
// of its own.
//
//	secret ── HKDF-SHA-256, info "diskgnn ranks 1 listener" ──► Ed25519 key of rank 0
//	       ── HKDF-SHA-256, info "diskgnn ranks 1 dialer" ────► Ed25519 key of all other ranks
//	       ── HMAC-SHA-256, of "diskgnn listen" ──────────────► token that a browser or Prometheus shows
//
// The secret is the text without white space around it. HKDF has no salt; its output of 32 bytes is the
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

// Limits of a secret: the least characters and the most bytes. Everyone who can connect to rank 0 gets
// its public key and can test guesses against it, so the secret must be long and random.
const (
	least = 16
	most  = 4096
)

// Secret is a secret; the zero Secret is none. Its text is behind a pointer, so that fmt does not print
// it even if the Secret is in an unexported field, where fmt calls no methods.
type Secret struct{ text *string }

// New returns the secret with a text. from is the source of the text in errors, which are of kind
// fault.ErrUsage.
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

// Find returns the secret in a file or, if file is "", in the environment; lookup returns the value of a
// variable. Without both it returns the zero Secret. A variable that is set but empty is an error.
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

// Given reports whether s is a secret, not the zero Secret.
func (s Secret) Given() bool { return s.text != nil }

// Token returns the token with which watchers authenticate: 64 hexadecimal digits, "" without a secret.
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

// String returns a text that tells whether there is a secret, without the secret.
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

// errOther is the error if the other end has another key.
var errOther = errors.New("it has another secret")

// Listener returns the TLS 1.3 configuration of the accepting end. It accepts only a Dialer with the same
// secret.
func (s Secret) Listener() (*tls.Config, error) { return s.end(listener, dialer) }

// Dialer returns the TLS 1.3 configuration of the connecting end. It accepts only a Listener with the
// same secret.
func (s Secret) Dialer() (*tls.Config, error) { return s.end(dialer, listener) }

// end returns the configuration of an end with the key of purpose own, which requires the key of purpose
// other from its peer. The certificates only carry the keys: their other content is ignored, and no
// authority signs them.
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

// carry returns a self-signed certificate with the key.
func carry(key ed25519.PrivateKey) (tls.Certificate, error) {
	is := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<32, 0)}
	der, err := x509.CreateCertificate(nil, &is, &is, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}
