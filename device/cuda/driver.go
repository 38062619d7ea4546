package cuda

import "unsafe"

// handle is something of the driver's: a context, stream, event, module, function,
// graph or library handle. 0 is none.
type handle uintptr

// driver is the part of CUDA that this package needs. Its errors are *status. All methods but the first
// three need a bound context.
type driver interface {
	count() (int, error)
	describe(i int) (Info, error)
	retain(i int) (context handle, err error)
	release(i int) error
	bind(context handle) error
	// reach lets the bound context of a device use the memory of another device of the same machine,
	// with the given driver and context. It reports false if the machine cannot.
	reach(device int, peer driver, other int, context handle) (bool, error)

	// available returns the free bytes of the device's memory.
	available() (int64, error)
	alloc(bytes int64) (address uint64, err error)
	free(address uint64) error
	allocPinned(bytes int64) (unsafe.Pointer, error)
	freePinned(unsafe.Pointer) error
	register(p unsafe.Pointer, bytes int64) error
	unregister(p unsafe.Pointer) error
	// mapped returns the device's address of pinned memory.
	mapped(p unsafe.Pointer) (address uint64, err error)

	newStream() (handle, error)
	dropStream(s handle) error
	syncStream(s handle) error
	waitFor(s, event handle) error
	newEvent() (handle, error)
	dropEvent(e handle) error
	record(e, s handle) error
	done(e handle) (bool, error)
	syncEvent(e handle) error
	milliseconds(from, to handle) (float64, error)

	copyIn(to uint64, from unsafe.Pointer, bytes int64, s handle) error
	copyOut(to unsafe.Pointer, from uint64, bytes int64, s handle) error
	copyWithin(to, from uint64, bytes int64, s handle) error
	set(to uint64, value byte, bytes int64, s handle) error

	loadModule(image []byte) (handle, error)
	unloadModule(m handle) error
	function(m handle, name string) (handle, error)
	// launch passes every parameter as an argument of eight bytes. The driver takes its low bytes, up to
	// the parameter's size.
	launch(f handle, grid, block Dims, s handle, args []uint64) error

	beginCapture(s handle) error
	endCapture(s handle) (graph handle, err error)
	instantiate(graph handle) (exec handle, err error)
	update(exec, graph handle) error
	dropGraph(graph handle) error
	dropExec(exec handle) error
	launchGraph(exec, s handle) error

	// blasWorkspace is a size for the workspace of newBLAS that suits all products, in bytes.
	blasWorkspace() int64
	newBLAS(s handle, workspace uint64, bytes int64) (handle, error)
	dropBLAS(b handle) error
	sgemm(b handle, g *gemm) error
	// blasVersion returns the version and the file of the library.
	blasVersion(b handle) string
}

// gemm is one product in cuBLAS's terms: column-major.
type gemm struct {
	transA, transB bool
	m, n, k        int
	alpha, beta    float32
	a, b, c        uint64
	lda, ldb, ldc  int
	precision      Precision

	// For a batch: the number of products, and the strides between their matrices, in elements.
	count               int
	nextA, nextB, nextC int
}

// status is the driver's error code with its text.
type status struct {
	call        string
	why         string
	outOfMemory bool
	lost        bool // nothing works any more
}

func (s *status) Error() string { return s.call + ": " + s.why }
