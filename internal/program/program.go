// Package program identifies the program that runs: its version, a hash of its file, and the machine
// that it runs on. A version alone says little: builds without version control all have the same
// one.
package program

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
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

// Host says which machine a program runs on, for people: reports of runs that were made on different
// machines are compared. Unknown values are zero.
type Host struct {
	Name       string `json:"name,omitempty"`
	CPU        string `json:"cpu,omitempty"`          // the processor's model, as it names itself
	Processors int    `json:"processors"`             // that the process may use, hardware threads counted
	Memory     int64  `json:"memory_bytes,omitempty"` // of the machine
	System     string `json:"system"`                 // operating system, its release, and architecture
}

// ThisHost returns the facts of this machine.
func ThisHost() Host {
	f := readHost("/proc")
	f.Name, _ = os.Hostname() // a run without a name is no reason to fail
	return f
}

// readHost returns the Host that the files below proc describe.
func readHost(proc string) Host {
	f := Host{Processors: runtime.NumCPU(), System: runtime.GOOS}
	if b, err := os.ReadFile(filepath.Join(proc, "sys/kernel/osrelease")); err == nil {
		f.System += " " + strings.TrimSpace(string(b))
	}
	f.System += " " + runtime.GOARCH
	f.CPU = field(proc, "cpuinfo", "model name")
	if kib, ok := strings.CutSuffix(field(proc, "meminfo", "MemTotal"), " kB"); ok {
		if n, err := strconv.ParseInt(strings.TrimSpace(kib), 10, 53); err == nil && n > 0 {
			f.Memory = n << 10
		}
	}
	return f
}

// field returns the first value of a name in a file of lines "name : value", or "".
func field(proc, file, name string) string {
	b, err := os.ReadFile(filepath.Join(proc, file))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}
