package cufile

// library is the part of libcufile that this package needs. Its errors are statuses. All methods may be
// called from any thread with a bound device.
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
	// read reads bytes of a file from an offset on into device memory, at bytes after base. base is the
	// start of a pinned range, or the destination itself.
	read(handle uintptr, base uint64, bytes int, offset, at int64) (int, error)

	// path returns the file of the library.
	path() string
}

// properties are the properties of the kernel driver, as the library reports them.
type properties struct {
	Major, Minor int    // version of nvidia-fs; 0 if it is not loaded
	Status       uint32 // a bit for each available way to a drive
}

// peerToPeer is the status bit for direct reads from NVMe drives without nvidia-fs.
const peerToPeer = 1 << 11

// direct reports whether any reads can bypass host memory.
func (p properties) direct() bool { return p.Major > 0 || p.Status&peerToPeer != 0 }
