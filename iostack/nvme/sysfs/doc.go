// Package sysfs is a transport of package nvme to an NVMe controller that is a PCI function of this
// machine. It only uses files of sysfs, without a kernel module or VFIO.
//
// Open takes the function from the kernel's driver, enables it as a bus master, maps its registers
// (resource0), and allocates memory in huge pages, with the physical addresses from /proc/self/pagemap as
// bus addresses. So it needs root and huge pages of 2 MiB (vm.nr_hugepages). If an IOMMU translates
// addresses, Open refuses: bus addresses would then be other memory.
//
// Without its driver, the kernel's file systems on the drive would be lost. A drive in use (mounted, used
// as swap space, part of another device, opened exclusively) is never taken. A drive with a partition
// table, or without a driver, so that its content cannot be checked, is only taken with Options.Force.
//
// A helper process gives the drive back. It is this same program, started before any change, in a session
// of its own. It waits for the end of its standard input: when the Device is closed, or when this process
// has ended in any way. Then it disables the controller, disables bus mastering, and binds the function to
// its former driver. The helper shares the memory, so that the drive never writes to pages that belong to
// another process. If the helper was killed, Close does its work. Only if both processes are killed, the
// function stays without a driver;
//
//	echo ADDRESS > /sys/bus/pci/drivers/nvme/bind
//
// repairs this.
package sysfs
