// Package program identifies the program that runs: its version, a hash of its file, and the machine
// that it runs on. A version alone says little: builds without version control all have the same
// one.
package program

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// Version returns the version that the program was built as, and the Go release that built it.
func Version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return runtime.Version()
	}
	return b.Main.Version + " " + b.GoVersion
}

// Hash returns the SHA-256 of the program's file in hexadecimal digits, "" where it cannot be read.
// The file is read once. On Linux it is the one that runs, even if another has its name by now.
var Hash = sync.OnceValue(func() string { return hash("/proc/self/exe", os.Executable) })

// hash returns the hash of a file, or of the one that another path names.
func hash(path string, other func() (string, error)) string {
	f, err := os.Open(path)
	if err != nil {
		if path, err = other(); err == nil {
			f, err = os.Open(path)
		}
	}
	if err != nil {
		return ""
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Name returns version and hash in words, as they tell two programs apart.
func Name(version, hash string) string {
	if hash == "" {
		return version
	}
	return version + ", SHA-256 " + hash
}
