package cufile

// library is the part of libcufile that this package needs. Its errors are statuses. All of its
// methods may be called from any thread that a device is bound to.
type library interface {
	// forbidCompatibility makes the library fail rather than read through host memory,
	// and reports whether it can. It comes before open.
	forbidCompatibility() (bool, error)
	// open opens the library's driver, once for the process.
	open() error
	properties() (properties, error)

	register(fd int) (handle uintptr, err error)
	deregister(handle uintptr)
	pin(address uint64, bytes int64) error
	unpin(address uint64) error
	// read reads bytes of a file from an offset on into device memory, at bytes after base. base is
	// the begin of a pinned range or the destination itself.
	read(handle uintptr, base uint64, bytes int, offset, at int64) (int, error)

	// path is where the library was found.
	path() string
}

// properties are the library's driver's report about the kernel's side.
type properties struct {
	Major, Minor int    // of nvidia-fs; 0 if that is not loaded
	Status       uint32 // a bit for each way to a drive that is there
}

// peerToPeer is the bit of reads from NVMe drives that need no nvidia-fs.
const peerToPeer = 1 << 11

// direct reports whether there is any way past host memory.
func (p properties) direct() bool { return p.Major > 0 || p.Status&peerToPeer != 0 }
