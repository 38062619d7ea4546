// Package sysfs reaches an NVMe controller that is a PCI function of this machine, by files
// of sysfs alone: no kernel module, no VFIO. It is a transport of package nvme.
//
// Open takes the function from the kernel's driver, enables it as a bus master, maps its registers
// (resource0), and gives memory of huge pages; their bus addresses are the physical ones of
// /proc/self/pagemap. So it needs root, huge pages of 2 MiB (vm.nr_hugepages), and no IOMMU that
// translates: with one, those addresses would mean other memory, and Open refuses.
//
// The kernel's file systems on the drive would be gone with its driver. A drive that is in
// use (mounted, swapped to, part of another device, held open for itself alone) is never
// taken; one with a partition table, or that cannot be looked at because no driver has it,
// only by force.
//
// A helper gives the drive back. It is this same program, started before anything is changed, in a
// session of its own. It waits until its standard input ends: when the Device is closed, or when
// this process has ended in whatever way. Then it disables the controller, takes the right to be a
// bus master away, and binds the function to the driver that it had. The helper shares the memory,
// so that the drive never writes to pages that belong to somebody else by then. A helper that was
// killed is replaced by Close; only if both are killed does the function stay without a driver,
// which
//
//	echo ADDRESS > /sys/bus/pci/drivers/nvme/bind
//
// mends.
package sysfs
