//go:build gpu && cgo && linux && amd64

package cuda

// #include "driver_gpu.h"
import "C"

import (
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"gorgonia.org/cu"
)

// cuda is the driver, through gorgonia.org/cu where that has the call.
type cuda struct{}

func loadDriver() (driver, error) { return cuda{}, nil }

func check(call string, r C.CUresult) error {
	if r == C.CUDA_SUCCESS {
		return nil
	}
	return &status{call: call, why: C.GoString(C.resultName(r)), outOfMemory: r == C.CUDA_ERROR_OUT_OF_MEMORY, lost: C.resultIsSticky(r) != 0}
}

// checked returns the status in an error of package cu's: an integer of an unexported type.
func checked(call string, err error) error {
	if err == nil {
		return nil
	}
	if v := reflect.ValueOf(err); v.CanInt() {
		return check(call, C.CUresult(v.Int()))
	}
	return &status{call: call, why: err.Error()}
}

// cu's types are structs of one handle each.

func raw[T cu.Stream | cu.Event | cu.Module | cu.Function | cu.CUContext](v T) handle {
	return *(*handle)(unsafe.Pointer(&v))
}

func as[T cu.Stream | cu.Event | cu.Module | cu.Function | cu.CUContext](h handle) T {
	return *(*T)(unsafe.Pointer(&h))
}

func (cuda) count() (int, error) {
	n, err := cu.NumDevices()
	return n, checked("cuDeviceGetCount", err)
}

func (cuda) describe(i int) (Info, error) {
	d, err := cu.GetDevice(i)
	if err != nil {
		return Info{}, checked("cuDeviceGet", err)
	}
	var info Info
	if info.Name, err = d.Name(); err != nil {
		return Info{}, checked("cuDeviceGetName", err)
	}
	if info.Memory, err = d.TotalMem(); err != nil {
		return Info{}, checked("cuDeviceTotalMem", err)
	}
	var clock, width, domain, bus, device int
	for _, a := range []struct {
		to *int
		of cu.DeviceAttribute
	}{
		{&info.Major, cu.ComputeCapabilityMajor}, {&info.Minor, cu.ComputeCapabilityMinor},
		{&info.Multiprocessors, cu.MultiprocessorCount}, {&clock, cu.MemoryClockRate}, {&width, cu.GlobalMemoryBusWidth},
		{&domain, cu.PciDomainID}, {&bus, cu.PciBusID}, {&device, cu.PciDeviceID},
	} {
		if *a.to, err = d.Attribute(a.of); err != nil {
			return Info{}, checked("cuDeviceGetAttribute", err)
		}
	}
	info.Node = nodeOf(domain, bus, device)
	info.Bandwidth = 2 * int64(clock) * 1000 * int64(width) / 8 // two transfers a clock
	return info, nil
}

// nodeOf returns the NUMA node of a PCI device, -1 for none.
func nodeOf(domain, bus, device int) int {
	b, err := os.ReadFile(fmt.Sprintf("/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node", domain, bus, device))
	if err != nil {
		return -1
	}
	node, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return -1
	}
	return node
}

func (cuda) retain(i int) (handle, error) {
	d, err := cu.GetDevice(i)
	if err != nil {
		return 0, checked("cuDeviceGet", err)
	}
	c, err := d.RetainPrimaryCtx()
	return raw(c), checked("cuDevicePrimaryCtxRetain", err)
}

func (cuda) release(i int) error {
	d, err := cu.GetDevice(i)
	if err != nil {
		return checked("cuDeviceGet", err)
	}
	return checked("cuDevicePrimaryCtxRelease", d.ReleasePrimaryCtx())
}

func (cuda) bind(c handle) error {
	return checked("cuCtxSetCurrent", cu.SetCurrentContext(as[cu.CUContext](c)))
}

func (cuda) reach(device int, _ driver, other int, context handle) (bool, error) {
	from, err := cu.GetDevice(device)
	if err != nil {
		return false, checked("cuDeviceGet", err)
	}
	to, err := cu.GetDevice(other)
	if err != nil {
		return false, checked("cuDeviceGet", err)
	}
	can, err := from.CanAccessPeer(to)
	if err != nil || can == 0 {
		return false, checked("cuDeviceCanAccessPeer", err)
	}
	err = checked("cuCtxEnablePeerAccess", as[cu.CUContext](context).EnablePeerAccess(0))
	return err == nil, err
}

func (cuda) available() (int64, error) {
	n, _, err := cu.MemInfo()
	return n, checked("cuMemGetInfo", err)
}

func (cuda) alloc(bytes int64) (uint64, error) {
	p, err := cu.MemAlloc(bytes)
	return uint64(p), checked("cuMemAlloc", err)
}

func (cuda) free(address uint64) error {
	return checked("cuMemFree", cu.MemFree(cu.DevicePtr(address)))
}

func (cuda) allocPinned(bytes int64) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	err := check("cuMemHostAlloc", C.cuMemHostAlloc(&p, C.size_t(bytes), C.CU_MEMHOSTALLOC_PORTABLE))
	return p, err
}

func (cuda) freePinned(p unsafe.Pointer) error { return checked("cuMemFreeHost", cu.MemFreeHost(p)) }

func (cuda) register(p unsafe.Pointer, bytes int64) error {
	return check("cuMemHostRegister", C.cuMemHostRegister(p, C.size_t(bytes), C.CU_MEMHOSTREGISTER_PORTABLE))
}

