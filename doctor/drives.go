package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"diskgnn/internal/units"
)

// drive reports on the drive that holds a directory.
func (m *Machine) drive(_ context.Context, directory string) Finding {
	major, minor, err := m.Device(directory)
	if err != nil {
		return Finding{Name: "drive", State: Unknown, Found: err.Error(), Change: "name a directory that exists with --dir"}
	}
	link := fmt.Sprintf("sys/dev/block/%d:%d", major, minor)
	path, err := filepath.EvalSymlinks(filepath.Join(m.Root, link))
	if err != nil {
		return Finding{
			Name: "drive", State: Unknown, Found: directory + " is on no block device: its file system is in memory, on a network, or on top of another file system",
			Change: "name a directory on a drive with --dir",
		}
	}
	if _, err := os.Stat(filepath.Join(path, "partition")); err == nil {
		path = filepath.Dir(path)
	}
	name := filepath.Base(path)
	queue := func(name string) string {
		b, _ := os.ReadFile(filepath.Join(path, "queue", name))
		return strings.TrimSpace(string(b))
	}
	_, scheduler, _ := strings.Cut(queue("scheduler"), "[")
	scheduler, _, _ = strings.Cut(scheduler, "]")
	f := Finding{Name: "drive", State: Yes, Found: name + ", an SSD"}
	switch nvme := strings.HasPrefix(name, "nvme"); {
	case queue("rotational") == "":
		f.State, f.Found, f.Change = Unknown, name+" has no properties in sysfs", "name a directory on another drive with --dir"
		return f
	case strings.HasPrefix(name, "vd"), strings.HasPrefix(name, "xvd"): // sysfs reports these as rotating
		f.State, f.Found, f.Change = Unknown, name+", a virtual drive: its hardware is hidden", "measure it: diskgnn bench io "+directory
		return f
	case queue("rotational") == "1":
		f.State, f.Found, f.Change = Limited, name+" is a rotating disk: random reads take milliseconds each", "keep packs on an SSD"
		return f
	case nvme:
		f.Found = name + ", NVMe"
	}
	if scheduler != "" {
		f.Found += ", scheduler " + scheduler
		if scheduler != "none" {
			f.State, f.Change = Limited, "echo none > /sys/block/"+name+"/queue/scheduler"
		}
	}
	return f
}

const (
	pciDevices = "sys/bus/pci/devices"
	pciNVMe    = "0x010802" // the class of NVMe controllers
)

// nvme returns the addresses of NVMe controllers.
func (m *Machine) nvme() (addresses []string) {
	for _, address := range m.match(pciDevices, "*") {
		if class, _ := m.read(filepath.Join(pciDevices, address, "class")); class == pciNVMe {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// inSoftware is the advice for a machine without an NVMe drive that this program may drive.
const inSoftware = "serve a file by a controller in software: soft:FILE (diskgnn nvme load)"

// controllers reports on NVMe drives with queues that a program or a GPU can drive.
func (m *Machine) controllers(context.Context, string) Finding {
	var found []string
	for _, address := range m.nvme() {
		driver, err := os.Readlink(filepath.Join(m.Root, pciDevices, address, "driver"))
		if err != nil {
			driver = "without a driver"
		}
		found = append(found, address+" ("+filepath.Base(driver)+")")
	}
	if len(found) == 0 {
		return Finding{Name: "nvme", State: No, Found: "no NVMe controller on the PCI bus", Change: inSoftware}
	}
	return Finding{Name: "nvme", State: Yes, Found: units.Of(len(found), "controller") + ": " + strings.Join(found, ", ")}
}

// iommu reports whether drives use physical addresses of memory: they do without an IOMMU, and with
// one that passes addresses through.
func (m *Machine) iommu(context.Context, string) Finding {
	groups := m.match("sys/kernel/iommu_groups", "*")
	translating := 0
	for _, g := range groups {
		if kind, _ := m.read(filepath.Join("sys/kernel/iommu_groups", g, "type")); kind != "identity" {
			translating++
		}
	}
	switch {
	case len(groups) == 0:
		return Finding{Name: "iommu", State: Yes, Found: "off: drives use physical addresses of memory"}
	case translating == 0:
		return Finding{Name: "iommu", State: Yes, Found: "it passes addresses through"}
	case len(m.nvme()) == 0:
		return Finding{Name: "iommu", State: Yes, Found: "on, and there is no NVMe controller that needs addresses"}
	}
	f := Finding{
		Name: "iommu", State: Limited, Found: "on: drives do not use the physical addresses that a program can find",
		Change: "boot with iommu=off (Intel: intel_iommu=off, AMD: amd_iommu=off)",
	}
	if m.Arch != x86 {
		f.Change = "boot with iommu.passthrough=1"
	}
	return f
}

// modules reports on the kernel modules of transports that are unproven on hardware.
func (m *Machine) modules(context.Context, string) Finding {
	var found []string
	for _, name := range m.match("dev", "libnvm*") {
		found = append(found, "/dev/"+name)
	}
	if m.exists("dev/dmabuf_import") && m.exists("dev/udmabuf") {
		found = append(found, "/dev/dmabuf_import with /dev/udmabuf")
	}
	if len(found) == 0 {
		f := Finding{
			Name: "nvme_modules", State: No, Found: "neither BaM's module nor dmabuf-import with udmabuf is loaded: the transports libnvm and dmabuf need one of them",
			Change: "use a transport without kernel modules: sysfs:ADDRESS, or soft:FILE (diskgnn nvme load)",
		}
		if len(m.nvme()) == 0 {
			f.Change = inSoftware
		}
		return f
	}
	return Finding{Name: "nvme_modules", State: Limited, Found: strings.Join(found, ", ") + "; the transports that use them are unproven on hardware",
		Change: "try them on drives without data: libnvm:NODE, dmabuf:ADDRESS"}
}
