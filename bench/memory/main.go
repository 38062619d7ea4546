// Command memory runs a command and samples what the kernel says it holds:
// anonymous and locked memory from smaps_rollup, every 50 ms, beside the peak
// that the program reports of itself in the last line of its output.
//
//	go run ./bench/memory -- bin/diskgnn pack … --memory 512MiB --json
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"strconv"
	"time"

	"diskgnn/bench/internal/tool"
)

// every is how often the kernel's counts are read; it walks all mappings each time.
const every = 50 * time.Millisecond

func main() {
	log.SetFlags(0)
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("usage: memory -- COMMAND …")
	}
	cmd := exec.Command(flag.Arg(0), flag.Args()[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		log.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	peak := usage{}
	samples := 0
	for {
		select {
		case err := <-done:
			if err != nil {
				log.Fatal(err)
			}
			report(out.Bytes(), peak, samples)
			return
		case <-time.After(every):
			if u, ok := ask(cmd.Process.Pid); ok {
				samples++
				peak.anonymous = max(peak.anonymous, u.anonymous)
				peak.locked = max(peak.locked, u.locked)
				peak.resident = max(peak.resident, u.resident)
			}
		}
	}
}

type usage struct{ anonymous, locked, resident int64 }

// ask reads a process's smaps_rollup.
func ask(pid int) (usage, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return usage{}, false
	}
	return usage{field(b, "Anonymous:"), field(b, "Locked:"), field(b, "Rss:")}, true
}

func field(b []byte, name string) int64 {
	_, rest, ok := bytes.Cut(b, []byte("\n"+name))
	if !ok {
		return 0
	}
	f := bytes.Fields(rest)
	n, err := strconv.ParseInt(string(f[0]), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}

func report(out []byte, peak usage, samples int) {
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	var own struct {
		Anon int64 `json:"peak_anon_bytes"`
		RSS  int64 `json:"peak_rss_bytes"`
	}
	if err := json.Unmarshal(lines[len(lines)-1], &own); err != nil {
		log.Fatalf("the command's last line is no JSON (did it get --json?): %v", err)
	}
	if err := tool.Print(map[string]any{
		"kernel_anonymous_bytes": peak.anonymous, "kernel_locked_bytes": peak.locked, "kernel_resident_bytes": peak.resident,
		"tool_anonymous_and_locked_bytes": own.Anon, "tool_resident_bytes": own.RSS, "samples": samples,
	}); err != nil {
		log.Fatal(err)
	}
}
