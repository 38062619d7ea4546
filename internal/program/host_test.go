package program

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestRead(t *testing.T) {
	proc := t.TempDir()
	for name, text := range map[string]string{
		"cpuinfo":              "processor\t: 0\nmodel name\t: Xeon   Gold @ 2.1GHz\nprocessor\t: 1\nmodel name\t: another\n",
		"meminfo":              "MemFree:          1 kB\nMemTotal:       2048 kB\n",
		"sys/kernel/osrelease": "6.1.0-13\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(proc, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want := Host{CPU: "Xeon Gold @ 2.1GHz", Processors: runtime.NumCPU(), Memory: 2 << 20, System: runtime.GOOS + " 6.1.0-13 " + runtime.GOARCH}
	if got := readHost(proc); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	none := Host{Processors: runtime.NumCPU(), System: runtime.GOOS + " " + runtime.GOARCH}
	if got := readHost(t.TempDir()); got != none {
		t.Errorf("of a machine that does not tell: %+v", got)
	}
	for _, text := range []string{"MemTotal: many kB\n", "MemTotal: -5 kB\n", "MemTotal: 99999999999999999999 kB\n", "MemTotal\n", "MemTotal: 5 MB\n"} {
		if err := os.WriteFile(filepath.Join(proc, "meminfo"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if got := readHost(proc); got.Memory != 0 {
			t.Errorf("%q: %d bytes", text, got.Memory)
		}
	}
}

func TestThisHost(t *testing.T) {
	if f := ThisHost(); f.Processors < 1 || f.System == "" {
		t.Errorf("%+v", f)
	}
}
