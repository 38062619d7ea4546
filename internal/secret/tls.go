package secret

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"time"
)

// The purposes of the keys of both ends.
const (
	listener = "diskgnn ranks 1 listener"
	dialer   = "diskgnn ranks 1 dialer"
)

// errOther says that the other end has another key.
var errOther = errors.New("it has another secret")

// Listener returns the end of TLS 1.3 that accepts connections, and takes only those of a Dialer
// with the same secret.
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
