// Package program identifies the running program: its version, a hash of its file, and its machine. The
// version alone does not suffice, since all builds without version control have the same one.
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

// Version returns the version of the build and the Go release of the build, as one text.
func Version() string {
	b, ok := debug.ReadBuildInfo()
	if !ok {
		return runtime.Version()
	}
	return b.Main.Version + " " + b.GoVersion
}

// Hash returns the SHA-256 of the program's file in hexadecimal, or "" if it cannot be read. It reads the
// file once. On Linux this is the running file, even if its name now belongs to another file.
var Hash = sync.OnceValue(func() string { return hash("/proc/self/exe", os.Executable) })

// hash returns the hash of the file path or, if that cannot be read, of the file that other names.
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

// Name returns version and hash as text, for messages about different programs.
func Name(version, hash string) string {
	if hash == "" {
		return version
	}
	return version + ", SHA-256 " + hash
}

// Host describes a machine for people who compare runs of different machines. Unknown values are zero.
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

// field returns the first value of a name in a file with lines "name : value", or "".
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
