package soft

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
	"diskgnn/iostack/nvme"
	"diskgnn/iostack/nvme/spec"
)

// Options are the properties of a drive. The zero value means the defaults.
type Options struct {
	BlockBytes  int  // size of a block, 512 to 4096; 0: 512
	MaxEntries  int  // limit of the entries of a queue; 0: 4096
	Queues      int  // limit of the queue pairs for reads and writes; 0: 128
	StrideShift int  // DSTRD: the distance between doorbells is 4 << StrideShift bytes
	TransferMax uint // MDTS: the largest transfer is 2^TransferMax pages; 0: 5, which is 128 KiB
	Workers     int  // reads and writes at the same time; 0: 64
	ReadOnly    bool

	// Null makes all valid reads and writes succeed without a transfer, one after the other in the
	// controller's goroutine: only the cost of the rings remains.
	Null bool

	// Fate, if not nil, determines the outcome of each fetched I/O command. The controller's goroutine
	// calls it.
	Fate func(c *spec.Command) Fate
}

// Fate is the outcome of an I/O command. The zero value lets it succeed.
type Fate struct {
	Status spec.Status // unless Success, the command fails with it and is not carried out
	Drop   bool        // the command is carried out, and never completed
	Stuck  bool        // the command is carried out, and completed when it is aborted
	Hold   int         // the command is completed after this number of others of its queue
}

func (o *Options) defaults() {
	set := func(v *int, to int) {
		if *v == 0 {
			*v = to
		}
	}
	set(&o.BlockBytes, 512)
	set(&o.MaxEntries, 4096)
	set(&o.Queues, 128)
	set(&o.Workers, 64)
	if o.TransferMax == 0 {
		o.TransferMax = 5
	}
}

// Drive is an NVMe controller in software with a file as its namespace, and the transport to it. It
// implements nvme.Transport.
type Drive struct {
	name   string
	o      Options
	file   vfs.File
	blocks uint64
	bar    []byte
	bus    *bus
	media  *media                   // nil: workers read the file
	notify []atomic.Pointer[func()] // of each completion queue
	asleep atomic.Bool              // the controller waits
	wake   chan struct{}            // capacity 1
	polls  atomic.Bool              // the registers are mapped: doorbells may be rung without a call
	tick   *time.Timer

	mu     sync.Mutex
	memory map[*nvme.Memory]bool // true: of Alloc, which is unmapped
	stop   chan struct{}
	ended  chan struct{}
	closed bool
}