func (cuda) unregister(p unsafe.Pointer) error {
	return check("cuMemHostUnregister", C.cuMemHostUnregister(p))
}

func (cuda) mapped(p unsafe.Pointer) (uint64, error) {
	var address C.CUdeviceptr
	err := check("cuMemHostGetDevicePointer", C.cuMemHostGetDevicePointer(&address, p, 0))
	return uint64(address), err
}

func (cuda) newStream() (handle, error) {
	s, err := cu.MakeStream(cu.NonBlocking)
	return raw(s), checked("cuStreamCreate", err)
}

func (cuda) dropStream(s handle) error {
	stream := as[cu.Stream](s)
	return checked("cuStreamDestroy", stream.Destroy())
}

func (cuda) syncStream(s handle) error {
	return checked("cuStreamSynchronize", as[cu.Stream](s).Synchronize())
}

func (cuda) waitFor(s, e handle) error {
	return checked("cuStreamWaitEvent", as[cu.Stream](s).Wait(as[cu.Event](e), 0))
}

func (cuda) newEvent() (handle, error) {
	e, err := cu.MakeEvent(cu.DefaultEvent)
	return raw(e), checked("cuEventCreate", err)
}

func (cuda) dropEvent(e handle) error {
	event := as[cu.Event](e)
	return checked("cuEventDestroy", cu.DestroyEvent(&event))
}

func (cuda) record(e, s handle) error {
	return checked("cuEventRecord", as[cu.Event](e).Record(as[cu.Stream](s)))
}

func (cuda) done(e handle) (bool, error) {
	err := as[cu.Event](e).Query()
	if err == cu.NotReady {
		return false, nil
	}
	return err == nil, checked("cuEventQuery", err)
}

func (cuda) syncEvent(e handle) error {
	return checked("cuEventSynchronize", as[cu.Event](e).Synchronize())
}

func (cuda) milliseconds(from, to handle) (float64, error) {
	ms, err := as[cu.Event](from).Elapsed(as[cu.Event](to))
	return ms, checked("cuEventElapsedTime", err)
}

func (cuda) copyIn(to uint64, from unsafe.Pointer, bytes int64, s handle) error {
	return checked("cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(cu.DevicePtr(to), from, bytes, as[cu.Stream](s)))
}

func (cuda) copyOut(to unsafe.Pointer, from uint64, bytes int64, s handle) error {
	return checked("cuMemcpyDtoHAsync", cu.MemcpyDtoHAsync(to, cu.DevicePtr(from), bytes, as[cu.Stream](s)))
}

func (cuda) copyWithin(to, from uint64, bytes int64, s handle) error {
	return checked("cuMemcpyDtoDAsync", cu.MemcpyDtoDAsync(cu.DevicePtr(to), cu.DevicePtr(from), bytes, as[cu.Stream](s)))
}

func (cuda) set(to uint64, value byte, bytes int64, s handle) error {
	return checked("cuMemsetD8Async", cu.MemsetD8Async(cu.DevicePtr(to), value, bytes, as[cu.Stream](s)))
}

func (cuda) loadModule(image []byte) (handle, error) {
	var m C.uintptr_t
	err := check("cuModuleLoadData", C.moduleLoad(&m, unsafe.Pointer(unsafe.SliceData(image))))
	runtime.KeepAlive(image)
	return handle(m), err
}

func (cuda) unloadModule(m handle) error {
	return check("cuModuleUnload", C.moduleUnload(C.uintptr_t(m)))
}

func (cuda) function(m handle, name string) (handle, error) {
	f, err := as[cu.Module](m).Function(name)
	return raw(f), checked("cuModuleGetFunction", err)
}

// launch does not go through cu, which allocates for every launch.
func (cuda) launch(f handle, grid, block Dims, s handle, args []uint64) error {
	return check("cuLaunchKernel", C.launch(C.uintptr_t(f), C.uint(grid[0]), C.uint(grid[1]), C.uint(block[0]), C.uint(block[1]),
		C.uintptr_t(s), (*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(args))), C.int(len(args))))
}

func (cuda) beginCapture(s handle) error {
	return check("cuStreamBeginCapture", C.captureBegin(C.uintptr_t(s)))
}

func (cuda) endCapture(s handle) (handle, error) {
	var g C.uintptr_t
	err := check("cuStreamEndCapture", C.captureEnd(C.uintptr_t(s), &g))
	return handle(g), err
}

func (cuda) instantiate(g handle) (handle, error) {
	var exec C.uintptr_t
	err := check("cuGraphInstantiate", C.graphInstantiate(C.uintptr_t(g), &exec))
	return handle(exec), err
}

func (cuda) update(exec, g handle) error {
	return check("cuGraphExecUpdate", C.graphUpdate(C.uintptr_t(exec), C.uintptr_t(g)))
}

func (cuda) dropGraph(g handle) error {
	return check("cuGraphDestroy", C.graphDrop(C.uintptr_t(g)))
}

func (cuda) dropExec(exec handle) error {
	return check("cuGraphExecDestroy", C.graphExecDrop(C.uintptr_t(exec)))
}

func (cuda) launchGraph(exec, s handle) error {
	return check("cuGraphLaunch", C.graphRun(C.uintptr_t(exec), C.uintptr_t(s)))
}
