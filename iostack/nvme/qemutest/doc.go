// Package qemutest has the tests of the NVMe driver that run twice: on the controller in software (package
// soft), as other tests, and on QEMU's controller, as an independent implementation.
//
// For the latter, TestQEMU boots QEMU with this package's test binary as the only program of a small guest:
// its init, which finds the drives in sysfs, takes them through package sysfs, runs the tests named
// TestDrive…, and turns the guest off. Its output comes back by the serial console, and every test of the
// guest is a test of TestQEMU. The program is in the guest too: TestDriveTrain puts a pack on a drive with
// it, and trains from there. `make test-nvme` sets the paths of QEMU and of the guest's kernel; without
// them TestQEMU skips.
package qemutest