// Open makes a drive of the file at path. Its size must be a positive multiple of the block size; other
// sizes are an error of kind fault.ErrInput. The caller closes the drive.
func Open(fsys vfs.FS, path string, o Options) (*Drive, error) {
	o.defaults()
	info, err := fsys.Stat(path)
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size == 0 || size%int64(o.BlockBytes) != 0 {
		return nil, fault.New(fault.ErrInput, "%s has %d bytes: a drive must consist of whole blocks of %d bytes", path, size, o.BlockBytes)
	}
	open := fsys.OpenReadWrite
	if o.ReadOnly {
		open = fsys.Open
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	d := &Drive{
		name: "soft:" + path, o: o, file: f, blocks: uint64(size) / uint64(o.BlockBytes), bus: &bus{next: 1 << 20},
		notify: make([]atomic.Pointer[func()], o.Queues+1), wake: make(chan struct{}, 1), tick: time.NewTimer(time.Hour),
		memory: map[*nvme.Memory]bool{}, stop: make(chan struct{}), ended: make(chan struct{}),
	}
	need := spec.CompletionDoorbell(o.Queues, 4<<o.StrideShift) + 4
	if d.bar, err = pages(need); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if fsys == vfs.OS {
		if d.media, err = newMedia(path, o.Workers); err != nil {
			return nil, errors.Join(err, unix.Munmap(d.bar), f.Close())
		}
	}
	caps := spec.NewCapabilities(o.MaxEntries, 15, o.StrideShift)
	atomic.StoreUint64(d.word64(spec.CAP), uint64(caps))
	atomic.StoreUint32(d.word(spec.VS), 1<<16|4<<8)
	c := newController(d)
	go func() {
		defer fault.Crash()
		defer close(d.ended)
		c.run()
	}()
	return d, nil
}

// pages returns zeroed memory outside Go's heap.
func pages(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, (n+nvme.Page-1)/nvme.Page*nvme.Page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

// Name implements nvme.Transport.
func (d *Drive) Name() string { return d.name }

// Registers returns the memory of BAR 0, for a GPU that maps it. From then on the controller polls the
// doorbells.
func (d *Drive) Registers() []byte {
	d.polls.Store(true)
	d.kick()
	return d.bar
}

// PlainMemory returns true: the doorbells are ordinary memory, which a GPU may write.
func (d *Drive) PlainMemory() bool { return true }

// Notify implements nvme.Notifier.
func (d *Drive) Notify(queue int, f func()) {
	if f == nil {
		d.notify[queue].Store(nil)
		return
	}
	d.notify[queue].Store(&f)
}

// kick wakes the controller if it sleeps.
func (d *Drive) kick() {
	if d.asleep.CompareAndSwap(true, false) {
		select {
		case d.wake <- struct{}{}:
		default:
		}
	}
}

// rest waits until there may be work; step does the pending work.
func (d *Drive) rest(step func() bool) {
	d.asleep.Store(true)
	defer d.asleep.Store(false)
	if step() { // work from before asleep was set
		return
	}
	if d.polls.Load() {
		d.tick.Reset(20 * time.Microsecond)
	} else {
		d.tick.Reset(time.Second)
	}
	select {
	case <-d.wake:
	case <-d.stop:
	case <-d.tick.C:
	}
}

func (d *Drive) word(offset int) *uint32   { return (*uint32)(unsafe.Pointer(&d.bar[offset])) }
func (d *Drive) word64(offset int) *uint64 { return (*uint64)(unsafe.Pointer(&d.bar[offset])) }

// Load32 implements nvme.Transport.
func (d *Drive) Load32(offset int) uint32 { return atomic.LoadUint32(d.word(offset)) }

// Load64 implements nvme.Transport.
func (d *Drive) Load64(offset int) uint64 { return atomic.LoadUint64(d.word64(offset)) }

// Store32 implements nvme.Transport.
func (d *Drive) Store32(offset int, v uint32) {
	atomic.StoreUint32(d.word(offset), v)
	d.kick()
}

// Store64 implements nvme.Transport.
func (d *Drive) Store64(offset int, v uint64) {
	atomic.StoreUint64(d.word64(offset), v)
	d.kick()
}

// Alloc implements nvme.Transport.
func (d *Drive) Alloc(n int) (*nvme.Memory, error) {
	b, err := pages(n)
	if err != nil {
		return nil, fmt.Errorf("memory of %d bytes for %s: %w", n, d.name, err)
	}
	return d.keep(b, true), nil
}

// Map implements nvme.Transport, for any memory of whole pages.
func (d *Drive) Map(b []byte) (*nvme.Memory, error) {
	if len(b) == 0 || len(b)%nvme.Page != 0 || uintptr(unsafe.Pointer(&b[0]))%nvme.Page != 0 {
		return nil, fmt.Errorf("%w: %d bytes are not whole pages", nvme.ErrNoMapping, len(b))
	}
	if d.media != nil {
		_ = d.media.stack.Register(b) // a hint
	}
	return d.keep(b, false), nil
}

func (d *Drive) keep(b []byte, own bool) *nvme.Memory {
	m := d.bus.add(b)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memory[m] = own
	return m
}

// Free implements nvme.Transport.
func (d *Drive) Free(m *nvme.Memory) error {
	d.mu.Lock()
	own, known := d.memory[m]
	delete(d.memory, m)
	d.mu.Unlock()
	if !known {
		return fmt.Errorf("cannot free memory that %s did not allocate", d.name)
	}
	d.bus.remove(m)
	if own {
		return unix.Munmap(m.Bytes)
	}
	if d.media != nil {
		_ = d.media.stack.Unregister(m.Bytes)
	}
	return nil
}

// Close implements nvme.Transport.
func (d *Drive) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	close(d.stop)
	<-d.ended
	var errs []error
	for m := range d.memory {
		errs = append(errs, d.Free(m))
	}
	if d.media != nil {
		errs = append(errs, d.media.close())
	}
	return errors.Join(append(errs, unix.Munmap(d.bar), d.file.Close())...)
}

// Abandon implements nvme.Transport: nothing writes once the controller's goroutine has ended.
func (d *Drive) Abandon() error { return d.Close() }

// Held returns the bytes of memory that the drive holds: registers, memory from Alloc, and buffers
// for reads of the file.
func (d *Drive) Held() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := int64(len(d.bar))
	for m, own := range d.memory {
		if own {
			n += int64(len(m.Bytes))
		}
	}
	if d.media != nil {
		n += int64(len(d.media.ops)) * mediumBuffer
	}
	return n
}

// OpenFile is Open for a file of the operating system, for programs of other modules, which have no vfs.FS.
func OpenFile(path string, o Options) (*Drive, error) { return Open(vfs.OS, path, o) }
