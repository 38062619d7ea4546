package qemutest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// guestProgram is where the guest has the program.
const guestProgram = "bin/diskgnn"

// diskgnn runs the program, and returns what it prints.
func diskgnn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	c := exec.Command("/"+guestProgram, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("diskgnn %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// A pack is loaded onto a drive that the kernel's driver had, verified there, and trained
// from: the weights are those of training from files, to the byte, although the files are
// gone meanwhile. So are those of rows of a dataset.
func TestDriveTrain(t *testing.T) {
	if !inGuest {
		t.Skip("the scripts of package commands train from the controller in software")
	}
	dir, drive := t.TempDir(), "sysfs:"+addresses(t)[zeroes]
	run := func(args ...string) string {
		t.Helper()
		return diskgnn(t, dir, args...)
	}
	run("generate", "--out", "g", "--nodes", "2000", "--dim", "32", "--classes", "4", "--quiet")
	run("presample", "--dataset", "g", "--out", "s", "--batch-size", "64", "--fanout", "3,4", "--quiet")
	run("pack", "--dataset", "g", "--samples", "s", "--out", "p", "--quiet")
	for _, x := range []struct {
		name, dir, large string
		how              []string
	}{
		{"packed", "p", "cold-00000.bin", []string{"--pack", "p"}},
		{"rows", "g", "features.bin", []string{"--dataset", "g", "--samples", "s", "--store", "rows"}},
	} {
		train := func(out, io string) string {
			t.Helper()
			return run(append([]string{"train", "--out", out, "--io", io, "--epochs", "2", "--hidden", "8", "--ram-cache", "5%"}, x.how...)...)
		}
		train(x.name+"-pread", "pread")
		loaded := run("nvme", "load", x.dir, drive, "--force", "--quiet")
		if verified := run("verify", "nvme:"+drive); !strings.Contains(verified, "every byte matches its checksum") {
			t.Error(verified)
		}
		if listed := run("nvme", "list", drive); !strings.Contains(listed, x.large) {
			t.Error(listed)
		}
		clearFile(t, filepath.Join(dir, x.dir, x.large))
		said := train(x.name+"-nvme", "nvme:"+drive)
		if !strings.Contains(said, "on "+drive) {
			t.Errorf("it is not said what is read from: %s", said)
		}
		for _, file := range []string{"weights.safetensors", "final.safetensors"} {
			want, err := os.ReadFile(filepath.Join(dir, x.name+"-pread", file))
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(dir, x.name+"-nvme", file))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s: %s has other bytes", x.name, file)
			}
			t.Logf("%s: %s has the same %d bytes", x.name, file, len(got))
		}
		t.Log(strings.ReplaceAll(strings.TrimSpace(loaded), "\n", "; "))
	}
}

// clearFile makes a file's bytes zeros.
func clearFile(t *testing.T, name string) {
	t.Helper()
	info, err := os.Stat(name)
	if err == nil {
		err = os.WriteFile(name, make([]byte, info.Size()), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}
