package qemutest

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// toolchain names the directory of QEMU and the guest's kernel, only the tests that the guest
// runs, if not all.
const (
	toolchain = "DISKGNN_NVME_TOOLCHAIN"
	only      = "DISKGNN_NVME_RUN"
)

// patience is how long the guest may run. It takes a third of that when the machine is idle.
const patience = 8 * time.Minute

// The driver's tests pass on a controller that others wrote.
func TestQEMU(t *testing.T) {
	tools := os.Getenv(toolchain)
	if tools == "" || inGuest {
		t.Skip(toolchain + " does not say where QEMU is: make test-nvme does")
	}
	dir := t.TempDir()
	tests, program := filepath.Join(dir, "init"), filepath.Join(dir, "program")
	for _, args := range [][]string{
		{"test", "-c", "-o", tests, "."},
		{"build", "-ldflags", "-s -w", "-o", program, "diskgnn/cmd/diskgnn"},
	} {
		build := exec.Command("go", args...)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build what the guest runs: %v\n%s", err, out)
		}
	}
	libraries, err := librariesOf(program)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"init": tests, guestProgram: program}
	for _, name := range libraries {
		files[strings.TrimPrefix(name, "/")] = name
	}
	initramfs := filepath.Join(dir, "initramfs")
	if err := pack(initramfs, files); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	results, output := run(ctx, t, tools, initramfs, dir)
	for _, r := range results {
		t.Run(r.name, func(t *testing.T) {
			switch r.how {
			case "FAIL":
				t.Error(r.said)
			case "SKIP":
				t.Skip(r.said)
			default:
				t.Log(r.said)
			}
		})
	}
	if !strings.Contains(output, ended+"0\n") || len(results) == 0 {
		t.Errorf("the guest did not end well, in %v:\n%s", patience, output)
	}
}

// result is what a test of the guest ended with.
type result struct{ name, how, said string }

// run boots the guest and returns what its tests ended with, and all that it printed.
func run(ctx context.Context, t *testing.T, tools, initramfs, dir string) ([]result, string) {
	t.Helper()
	args := []string{
		"-accel", "tcg", "-cpu", "max", "-m", "640", "-nodefaults", "-no-reboot", "-display", "none",
		"-serial", "stdio", "-net", "none",
		"-L", filepath.Join(tools, "usr/share/qemu"), "-L", filepath.Join(tools, "usr/share/seabios"),
		"-kernel", filepath.Join(tools, "vmlinuz"), "-initrd", initramfs,
		"-append", "console=ttyS0 quiet panic=-1 -- -test.v -test.run=" + cmp.Or(os.Getenv(only), "^TestDrive"),
	}
	for i, d := range drives {
		name := filepath.Join(dir, fmt.Sprintf("drive%d", i))
		if err := os.WriteFile(name, d.content(), 0o600); err != nil {
			t.Fatal(err)
		}
		medium := fmt.Sprintf("driver=file,filename=%s,cache.no-flush=on", name)
		if d.latency > 0 {
			medium = fmt.Sprintf("driver=null-co,size=%d,read-zeroes=on,latency-ns=%d", d.size, d.latency.Nanoseconds())
		}
		args = append(args,
			"-blockdev", fmt.Sprintf("%s,node-name=d%d", medium, i),
			"-device", fmt.Sprintf("nvme,drive=d%d,serial=drive%d,addr=%d,mdts=%d,max_ioqpairs=16,logical_block_size=%d,physical_block_size=%[5]d", i, i, 4+i, d.transfer, d.blockBytes))
	}
	q := exec.CommandContext(ctx, filepath.Join(tools, "usr/bin/qemu-system-x86_64"), args...)
	q.Env = append(os.Environ(), fmt.Sprintf("LD_LIBRARY_PATH=%s/usr/lib/x86_64-linux-gnu:%[1]s/lib/x86_64-linux-gnu", tools))
	out, err := q.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints bytes.Buffer
	q.Stderr = &complaints
	if err := q.Start(); err != nil {
		t.Fatal(err)
	}
	results, output := parse(out)
	if err := q.Wait(); err != nil {
		t.Errorf("QEMU: %v\n%s", err, complaints.String())
	}
	return results, output
}

// parse reads what a test binary prints with -test.v; the console ends lines with \r\n.
func parse(r io.Reader) (results []result, output string) {
	var all, said strings.Builder
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := strings.TrimRight(lines.Text(), "\r")
		all.WriteString(line + "\n")
		switch {
		case strings.HasPrefix(line, "=== RUN"):
			said.Reset()
		case strings.HasPrefix(line, "--- "):
			var how, name string
			if _, err := fmt.Sscanf(line, "--- %s %s", &how, &name); err == nil {
				results = append(results, result{name, strings.TrimSuffix(how, ":"), said.String() + line})
			}
			said.Reset()
		default:
			said.WriteString(line + "\n")
		}
	}
	return results, all.String()
}

func TestParse(t *testing.T) {
	results, output := parse(strings.NewReader("[ 1.0] kernel\r\n=== RUN   TestDriveA\r\n    a.go:3: 7 reads\r\n--- PASS: TestDriveA (0.10s)\r\n" +
		"=== RUN   TestDriveB\r\n    a.go:9: wrong\r\n--- FAIL: TestDriveB (0.20s)\r\nFAIL\r\n" + ended + "1\r\n"))
	want := []result{
		{"TestDriveA", "PASS", "    a.go:3: 7 reads\n--- PASS: TestDriveA (0.10s)"},
		{"TestDriveB", "FAIL", "    a.go:9: wrong\n--- FAIL: TestDriveB (0.20s)"},
	}
	if len(results) != 2 || results[0] != want[0] || results[1] != want[1] || !strings.HasSuffix(output, ended+"1\n") {
		t.Errorf("%q\n%s", results, output)
	}
}
