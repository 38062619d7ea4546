package pread

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/iostack"
)

// writeFile writes n random bytes, the same for the same n.
func writeFile(t testing.TB, n int) (path string, content []byte) {
	t.Helper()
	content = make([]byte, n)
	rng := rand.NewChaCha8([32]byte{byte(n)})
	_, _ = rng.Read(content)
	path = filepath.Join(t.TempDir(), "data.bin")
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path, content
}

func TestSmoke(t *testing.T) {
	path, content := writeFile(t, 3<<20+17)
	s, err := New(iostack.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, err := s.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(f.Direct())
	var g iostack.Group
	buf := make([]byte, len(content))
	if err := s.Submit(&g, []iostack.Request{{File: f, Buf: buf}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(context.Background(), &g); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(buf, content) {
		t.Fatal("differs")
	}
	t.Log(s.Stats())
}
