package slurmtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// tools names the directory that Slurm's packages are unpacked in, work the directory of the
// cluster, which only a process inside of it has, and only the tests to run there, if not all.
const (
	tools = "DISKGNN_SLURM_TOOLCHAIN"
	work  = "DISKGNN_SLURM_WORK"
	only  = "DISKGNN_SLURM_RUN"
)

// patience is how long all tests on the cluster may take. They take a minute.
const patience = 8 * time.Minute

// The shipped scripts do on a cluster what one process does, whatever interrupts them.
func TestSlurm(t *testing.T) {
	packages := os.Getenv(tools)
	switch {
	case packages == "":
		t.Skip(tools + " does not say where Slurm is: make test-slurm does")
	case os.Getenv(work) != "":
		t.Skip("on the cluster already")
	case os.Geteuid() != 0:
		t.Skip("namespaces with nodes of their own need root")
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "bin", "diskgnn"), "./cmd/diskgnn")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pattern := os.Getenv(only)
	if pattern == "" {
		pattern = "."
	}
	cluster := exec.CommandContext(ctx, "./cluster.sh", packages, dir, os.Args[0], "-test.v", "-test.run", "^TestOnSlurm$/("+pattern+")")
	cluster.Env = append(os.Environ(), work+"="+dir, "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	out, err := cluster.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("the tests on the cluster: %v", err)
	}
}
