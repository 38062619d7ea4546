package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"diskgnn/device/cuda"
	"diskgnn/iostack/cufile"
	"diskgnn/iostack/nvme/target"
)

// none is the content of a file that is not there; what begins with "-> " is a link.
const none = "<none>"

// tree makes files below a root by their names.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		put(t, root, name, content)
	}
	return root
}

// put makes a file what it is to be. Where it was alone in a directory, that goes with it.
func put(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	for dir := filepath.Dir(path); content == none && dir != root && os.Remove(dir) == nil; {
		dir = filepath.Dir(dir)
	}
	if content == none {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	var err error
	if to, link := strings.CutPrefix(content, "-> "); link {
		err = os.Symlink(to, path)
	} else {
		err = os.WriteFile(path, []byte(content+"\n"), 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// machine is one that has everything.
func machine() (*Machine, map[string]string) {
	files := map[string]string{
		"proc/self/status": "Name:\tdiskgnn\nCapEff:\t0000000000000000",
		"proc/self/limits": "Limit   Soft Limit   Hard Limit   Units\nMax locked memory         unlimited            unlimited            bytes",
		"proc/meminfo":     "MemTotal: 1 kB\nHugePages_Total:      64\nHugePages_Free:       60\nHugepagesize:       2048 kB",
		"sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
		"proc/sys/kernel/io_uring_disabled":          "0",
		"proc/sys/kernel/osrelease":                  "6.8.0-45-generic",
		"proc/driver/nvidia/version":                 "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86",
		"proc/driver/nvidia/params":                  `RegistryDwords: "RMForceStaticBar1=1;RMForceDisableIomapWC=1"`,
		"dev/nvidiactl":                              "",
		"sys/module/nvme_core/parameters/multipath":  "N",
		"sys/dev/block/259:1":                        "-> ../../devices/nvme0n1/nvme0n1p1",
		"sys/devices/nvme0n1/nvme0n1p1/partition":    "1",
		"sys/devices/nvme0n1/queue/rotational":       "0",
		"sys/devices/nvme0n1/queue/scheduler":        "[none] mq-deadline",
		"sys/bus/pci/devices/0000:01:00.0/class":     "0x010802",
		"sys/bus/pci/devices/0000:01:00.0/driver":    "-> ../../../drivers/nvme",
		"sys/bus/pci/devices/0000:02:00.0/class":     "0x030200",
		"sys/bus/pci/devices/0000:02:00.0/vendor":    "0x10de",
		"dev/libnvm0":       "",
		"dev/dmabuf_import": "",
		"dev/udmabuf":       "",
	}
	return &Machine{
		Arch:     "amd64",
		SIMD:     func() ([]string, string) { return []string{"plain", "avx2", "avx512"}, "avx512" },
		Memory:   func() (int64, string) { return 8 << 30, "the machine's 10.00 GiB" },
		Uring:    func() error { return nil },
		Direct:   func(string) (bool, string, error) { return true, "", nil },
		Device:   func(string) (uint32, uint32, error) { return 259, 1, nil },
		GPUs:     func() ([]cuda.Info, error) { return []cuda.Info{{Name: "NVIDIA H200", Memory: 140 << 30}}, nil },
		Tagged:   true,
		CUFile:   func(context.Context, string) cufile.Verdict { return cufile.Verdict{Mode: cufile.Direct} },
		BLAS:     func() (string, string) { return "openblas 0.3.21 (Haswell)", "" },
		OpenBLAS: func() (string, error) { return "openblas 0.3.21 (Haswell)", nil },
		Getenv:   func(string) string { return "" },
	}, files
}

// A machine that has everything, and then each thing absent, wrong or in the way: the state,
// what is said, and the one thing to change. All other findings stay.
func TestFindings(t *testing.T) {
	healthy, files := machine()
	base := examine(t, healthy, files)
	root := healthy.Root
	type change struct {
		files map[string]string // none: absent
		set   func(*Machine)
	}
	for _, x := range []struct {
		name  string
		state string
		found string
		fix   string
		change
	}{
		{"cpu", Yes, "kernels of kind avx512", "", change{}},
		{"cpu", Limited, "kind plain", "unset DISKGNN_SIMD, which keeps avx512", change{set: func(m *Machine) {
			m.SIMD = func() ([]string, string) { return []string{"plain", "avx2", "avx512"}, "plain" }
		}}},
		{"cpu", Limited, "has no AVX2", "a processor with AVX2", change{set: func(m *Machine) {
			m.SIMD = func() ([]string, string) { return []string{"plain"}, "plain" }
		}}},

		{"cpu", Yes, "kernels of kind plain, the only one on arm64", "", change{set: func(m *Machine) {
			m.Arch, m.SIMD = "arm64", func() ([]string, string) { return []string{"plain"}, "plain" }
		}}},

		{"blas", Yes, "matrix products by openblas 0.3.21", "", change{}},
		{"blas", Limited, "by gonum, a tenth as fast", "install OpenBLAS", change{set: func(m *Machine) {
			m.BLAS = func() (string, string) { return "gonum", "no library" }
		}}},

		{"blas", Limited, "by gonum, a tenth as fast", "or use a processor with AVX2", change{set: func(m *Machine) {
			m.BLAS = func() (string, string) { return "gonum", "no library" }
		}}},
		{"blas", Limited, "by gonum, a tenth as fast", "install OpenBLAS (Debian, Ubuntu: apt install libopenblas0)", change{set: func(m *Machine) {
			m.Arch, m.BLAS = "arm64", func() (string, string) { return "gonum", "no library" }
		}}},

		{"openblas", Yes, "openblas 0.3.21", "", change{}},
		{"openblas", No, "no library", "apt install libopenblas0", change{set: func(m *Machine) {
			m.OpenBLAS = func() (string, error) { return "", errors.New("no library") }
		}}},
		{"openblas", No, "no library", "unset DISKGNN_OPENBLAS", change{set: func(m *Machine) {
			m.OpenBLAS = func() (string, error) { return "", errors.New("no library") }
			m.Getenv = func(name string) string { return map[string]string{"DISKGNN_OPENBLAS": "/x"}[name] }
		}}},

		{"memory", Yes, "hold up to 8.00 GiB, 80% of the machine's 10.00 GiB", "", change{}},
		{"memory", Limited, "80% of the cgroup's", "the cgroup's limit", change{set: func(m *Machine) {
			m.Memory = func() (int64, string) { return 1 << 30, "the cgroup's 1.25 GiB" }
		}}},

		{"memlock", Yes, "any amount may be locked", "", change{}},
		{"memlock", Yes, "CAP_IPC_LOCK", "", change{files: map[string]string{
			"proc/self/limits": "Max locked memory 65536 65536 bytes", "proc/self/status": "CapEff:\t000001ffffffffff",
		}}},
		{"memlock", Limited, "8.0 MiB may be locked", "ulimit -l unlimited", change{files: map[string]string{"proc/self/limits": "Max locked memory         8388608              8388608              bytes"}}},
		{"memlock", Unknown, "cannot be read", "mount /proc", change{files: map[string]string{"proc/self/limits": none}}},

		{"huge_pages", Yes, "60 of 2048 kB are reserved", "", change{}},
		{"huge_pages", Limited, "0 of 2048 kB", "sysctl vm.nr_hugepages", change{files: map[string]string{"proc/meminfo": "HugePages_Free: 0\nHugepagesize:       2048 kB"}}},
		{"huge_pages", Limited, "0 of 2048 kB", "echo 64 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", change{files: map[string]string{"proc/meminfo": "HugePages_Free: 3\nHugepagesize:     524288 kB"}}},
		{"huge_pages", Yes, "7 of 2048 kB", "", change{files: map[string]string{
			"proc/meminfo": "HugePages_Free: 0\nHugepagesize:     524288 kB", "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages": "7",
		}}},
		{"huge_pages", Limited, "transparent huge pages are off", "echo madvise", change{files: map[string]string{"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"}}},
		{"huge_pages", Limited, "transparent huge pages are off", "echo madvise", change{files: map[string]string{"sys/kernel/mm/transparent_hugepage/enabled": none}}},
		{"huge_pages", Unknown, "cannot be read", "mount /proc", change{files: map[string]string{"proc/meminfo": none}}},

		{"io_uring", Yes, "it reads", "", change{}},
		{"io_uring", No, "not permitted", "sysctl kernel.io_uring_disabled=0", change{map[string]string{"proc/sys/kernel/io_uring_disabled": "2"}, refuse(unix.EPERM)}},
		{"io_uring", No, "not permitted", "sysctl kernel.io_uring_disabled=0", change{map[string]string{"proc/sys/kernel/io_uring_disabled": "1"}, refuse(unix.EPERM)}},
		{"io_uring", No, "not permitted", "a seccomp profile", change{set: refuse(unix.EPERM)}},
		{"io_uring", No, "not implemented", "a seccomp profile", change{map[string]string{"proc/sys/kernel/io_uring_disabled": none}, refuse(unix.ENOSYS)}},
		{"io_uring", No, "cannot allocate", "ulimit -l", change{set: refuse(unix.ENOMEM)}},
		{"io_uring", No, "too many open files", "ulimit -n", change{set: refuse(unix.EMFILE)}},
		{"io_uring", No, "invalid argument", "Linux 5.6", change{set: refuse(unix.EINVAL)}},

		{"o_direct", Yes, "files in data are read past", "", change{}},
		{"o_direct", No, "through the page cache: tmpfs", "ext4", change{set: func(m *Machine) { m.Direct = func(string) (bool, string, error) { return false, "tmpfs", nil } }}},
		{"o_direct", Unknown, "read-only", "--dir", change{set: func(m *Machine) { m.Direct = func(string) (bool, string, error) { return false, "", unix.EROFS } }}},

		{"drive", Yes, "nvme0n1, NVMe, scheduler none", "", change{}},
		{"drive", Limited, "scheduler mq-deadline", "echo none > /sys/block/nvme0n1/queue/scheduler", change{files: map[string]string{"sys/devices/nvme0n1/queue/scheduler": "none [mq-deadline]"}}},
		{"drive", Yes, "sdb, an SSD", "", change{files: map[string]string{"sys/dev/block/259:1": "-> ../../devices/sdb", "sys/devices/sdb/queue/rotational": "0"}}},
		{"drive", Limited, "sdb is a rotating disk", "on an SSD", change{files: map[string]string{"sys/dev/block/259:1": "-> ../../devices/sdb", "sys/devices/sdb/queue/rotational": "1"}}},
		{"drive", Unknown, "vda, a virtual drive", "bench io data", change{files: map[string]string{"sys/dev/block/259:1": "-> ../../devices/vda", "sys/devices/vda/queue/rotational": "1"}}},
		{"drive", Unknown, "has no properties", "--dir", change{files: map[string]string{"sys/devices/nvme0n1/queue/rotational": none}}},
		{"drive", Unknown, "data is on no block device", "--dir", change{files: map[string]string{"sys/dev/block/259:1": none}}},
		{"drive", Unknown, "no such file", "--dir", change{set: func(m *Machine) { m.Device = func(string) (uint32, uint32, error) { return 0, 0, unix.ENOENT } }}},

		{"gpu", Yes, "NVIDIA H200 with 140.00 GiB", "", change{}},
		{"gpu", No, "without GPU support", "make build-gpu", change{set: func(m *Machine) {
			m.Tagged = false
			m.GPUs = func() ([]cuda.Info, error) { return nil, cuda.ErrNoDevice }
		}}},
		{"gpu", No, "without GPU support", "train on the CPU: the variant for GPUs is built for x86-64", change{set: func(m *Machine) {
			m.Arch, m.Tagged = "arm64", false
			m.GPUs = func() ([]cuda.Info, error) { return nil, cuda.ErrNoDevice }
		}}},
		{"gpu", No, "no GPU", "nvidia-smi", change{set: func(m *Machine) { m.GPUs = func() ([]cuda.Info, error) { return nil, cuda.ErrNoDevice } }}},

		{"p2p", Yes, "by the kernel", "", change{}},
		{"p2p", Yes, "nvidia-fs is loaded", "", change{files: map[string]string{"sys/module/nvidia_fs/version": "2", "proc/sys/kernel/osrelease": "5.15.0", "proc/driver/nvidia/params": none}}},
		{"p2p", No, "Linux 6.1.0 and no nvidia-fs", "Linux 6.2", change{files: map[string]string{"proc/sys/kernel/osrelease": "6.1.0"}}},
		{"p2p", No, "not the open ones", "open kernel modules", change{files: map[string]string{"proc/driver/nvidia/version": "NVIDIA UNIX x86_64 Kernel Module 570"}}},
		{"p2p", No, "not mapped to the bus", "RMForceStaticBar1=1", change{files: map[string]string{"proc/driver/nvidia/params": `RegistryDwords: ""`}}},
		{"p2p", No, "joins paths", "nvme_core.multipath=N", change{files: map[string]string{"sys/module/nvme_core/parameters/multipath": "Y"}}},

		{"cufile", Yes, "direct", "", change{}},
		{"cufile", Limited, "compatibility mode: no module", "the change of p2p", change{set: verdict(cufile.Verdict{Mode: cufile.Compatibility, Reason: "no module"})}},
		{"cufile", No, "unavailable: no library", "install libcufile", change{set: verdict(cufile.Verdict{Mode: cufile.Unavailable, Reason: "no library"})}},

		{"nvme", Yes, "1 controller: 0000:01:00.0 (nvme)", "", change{}},
		{"nvme", Yes, "0000:01:00.0 (without a driver)", "", change{files: map[string]string{"sys/bus/pci/devices/0000:01:00.0/driver": none}}},
		{"nvme", No, "no NVMe controller", "soft:FILE", change{files: map[string]string{"sys/bus/pci/devices/0000:01:00.0/class": "0x010601"}}},

		{"iommu", Yes, "off", "", change{}},
		{"iommu", Yes, "passes addresses through", "", change{files: map[string]string{"sys/kernel/iommu_groups/0/type": "identity"}}},
		{"iommu", Limited, "on: ", "iommu=off", change{files: map[string]string{"sys/kernel/iommu_groups/0/type": "identity", "sys/kernel/iommu_groups/1/type": "DMA-FQ"}}},

		{"iommu", Limited, "on: ", "boot with iommu.passthrough=1", change{
			map[string]string{"sys/kernel/iommu_groups/1/type": "DMA-FQ"}, func(m *Machine) { m.Arch = "arm64" },
		}},

		{"nvme_modules", Limited, "/dev/libnvm0, /dev/dmabuf_import with /dev/udmabuf; the transports that use them are unproven on hardware", "without data", change{}},
		{"nvme_modules", Limited, "/dev/libnvm0; ", "without data", change{files: map[string]string{"dev/udmabuf": none}}},
		{"nvme_modules", No, "neither", "sysfs:ADDRESS", change{files: map[string]string{"dev/libnvm0": none, "dev/dmabuf_import": none}}},
	} {
		m, files := machine()
		m.Root = root
		for name, content := range x.files {
			put(t, root, name, content)
		}
		if x.set != nil {
			x.set(m)
		}
		found := m.Examine(t.Context(), "data").Findings
		for name := range x.files {
			if content, had := files[name]; had {
				put(t, root, name, content)
			} else {
				put(t, root, name, none)
			}
		}
		for i, f := range found {
			if f.Name != x.name {
				if f != base[i] && !(x.name == "p2p" && f.Name == "gpu") && !(x.name == "gpu" && f.Name == "cufile") {
					t.Errorf("%s %s: %s is %+v, too", x.name, x.found, f.Name, f)
				}
				continue
			}
			if f.State != x.state || !strings.Contains(f.Found, x.found) || !strings.Contains(f.Change, x.fix) || (f.Change == "") != (x.fix == "") {
				t.Errorf("%+v, want %s, %q, %q", f, x.state, x.found, x.fix)
			}
		}
	}
}

func refuse(err error) func(*Machine) {
	return func(m *Machine) { m.Uring = func() error { return fmt.Errorf("io_uring: %w", err) } }
}

func verdict(v cufile.Verdict) func(*Machine) {
	return func(m *Machine) { m.CUFile = func(context.Context, string) cufile.Verdict { return v } }
}

func examine(t *testing.T, m *Machine, files map[string]string) []Finding {
	t.Helper()
	m.Root = tree(t, files)
	r := m.Examine(t.Context(), "data")
	if r.Directory != "data" {
		t.Error(r.Directory)
	}
	return r.Findings
}

// Without the driver, or in a container that was not given the GPU, all that needs it says so.
func TestNoDriver(t *testing.T) {
	for missing, want := range map[string]string{"proc/driver/nvidia/version": "is not loaded", "dev/nvidiactl": "its device files are missing"} {
		m, files := machine()
		delete(files, missing)
		m.GPUs = func() ([]cuda.Info, error) { t.Error("the driver is opened"); return nil, nil }
		for _, f := range examine(t, m, files) {
			if slices.Contains([]string{"gpu", "p2p", "cufile"}, f.Name) != (f.State == No && strings.Contains(f.Found, want) && f.Change != "") {
				t.Errorf("%+v", f)
			}
		}
	}
}

// What a machine does not have needs no setting: without an NVMe controller none of what queues
// of drives need, without NVIDIA's GPU no driver.
func TestNothingToChangeFor(t *testing.T) {
	m, files := machine()
	for _, name := range []string{"proc/driver/nvidia/version", "dev/nvidiactl", "dev/libnvm0", "dev/dmabuf_import"} {
		delete(files, name)
	}
	files["sys/bus/pci/devices/0000:01:00.0/class"] = "0x010601"
	files["sys/bus/pci/devices/0000:02:00.0/vendor"] = "0x1002"
	files["sys/kernel/iommu_groups/1/type"] = "DMA-FQ"
	files["proc/meminfo"] = "HugePages_Free: 0\nHugepagesize:       2048 kB"
	const cpu = "train on the CPU, which needs no flag, or on a machine with an NVIDIA GPU"
	want := map[string]string{"huge_pages": "", "iommu": "", "gpu": cpu, "p2p": cpu, "cufile": cpu, "nvme_modules": inSoftware, "nvme": inSoftware}
	for _, f := range examine(t, m, files) {
		if change, listed := want[f.Name]; listed && f.Change != change {
			t.Errorf("%+v", f)
		}
	}
}

// Nothing of x86 is advised elsewhere, nor what an old kernel has not.
func TestNothingOfAnotherMachine(t *testing.T) {
	m, files := machine()
	m.Arch, m.Tagged = "arm64", false
	m.SIMD = func() ([]string, string) { return []string{"plain"}, "plain" }
	m.BLAS = func() (string, string) { return "gonum", "no library" }
	m.GPUs = func() ([]cuda.Info, error) { return nil, cuda.ErrNoDevice }
	m.Uring = func() error { return unix.ENOSYS }
	files["sys/kernel/iommu_groups/1/type"] = "DMA-FQ"
	files["proc/sys/kernel/osrelease"] = "4.18.0-553.el8"
	want := map[string]string{
		"cpu": "", "blas": installOpenBLAS, "gpu": "train on the CPU: the variant for GPUs is built for x86-64",
		"iommu": "boot with iommu.passthrough=1", "io_uring": "use Linux 5.6 or later, and a file system that io_uring can read",
	}
	for _, f := range examine(t, m, files) {
		if change, listed := want[f.Name]; listed && f.Change != change || strings.Contains(f.Found+f.Change, "AVX") {
			t.Errorf("%+v", f)
		}
	}
}

// Of a machine that has nothing, every finding has a thing to change unless it is yes, in one
// line; so have those of this machine.
func TestEveryFindingHelps(t *testing.T) {
	m, _ := machine()
	m.GPUs = func() ([]cuda.Info, error) { return nil, cuda.ErrNoDevice }
	m.Uring = func() error { return unix.ENOSYS }
	here := Here()
	for _, r := range [][]Finding{examine(t, m, nil), here.Examine(t.Context(), t.TempDir()).Findings} {
		if len(r) != 15 {
			t.Errorf("%d findings", len(r))
		}
		for _, f := range r {
			if f.Found == "" || strings.Contains(f.Found+f.Change, "\n") || (f.Change == "") != (f.State == Yes) {
				t.Errorf("%+v", f)
			}
		}
	}
}

// Drives are advised by names that commands take.
func TestTargets(t *testing.T) {
	healthy, files := machine()
	poor, _ := machine()
	advised := regexp.MustCompile(`\b[a-z]+:[A-Z]+\b`)
	var named []string
	for _, f := range slices.Concat(examine(t, healthy, files), examine(t, poor, map[string]string{"sys/bus/pci/devices/0000:01:00.0/class": pciNVMe})) {
		named = append(named, advised.FindAllString(f.Change, -1)...)
	}
	slices.Sort(named)
	if named = slices.Compact(named); len(named) != 4 {
		t.Errorf("%q are advised", named)
	}
	for _, form := range named {
		if !slices.Contains(target.Forms(), form) {
			t.Errorf("%s is advised, and there are %q", form, target.Forms())
		}
	}
}

func TestAtLeast(t *testing.T) {
	for release, want := range map[string]bool{"6.2": true, "6.18.44-fc-v657": true, "7.0-rc1": true, "6.1.999": false, "5.15": false, "": false, "six": false} {
		if atLeast(release, 6, 2) != want {
			t.Error(release)
		}
	}
}

// The directory is tried as runs open files of it, and is left as it was.
func TestTryDirect(t *testing.T) {
	dir := t.TempDir()
	if _, reason, err := tryDirect(dir); err != nil {
		t.Error(reason, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{file, filepath.Join(dir, "nowhere")} {
		if _, _, err := tryDirect(wrong); err == nil {
			t.Error(wrong)
		}
	}
}
