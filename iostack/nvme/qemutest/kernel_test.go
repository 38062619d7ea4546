package qemutest

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/nvmetest"
	"diskgnn/iostack/nvme/spec"
	"diskgnn/iostack/nvme/sysfs"
)

// A drive with a partition table is refused by a real kernel's sysfs, and taken by force; the
// kernel's driver then has it again, and finds the partition.
func TestDriveTabled(t *testing.T) {
	if !inGuest {
		t.Skip("package sysfs has tests on fake files")
	}
	address := addresses(t)[tabled]
	node := ready(t, address)
	if _, err := sysfs.Open(address, sysfs.Options{}); err == nil || !strings.Contains(err.Error(), "has partitions") {
		t.Errorf("%v", err)
	}
	open(t, tabled, nvme.Options{}).Close()
	ready(t, address)
	kernelReads(t, node, drives[tabled].content())
}

// crash says that the process is to die while the drive is its own.
const crash = "DISKGNN_NVME_CRASH"

// A process that is killed while a drive reads for it leaves the drive to the kernel's driver,
// whole.
func TestDriveCrash(t *testing.T) {
	if !inGuest {
		t.Skip("package sysfs has a test on fake files")
	}
	if os.Getenv(crash) != "" {
		c := open(t, slow, nvme.Options{})
		m := nvmetest.Alloc(t, c.Transport(), 64<<10)
		space := c.Namespace()
		for range c.Queues()[0].Room() {
			cmd := space.Transfer(spec.Read, 0, 128)
			if err := c.Queues()[0].Submit(&cmd, m, 0, 64<<10, 0); err != nil {
				t.Fatal(err)
			}
		}
		c.Queues()[0].Ring()
		if err := unix.Kill(os.Getpid(), unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	child := exec.Command("/proc/self/exe", "-test.run=^TestDriveCrash$")
	child.Env = append(os.Environ(), crash+"=1")
	if out, err := child.CombinedOutput(); child.ProcessState.ExitCode() != -1 {
		t.Fatalf("the process was not killed: %v\n%s", err, out)
	}
	kernelReads(t, ready(t, addresses(t)[slow]), drives[slow].content())
}

// kernelReads compares what the kernel reads of a drive.
func kernelReads(t *testing.T, node string, content []byte) {
	t.Helper()
	if got, err := os.ReadFile(node); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the kernel reads other bytes: %v", err)
	}
}
