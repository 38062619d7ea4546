//go:build linux

package sysfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/internal/platform"
	"diskgnn/iostack/nvme/spec"
)

const address = "0000:00:04.0"

const dir = "/sys/bus/pci/devices/" + address

// put writes files of a fake machine; a name that ends in a slash is a directory, a text that
// begins with "->" a link.
func put(t *testing.T, root tree, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := root.path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, link := strings.CutPrefix(text, "->"); link {
			os.Remove(path)
			err = os.Symlink(to, path)
		} else if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// machine makes a fake machine with an NVMe drive that nobody uses, beside one that is the
// machine's own.
func machine(t *testing.T) tree {
	t.Helper()
	root := tree(t.TempDir())
	config := make([]byte, 64)
	binary.LittleEndian.PutUint16(config[4:], 0x0103) // I/O, memory, SERR
	bar := make([]byte, 16<<10)
	bar[spec.CC] = 1 // enabled
	put(t, root, map[string]string{
		dir + "/class":                         "0x010802\n",
		dir + "/driver":                        "->../../../bus/pci/drivers/nvme",
		dir + "/enable":                        "",
		dir + "/config":                        string(config),
		dir + "/resource0":                     string(bar),
		"/sys/bus/pci/drivers/nvme/unbind":     "",
		"/sys/bus/pci/drivers/nvme/bind":       "",
		"/sys/class/block/nvme0n1":             "->../../devices/pci0000:00/" + address + "/nvme/nvme0/nvme0n1",
		"/sys/class/block/nvme1n1":             "->../../devices/pci0000:00/0000:00:05.0/nvme/nvme1/nvme1n1",
		"/sys/class/block/nvme1n1p1":           "->../../devices/pci0000:00/0000:00:05.0/nvme/nvme1/nvme1n1/nvme1n1p1",
		blocks + "/nvme0n1/dev":                "259:0\n",
		blocks + "/nvme0n1/holders/":           "",
		blocks + "/nvme0n1/queue/":             "",
		other + "/nvme1n1/dev":                 "259:1\n",
		other + "/nvme1n1/nvme1n1p1/partition": "1\n",
		"/dev/nvme0n1":                         strings.Repeat("\x00", 16<<10),
		"/proc/swaps":                          "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n",
		"/proc/self/mountinfo":                 "36 35 259:2 / / rw,noatime shared:1 - ext4 /dev/nvme1n1p1 rw\n",
	})
	return root
}

const (
	blocks = "/sys/devices/pci0000:00/" + address + "/nvme/nvme0"
	other  = "/sys/devices/pci0000:00/0000:00:05.0/nvme/nvme1"
	part   = blocks + "/nvme0n1/nvme0n1p1"
)

// identity says that physical addresses are virtual ones, moved by a constant.
func identity(at uintptr) (uint64, error) { return uint64(at) + 1<<50, nil }

func fake(root tree, force bool) (*Device, error) {
	return open(address, Options{Force: force, root: root}, 0, identity)
}

func get(t *testing.T, root tree, name string) string {
	t.Helper()
	b, err := os.ReadFile(root.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func commandOf(t *testing.T, root tree) uint16 {
	t.Helper()
	return binary.LittleEndian.Uint16([]byte(get(t, root, dir+"/config"))[4:])
}

// A drive that nobody uses is unbound, enabled, a bus master, and reached; closed, it is
// disabled, no bus master, and the kernel's driver has it.
func TestTakeAndGiveBack(t *testing.T) {
	root := machine(t)
	d, err := fake(root, false)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"/sys/bus/pci/drivers/nvme/unbind": address, "/sys/bus/pci/drivers/nvme/bind": "", dir + "/enable": "1",
	} {
		if got := get(t, root, name); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
	}
	if got := commandOf(t, root); got != 0x0507 { // as before, a bus master, no line interrupts
		t.Errorf("command register %04xh", got)
	}
	d.Store32(spec.AQA, 0x11223344)
	d.Store64(spec.ASQ, 0x0102030405060708)
	if a, b, c := d.Load32(spec.AQA), d.Load64(spec.ASQ), get(t, root, dir+"/resource0")[spec.ASQ:spec.ASQ+8]; a != 0x11223344 ||
		b != 0x0102030405060708 || c != "\x08\x07\x06\x05\x04\x03\x02\x01" || len(d.Registers()) != 16<<10 || d.Name() != "sysfs:"+address {
		t.Errorf("registers %x %x %q", a, b, c)
	}
	if _, err := d.Map(d.Registers()); !errors.Is(err, nvme.ErrNoMapping) {
		t.Errorf("map: %v", err)
	}
	if _, err := fake(root, true); !errors.Is(err, fault.ErrLocked) {
		t.Errorf("taken twice: %v", err)
	}
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	given(t, root)
	if _, err := d.Alloc(1); !errors.Is(err, nvme.ErrClosed) {
		t.Errorf("memory of a closed device: %v", err)
	}
}

// given checks that the drive was given back.
func given(t *testing.T, root tree) {
	t.Helper()
	if got := get(t, root, dir+"/enable"); got != "0" {
		t.Errorf("enable has %q", got)
	}
	if got := commandOf(t, root); got != 0x0103 {
		t.Errorf("command register %04xh", got)
	}
	if got := get(t, root, dir+"/resource0"); got[spec.CC]&spec.Enable != 0 {
		t.Error("the controller is enabled")
	}
	if info, err := os.Stat(root.path("/sys/bus/pci/drivers/nvme/bind")); err == nil && info.Mode().IsRegular() {
		if got := get(t, root, "/sys/bus/pci/drivers/nvme/bind"); got != address {
			t.Errorf("bind has %q", got)
		}
	}
}

// What must not be taken is not, and nothing is written; what may be by force, is by force.
func TestRefusals(t *testing.T) {
	boot := strings.Repeat("\x00", 510) + "\x55\xaa" + strings.Repeat("\x00", 8<<10)
	for _, x := range []struct {
		what   string
		files  map[string]string
		remove string
		says   string
		forced bool // by force it is taken
	}{
		{what: "another class", files: map[string]string{dir + "/class": "0x020000\n"}, says: "0x020000"},
		{what: "no such function", remove: dir, says: "no such PCI function"},
		{what: "an IOMMU", files: map[string]string{dir + "/iommu_group": "->../kernel/iommu_groups/7", "/sys/kernel/iommu_groups/7/type": "DMA-FQ\n"}, says: "IOMMU"},
		{what: "an IOMMU of an unknown kind", files: map[string]string{dir + "/iommu_group": "->../kernel/iommu_groups/7"}, says: "IOMMU"},
		{what: "another driver", files: map[string]string{dir + "/driver": "->../../../bus/pci/drivers/vfio-pci"}, says: "vfio-pci"},
		{what: "no driver", remove: dir + "/driver", says: "no driver is bound to it", forced: true},
		{what: "no block devices", remove: "/sys/class/block/nvme0n1", says: "no block devices", forced: true},
		{what: "few registers", files: map[string]string{dir + "/resource0": strings.Repeat("\x00", 4096)}, says: "4096 bytes of registers"},
		{what: "mounted", files: map[string]string{"/proc/self/mountinfo": "1 2 259:0 / /data rw - xfs /dev/root rw\n"}, says: "mounted: nvme0n1 at /data"},
		{what: "mounted by name", files: map[string]string{"/proc/self/mountinfo": "1 2 0:44 /sub /data rw shared:3 - btrfs /dev/nvme0n1 rw\n"}, says: "mounted: nvme0n1 at /data"},
		{what: "a partition mounted", files: map[string]string{
			"/proc/self/mountinfo": "1 2 259:5 / /data rw - xfs /dev/root rw\n",
			part + "/partition":    "1\n", part + "/dev": "259:5\n",
		}, says: "mounted: nvme0n1p1 at /data"},
		{what: "swapped to", files: map[string]string{"/proc/swaps": "Filename Type\n/dev/nvme0n1 partition 1 0 -2\n"}, says: "swap space: nvme0n1"},
		{what: "part of another device", files: map[string]string{blocks + "/nvme0n1/holders/dm-0": ""}, says: "part of dm-0"},
		{what: "partitions", files: map[string]string{part + "/partition": "1\n", part + "/dev": "259:5\n"}, says: "has partitions", forced: true},
		{what: "a boot record", files: map[string]string{"/dev/nvme0n1": boot}, says: "partition table", forced: true},
		{what: "a GPT", files: map[string]string{"/dev/nvme0n1": strings.Repeat("\x00", 512) + "EFI PART"}, says: "partition table", forced: true},
		{what: "a GPT of 4 KiB", files: map[string]string{"/dev/nvme0n1": strings.Repeat("\x00", 4096) + "EFI PART"}, says: "partition table", forced: true},
		{what: "no device file", remove: "/dev/nvme0n1", says: "inspect nvme0n1"},
		{what: "one of several paths, in use", files: map[string]string{
			"/sys/class/block/nvme0c0n1":           "->../../devices/pci0000:00/" + address + "/nvme/nvme0/nvme0c0n1",
			"/sys/class/block/nvme0n1":             "->../../devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1",
			heads + "/nvme0n1/dev":                 "259:0\n",
			heads + "/nvme0n1/nvme0n1p1/partition": "1\n",
			heads + "/nvme0n1/nvme0n1p1/dev":       "259:1\n",
			"/proc/self/mountinfo":                 "1 2 259:1 / /data rw - xfs /dev/root rw\n",
		}, says: "mounted: nvme0n1p1 at /data"},
	} {
		t.Run(x.what, func(t *testing.T) {
			root := machine(t)
			if x.remove != "" {
				if err := os.RemoveAll(root.path(x.remove)); err != nil {
					t.Fatal(err)
				}
			}
			put(t, root, x.files)
			_, err := fake(root, false)
			if err == nil || !strings.Contains(err.Error(), x.says) || !errors.Is(err, fault.ErrInput) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, want %q", err, x.says)
			}
			if got := get(t, root, "/sys/bus/pci/drivers/nvme/unbind"); got != "" {
				t.Errorf("unbound all the same: %q", got)
			}
			d, err := fake(root, true)
			if (err == nil) != x.forced {
				t.Errorf("by force: %v", err)
			}
			if err == nil {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, name := range []string{"", "nvme0", "04:00.0", "0000:00:04.8", "0000:00:04.0/", "../../etc"} {
		if _, err := open(name, Options{root: machine(t)}, 0, identity); !errors.Is(err, fault.ErrUsage) {
			t.Errorf("address %q: %v", name, err)
		}
	}
}

// Block devices that the kernel's driver finds while it is looked for them are looked at.
func TestArrival(t *testing.T) {
	root := machine(t)
	link := root.path("/sys/class/block/nvme0n1")
	to, err := os.Readlink(link)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	put(t, root, map[string]string{"/proc/swaps": "Filename Type\n/dev/nvme0n1 partition 1 0 -2\n"})
	looks := 0
	arrive := func() bool {
		if looks++; looks == 3 {
			put(t, root, map[string]string{"/sys/class/block/nvme0n1": "->" + to})
		}
		return looks < 5
	}
	_, err = open(address, Options{root: root, pause: arrive}, 0, identity)
	if err == nil || !strings.Contains(err.Error(), "swap space: nvme0n1") || looks != 3 {
		t.Errorf("%v after %d looks", err, looks)
	}
}

const heads = "/sys/devices/virtual/nvme-subsystem/nvme-subsys0"

// A translating IOMMU is one that is not in identity mode.
func TestIdentity(t *testing.T) {
	root := machine(t)
	put(t, root, map[string]string{dir + "/iommu_group": "->../kernel/iommu_groups/7", "/sys/kernel/iommu_groups/7/type": "identity\n"})
	d, err := fake(root, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Where taking fails half-way, what was done is undone; where it fails before, nothing was: a
// driver that has its function still is left alone.
func TestTakingFails(t *testing.T) {
	for _, x := range []struct {
		remove           string
		unbound, stopped bool
		bound            string
	}{
		{dir + "/enable", true, true, address},
		{dir + "/config", true, true, ""}, // it may be a bus master still
		{"/sys/bus/pci/drivers/nvme/unbind", false, false, ""},
	} {
		root := machine(t)
		if err := os.Remove(root.path(x.remove)); err != nil {
			t.Fatal(err)
		}
		if _, err := fake(root, false); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("without %s: %v", x.remove, err)
		}
		if x.unbound && get(t, root, "/sys/bus/pci/drivers/nvme/unbind") != address {
			t.Errorf("without %s it is not unbound", x.remove)
		}
		if got := get(t, root, "/sys/bus/pci/drivers/nvme/bind"); got != x.bound {
			t.Errorf("without %s: bind has %q", x.remove, got)
		}
		if stopped := get(t, root, dir+"/resource0")[spec.CC]&spec.Enable == 0; stopped != x.stopped {
			t.Errorf("without %s: stopped %t", x.remove, stopped)
		}
	}
	root := machine(t)
	hidden := func(uintptr) (uint64, error) { return frameOf(present) }
	if _, err := open(address, Options{root: root}, 0, hidden); !errors.Is(err, fault.ErrUsage) || get(t, root, "/sys/bus/pci/drivers/nvme/unbind") != "" {
		t.Errorf("without the right to see addresses: %v", err)
	}
}

// A process that is killed before it takes the drive leaves it alone, where a driver has it.
func TestCrashBeforeTaking(t *testing.T) {
	root := machine(t)
	f, err := inspect(address, Options{root: root})
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	h, err := f.newHelper(f.bar)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.giveBack(); err != nil { // its input ends, as that of any process's helper
		t.Fatal(err)
	}
	if got := get(t, root, "/sys/bus/pci/drivers/nvme/bind"); got != "" || get(t, root, dir+"/resource0")[spec.CC]&spec.Enable == 0 {
		t.Errorf("bound %q, or stopped", got)
	}
}

// A controller that is gone, or decodes no memory, reads as ones: nobody waits for it.
func TestControllerThatIsGone(t *testing.T) {
	root := machine(t)
	d, err := fake(root, false)
	if err != nil {
		t.Fatal(err)
	}
	d.Store32(spec.CC, ^uint32(0))
	d.Store32(spec.CSTS, ^uint32(0))
	if err := d.Close(); err != nil || get(t, root, "/sys/bus/pci/drivers/nvme/bind") != address {
		t.Errorf("%v", err)
	}
	if got := get(t, root, dir+"/resource0")[spec.CC:][:4]; got != "\xff\xff\xff\xff" {
		t.Errorf("%q was written to it", got)
	}
}

// A controller that does not stop is not handed over silently, but is no bus master.
func TestControllerThatDoesNotStop(t *testing.T) {
	root := machine(t)
	d, err := fake(root, false)
	if err != nil {
		t.Fatal(err)
	}
	d.Store32(spec.CSTS, spec.Ready)
	if err := d.Close(); err == nil || !strings.Contains(err.Error(), "stays ready") {
		t.Errorf("%v", err)
	}
	given(t, root)
}

// Where the helper was killed, Close gives the drive back itself.
func TestHelperKilled(t *testing.T) {
	root := machine(t)
	d, err := fake(root, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.helper.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	given(t, root)
}

// crash names the fake machine in which TestCrash's process takes the drive.
const crash = "DISKGNN_SYSFS_CRASH"

// A process that is killed, with its group, gives the drive back all the same, and the memory
// lives until then.
func TestCrash(t *testing.T) {
	if root := os.Getenv(crash); root != "" {
		if _, err := fake(tree(root), false); err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(0, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		select {}
	}
	root := machine(t)
	// What the helper binds, it writes to a pipe.
	bind := root.path("/sys/bus/pci/drivers/nvme/bind")
	if err := os.Remove(bind); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(bind, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(bind, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := exec.Command(os.Args[0], "-test.run=^TestCrash$")
	c.Env = append(os.Environ(), crash+"="+string(root))
	c.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := c.CombinedOutput()
	if c.ProcessState.ExitCode() != -1 {
		t.Fatalf("the process was not killed: %v\n%s", err, out)
	}
	if err := f.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(address))
	if _, err := io.ReadFull(f, got); err != nil || string(got) != address {
		t.Fatalf("bound %q: %v", got, err)
	}
	given(t, root)
}

// Memory is zeroed, has the addresses of its pages, does not overlap, and comes back.
func TestMemory(t *testing.T) {
	source, err := newMemory(0, identity)
	if err != nil {
		t.Fatal(err)
	}
	p := platform.NewPool("drive", source)
	for range 2 {
		var held []*nvme.Memory
		for i, n := range []int{1, 2 << 20, 2<<20 + 1, 5 << 20, 64, 1 << 20} {
			m, err := p.Take(n)
			if err != nil {
				t.Fatal(err)
			}
			for i, a := range m.Pages {
				if want, _ := identity(uintptr(unsafe.Pointer(&m.Bytes[i*nvme.Page]))); a != want {
					t.Fatalf("page %d of %d bytes has the address %x, want %x", i, n, a, want)
				}
			}
			if len(bytes.Trim(m.Bytes, "\x00")) > 0 {
				t.Fatalf("memory of %d bytes is not zeroed", n)
			}
			for k := range m.Bytes {
				m.Bytes[k] = byte(i + 1)
			}
			held = append(held, m)
		}
		for i, m := range held {
			if slices.ContainsFunc(m.Bytes, func(b byte) bool { return b != byte(i+1) }) {
				t.Fatalf("memory %d was overwritten", i)
			}
			if err := p.Give(m); err != nil {
				t.Error(err)
			}
		}
	}
	var st unix.Stat_t
	if err := errors.Join(p.Close(), unix.Fstat(int(source.file.Fd()), &st)); err != nil || st.Blocks > 0 {
		t.Errorf("%v, and %d blocks are still held", err, st.Blocks)
	}
	source.frame = func(uintptr) (uint64, error) { return 0, os.ErrPermission }
	if _, err := p.Take(1); !errors.Is(err, os.ErrPermission) || len(source.offset) > 0 {
		t.Errorf("%v, %d chunks are left", err, len(source.offset))
	}
	if err := source.file.Close(); err != nil {
		t.Error(err)
	}
}

// An entry of pagemap has the frame in its lower bits, if the page is there and may be seen.
func TestFrameOf(t *testing.T) {
	if got, err := frameOf(1<<63 | 1<<61 | 512*7); err != nil || got != 7*huge {
		t.Errorf("%x: %v", got, err)
	}
	for _, entry := range []uint64{0, 512, 1 << 62, present, present | 7} {
		if _, err := frameOf(entry); err == nil {
			t.Errorf("entry %x has a frame", entry)
		}
	}
}
