package qemutest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"diskgnn/internal/vfs"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/nvmetest"
	"diskgnn/iostack/nvme/soft"
	"diskgnn/iostack/nvme/sysfs"
)

// A drive of the tests, in software or QEMU's.
type drive struct {
	blockBytes int
	transfer   uint // MDTS, of pages
	size       int
	table      bool // has a partition table
	empty      bool // holds zeros
	latency    time.Duration
}

const (
	small  = 0 // blocks of 512 bytes, transfers of 128 KiB
	large  = 1 // blocks of 4 KiB, transfers of 4 MiB: PRP lists of several pages
	tabled = 2 // with a partition table
	slow   = 3 // of zeroes, which take their time
	zeroes = 4 // of zeroes, for a volume
)

// drives are the drives, in the order of their PCI addresses in the guest.
var drives = []drive{
	small:  {blockBytes: 512, transfer: 5, size: 32 << 20},
	large:  {blockBytes: 4096, transfer: 10, size: 32 << 20},
	tabled: {blockBytes: 512, transfer: 5, size: 4 << 20, table: true},
	slow:   {blockBytes: 512, transfer: 5, size: 1 << 20, empty: true, latency: 400 * time.Millisecond},
	zeroes: {blockBytes: 4096, transfer: 7, size: 16 << 20, empty: true},
}

// content returns what a drive holds at first.
func (d drive) content() []byte {
	b := make([]byte, d.size)
	if d.empty {
		return b
	}
	rand.NewChaCha8([32]byte{byte(d.transfer)}).Read(b)
	if d.table { // a boot record with one partition, of the 2048 blocks from 2048 on
		clear(b[:512])
		copy(b[446:], []byte{0, 0, 0, 0, 0x83, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0})
		b[510], b[511] = 0x55, 0xaa
	}
	return b
}

// inGuest reports whether this is the guest's init, or a process that it started.
var inGuest = os.Getpid() == 1 || os.Getenv("DISKGNN_GUEST") != ""

// ended is what the guest prints at its end, before its exit code.
const ended = "the guest's tests ended with "

// In the guest, the tests are all there is: when they end, so does it.
func TestMain(m *testing.M) {
	if os.Getpid() != 1 {
		os.Exit(m.Run())
	}
	code := 3
	defer func() {
		fmt.Printf("%s%d\n", ended, code)
		unix.Sync()
		if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
			fmt.Println(err)
		}
	}()
	if err := boot(); err != nil {
		fmt.Println("boot:", err)
		return
	}
	code = m.Run()
}

// boot makes the guest what a machine is: its file systems, and huge pages.
func boot() error {
	os.Setenv("DISKGNN_GUEST", "1")
	for _, m := range []struct{ dir, kind string }{{"/proc", "proc"}, {"/sys", "sysfs"}, {"/dev", "devtmpfs"}, {"/tmp", "tmpfs"}} {
		if err := os.MkdirAll(m.dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.dir, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.dir, err)
		}
	}
	return os.WriteFile("/proc/sys/vm/nr_hugepages", []byte("100"), 0o644)
}

// addresses returns the NVMe controllers of the guest.
func addresses(t *testing.T) (found []string) {
	t.Helper()
	all, err := os.ReadDir("/sys/bus/pci/devices")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		class, err := os.ReadFile("/sys/bus/pci/devices/" + e.Name() + "/class")
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(class)) == "0x010802" {
			found = append(found, e.Name())
		}
	}
	slices.Sort(found)
	if len(found) != len(drives) {
		t.Fatalf("NVMe controllers: %q", found)
	}
	return found
}

// ready waits until the kernel's driver has a drive and its block devices are there.
func ready(t *testing.T, address string) (node string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		found, err := filepath.Glob("/sys/bus/pci/devices/" + address + "/nvme/nvme*/nvme*n*/dev")
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 1 {
			node = "/dev/" + filepath.Base(filepath.Dir(found[0]))
			if f, err := os.Open(node); err == nil {
				f.Close()
				return node
			}
		}
	}
	t.Fatalf("the kernel's driver does not have %s", address)
	return ""
}

// open brings a drive up, which is closed with the test.
func open(t *testing.T, which int, o nvme.Options) *nvme.Controller {
	t.Helper()
	return nvmetest.Open(t, reach(t, which), o)
}

// reach returns a transport to a drive.
func reach(t *testing.T, which int) nvme.Transport {
	t.Helper()
	if inGuest {
		address := addresses(t)[which]
		ready(t, address)
		d, err := sysfs.Open(address, sysfs.Options{Force: drives[which].table})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	return inSoftware(t, which)
}

// inSoftware serves what a drive holds at first by the controller in software.
func inSoftware(t *testing.T, which int) nvme.Transport {
	t.Helper()
	d := drives[which]
	name := filepath.Join(t.TempDir(), "drive")
	if err := os.WriteFile(name, d.content(), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := soft.Open(vfs.OS, name, soft.Options{BlockBytes: d.blockBytes, TransferMax: d.transfer, Queues: 16, MaxEntries: 2048, Workers: 8})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
