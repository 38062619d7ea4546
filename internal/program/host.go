package program

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Host says which machine a program runs on, for people: reports of runs that were made on different
// machines are compared. What could not be found out is zero.
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

// readHost returns what the files below proc tell.
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

// field returns what a file of lines "name : value" has first for a name; "" for nothing.
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
