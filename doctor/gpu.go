package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"diskgnn/internal/budget"
	"diskgnn/iostack/cufile"
)

const driverVersion = "proc/driver/nvidia/version"

// nvidiaGPU reports whether the PCI bus has a display controller of NVIDIA's, and whether there is
// a bus to look at.
func (m *Machine) nvidiaGPU() (there, known bool) {
	for _, address := range m.match(pciDevices, "*") {
		class, _ := m.read(filepath.Join(pciDevices, address, "class"))
		vendor, ok := m.read(filepath.Join(pciDevices, address, "vendor"))
		there = there || vendor == "0x10de" && strings.HasPrefix(class, "0x03")
		known = known || ok
	}
	return there, known
}

// noDriver reports the cause if there is no GPU on the bus, or no driver or device file of one.
func (m *Machine) noDriver() (found, change string) {
	there, known := m.nvidiaGPU()
	switch {
	case !m.exists(driverVersion) && known && !there:
		return "no NVIDIA GPU on the PCI bus", "train on the CPU, which needs no flag, or on a machine with an NVIDIA GPU"
	case !m.exists(driverVersion):
		return "NVIDIA's driver is not loaded", "install NVIDIA's driver; for a container, on its host"
	case !m.exists("dev/nvidiactl"):
		return "NVIDIA's driver is loaded, but its device files are missing", "give the container the GPU (docker run --gpus all)"
	}
	return "", ""
}

func (m *Machine) gpu(context.Context, string) Finding {
	if found, change := m.noDriver(); found != "" {
		return Finding{Name: "gpu", State: No, Found: found, Change: change}
	}
	infos, err := m.GPUs()
	switch {
	case err != nil && !m.Tagged && m.Arch != x86:
		return Finding{Name: "gpu", State: No, Found: "NVIDIA's driver is loaded, but this program was built without GPU support", Change: "train on the CPU: the variant for GPUs is built for x86-64"}
	case err != nil && !m.Tagged:
		return Finding{Name: "gpu", State: No, Found: "NVIDIA's driver is loaded, but this program was built without GPU support", Change: "make build-gpu, and run bin/diskgnn-gpu"}
	case err != nil:
		return Finding{Name: "gpu", State: No, Found: err.Error(), Change: "make nvidia-smi work first"}
	}
	var found []string
	for _, g := range infos {
		found = append(found, fmt.Sprintf("%s with %s", g.Name, budget.FormatBytes(g.Memory)))
	}
	return Finding{Name: "gpu", State: Yes, Found: strings.Join(found, ", ")}
}

// peers reports whether drives can write to a GPU's memory: by nvidia-fs, or by the P2PDMA support of
// recent kernels and drivers. It reports the first missing part.
func (m *Machine) peers(context.Context, string) Finding {
	no := func(found, change string) Finding {
		return Finding{Name: "p2p", State: No, Found: found, Change: change}
	}
	if found, change := m.noDriver(); found != "" {
		return no(found, change)
	}
	if m.exists("sys/module/nvidia_fs") {
		return Finding{Name: "p2p", State: Yes, Found: "nvidia-fs is loaded"}
	}
	version, _ := m.read(driverVersion)
	params, _ := m.read("proc/driver/nvidia/params")
	multipath, _ := m.read("sys/module/nvme_core/parameters/multipath")
	release, _ := m.read("proc/sys/kernel/osrelease")
	switch {
	case !atLeast(release, 6, 2):
		return no("Linux "+release+" and no nvidia-fs", "load nvidia-fs, or use Linux 6.2 or later")
	case !strings.Contains(version, "Open Kernel Module"):
		return no("the driver's kernel modules are not the open ones", "install NVIDIA's open kernel modules, 565 or later")
	case !strings.Contains(params, "RMForceStaticBar1=1"):
		return no("the GPU's memory is not mapped to the bus as a whole", `options nvidia NVreg_RegistryDwords="RMForceStaticBar1=1;RMForceDisableIomapWC=1" in /etc/modprobe.d`)
	case multipath == "Y":
		return no("the kernel joins paths to NVMe drives", "boot with nvme_core.multipath=N")
	}
	return Finding{Name: "p2p", State: Yes, Found: "by the kernel (P2PDMA)"}
}

// older reports whether the kernel is older than a release. A kernel of unknown release is not.
func (m *Machine) older(major, minor int) bool {
	release, ok := m.read("proc/sys/kernel/osrelease")
	return ok && !atLeast(release, major, minor)
}

// atLeast reports whether a release, such as 6.18.4-amd64, is the given one or later.
func atLeast(release string, major, minor int) bool {
	parts := strings.FieldsFunc(release, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) < 2 {
		return false
	}
	a, _ := strconv.Atoi(parts[0])
	b, _ := strconv.Atoi(parts[1])
	return a > major || a == major && b >= minor
}

func (m *Machine) cuFile(ctx context.Context, directory string) Finding {
	if found, change := m.noDriver(); found != "" {
		return Finding{Name: "cufile", State: No, Found: found, Change: change}
	}
	v := m.CUFile(ctx, directory)
	f := Finding{Name: "cufile", State: Yes, Found: v.String()}
	switch v.Mode {
	case cufile.Compatibility:
		f.State, f.Change = Limited, "make the change of p2p"
	case cufile.Unavailable:
		f.State, f.Change = No, "make the change of gpu"
		if m.Tagged {
			f.Change = "install libcufile of CUDA 12.6 or later, or name it by DISKGNN_CUFILE"
		}
	}
	return f
}
