package doctor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"diskgnn/internal/budget"
	"diskgnn/internal/units"
)

// x86 is the architecture with AVX2, the only one of the gpu variant.
const x86 = "amd64"

// installOpenBLAS is the advice for a machine without a usable OpenBLAS.
const installOpenBLAS = "install OpenBLAS (Debian, Ubuntu: apt install libopenblas0)"

// cpu reports on the instructions that the kernels on the host use.
func (m *Machine) cpu(context.Context, string) Finding {
	kinds, used := m.SIMD()
	f := Finding{Name: "cpu", State: Yes, Found: fmt.Sprintf("%s, kernels of kind %s", units.Of(runtime.GOMAXPROCS(0), "processor"), used)}
	switch best := kinds[len(kinds)-1]; {
	case used != best:
		f.State, f.Change = Limited, "unset DISKGNN_SIMD, which keeps "+best+" from being used"
	case best == "plain" && m.Arch != x86:
		f.Found += ", the only one on " + m.Arch
	case best == "plain":
		f.State, f.Found = Limited, f.Found+": the processor has no AVX2"
		f.Change = "use a processor with AVX2; in a virtual machine, the processor model of its host"
	}
	return f
}

// blas reports on the library of matrix products.
func (m *Machine) blas(context.Context, string) Finding {
	name, reason := m.BLAS()
	if reason == "" {
		return Finding{Name: "blas", State: Yes, Found: "matrix products by " + name}
	}
	f := Finding{Name: "blas", State: Limited, Found: "matrix products by " + name + ", a tenth as fast as the other libraries", Change: installOpenBLAS}
	if m.Arch == x86 {
		f.Change += ", or use a processor with AVX2 and leave DISKGNN_SIMD unset"
	}
	return f
}

func (m *Machine) openBLAS(context.Context, string) Finding {
	name, err := m.OpenBLAS()
	if err == nil {
		return Finding{Name: "openblas", State: Yes, Found: name}
	}
	f := Finding{Name: "openblas", State: No, Found: err.Error(), Change: installOpenBLAS}
	if path := m.Getenv("DISKGNN_OPENBLAS"); path != "" {
		f.Change = "unset DISKGNN_OPENBLAS, or set it to the path of an OpenBLAS"
	}
	return f
}

// memory reports on the budget of commands without --memory.
func (m *Machine) memory(context.Context, string) Finding {
	bytes, of := m.Memory()
	f := Finding{Name: "memory", State: Yes, Found: fmt.Sprintf("commands hold up to %s, %.0f%% of %s", budget.FormatBytes(bytes), 100*budget.DefaultShare, of)}
	if strings.HasPrefix(of, "the cgroup's") {
		f.State, f.Change = Limited, "raise the cgroup's limit (docker run --memory, systemd MemoryMax=)"
	}
	return f
}

const capIPCLock = 1 << 14

// lockedMemory reports on the limit of locked memory, which io_uring and the GPU's driver need.
func (m *Machine) lockedMemory(context.Context, string) Finding {
	f := Finding{Name: "memlock", State: Yes, Found: "any amount may be locked"}
	caps, _ := m.field("proc/self/status", "CapEff:")
	if held, err := strconv.ParseUint(caps, 16, 64); err == nil && held&capIPCLock != 0 {
		f.Found += " (CAP_IPC_LOCK)"
		return f
	}
	limit, ok := m.field("proc/self/limits", "Max locked memory")
	words := strings.Fields(limit)
	if !ok || len(words) < 2 {
		return Finding{Name: "memlock", State: Unknown, Found: "/proc/self/limits cannot be read", Change: "mount /proc"}
	}
	bytes, err := strconv.ParseInt(words[0], 10, 64)
	if err != nil {
		return f // unlimited
	}
	return Finding{
		Name: "memlock", State: Limited, Found: budget.FormatBytes(bytes) + " may be locked: larger buffers are pinned anew for each read",
		Change: "ulimit -l unlimited (docker run --ulimit memlock=-1, systemd LimitMEMLOCK=infinity)",
	}
}

// queuePage is the size of the huge pages that hold the queues of real drives, as the kernel writes it.
const queuePage = "2048 kB"

// hugePages reports on the reserved huge pages, which hold the queues of real drives, and on
// transparent huge pages.
func (m *Machine) hugePages(context.Context, string) Finding {
	free, ok := m.field("proc/meminfo", "HugePages_Free:")
	if !ok {
		return Finding{Name: "huge_pages", State: Unknown, Found: "/proc/meminfo cannot be read", Change: "mount /proc"}
	}
	size, _ := m.field("proc/meminfo", "Hugepagesize:")
	aside := "sysctl vm.nr_hugepages=64"
	if size != queuePage { // as on machines with pages of 64 KiB: the setting is for huge pages of another size
		const sized = "sys/kernel/mm/hugepages/hugepages-2048kB/"
		aside = "echo 64 > /" + sized + "nr_hugepages"
		size = queuePage
		if free, ok = m.read(sized + "free_hugepages"); !ok {
			free = "0"
		}
	}
	transparent, _ := m.read("sys/kernel/mm/transparent_hugepage/enabled")
	_, chosen, _ := strings.Cut(transparent, "[")
	chosen, _, _ = strings.Cut(chosen, "]")
	f := Finding{Name: "huge_pages", State: Yes, Found: fmt.Sprintf("%s of %s are reserved and free", free, size)}
	if chosen == "never" || chosen == "" {
		f.State, f.Found = Limited, f.Found+"; transparent huge pages are off"
		f.Change = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
	} else if free == "0" {
		f.Found += "; transparent huge pages are on (" + chosen + ")"
		if len(m.nvme()) > 0 {
			f.State, f.Found, f.Change = Limited, f.Found+", but queues of real NVMe drives need reserved ones", aside
		}
	}
	return f
}

func (m *Machine) uring(context.Context, string) Finding {
	err := m.Uring()
	if err == nil {
		return Finding{Name: "io_uring", State: Yes, Found: "it reads"}
	}
	f := Finding{Name: "io_uring", State: No, Found: err.Error(), Change: "use Linux 5.6 or later, and a file system that io_uring can read"}
	setting, _ := m.read("proc/sys/kernel/io_uring_disabled")
	switch {
	case setting == "1" || setting == "2":
		f.Change = "sysctl kernel.io_uring_disabled=0"
	case errors.Is(err, unix.ENOSYS) && m.older(5, 6):
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOSYS):
		f.Change = "use a seccomp profile that permits io_uring_setup, io_uring_enter and io_uring_register (docker run --security-opt seccomp=FILE)"
	case errors.Is(err, unix.ENOMEM):
		f.Change = "ulimit -l unlimited"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		f.Change = "ulimit -n 65536"
	}
	return f
}

// direct reports whether files in a directory are read past the page cache.
func (m *Machine) direct(_ context.Context, directory string) Finding {
	f := Finding{Name: "o_direct", State: Yes, Found: "files in " + directory + " are read past the page cache"}
	direct, reason, err := m.Direct(directory)
	switch {
	case err != nil:
		f.State, f.Found, f.Change = Unknown, err.Error(), "name a directory that can be written to with --dir"
	case !direct:
		f.State, f.Found, f.Change = No, "files in "+directory+" are read through the page cache: "+reason, "keep packs on ext4, XFS or Btrfs"
	}
	return f
}
