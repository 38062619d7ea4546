// Package cufile reads files into a GPU's memory with NVIDIA's libcufile (GPUDirect Storage): the drive
// writes there directly, without host memory, or, in the library's compatibility mode, through the
// library's buffers in host memory. Probe finds the mode of a machine, or the reason why neither works.
//
// The library is loaded at run time, by builds with the tag gpu. Other builds, and machines without it,
// return the reason as an error. The library can crash or hang the process that loads it, so Open first
// lets a child process try (see Probe).
//
// Requests for host memory are plain preads, as package pread makes them: the library is no faster for
// them, and a read into the device with a copy back would cross the bus twice. Requests for device memory
// go to the library unchanged, and the library handles partial pages. If the memory is registered, and file
// offset, length and address are multiples of 4096, it needs no buffer in between.
//
// The library reads its settings from cufile.json, and on errors writes a cufile.log in the working
// directory (CUFILE_LOGFILE_PATH names another).
package cufile

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"diskgnn/device"
	"diskgnn/device/cuda"
	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/internal/frontend"
)

// Name is the backend's kind.
const Name = "cufile"

type front = frontend.Stack

// Stack implements iostack.Stack with libcufile. Each worker carries out one read at a time, and holds a
// bounce buffer for host memory, as in package pread. Reads into device memory go to the device of the
// stack.
type Stack struct {
	*front
	queue   *frontend.Queue
	library library
	device  *cuda.Device
	owned   bool         // the device is closed with the stack
	bounce  *device.Host // a buffer of BounceBytes for each worker
	pins    pins
	workers sync.WaitGroup
	ended   sync.Once
}

var _ iostack.Stack = (*Stack)(nil)

// start starts a stack on a library, which it opens if it is not open yet.
func start(d *cuda.Device, owned bool, l library, options iostack.Options) (_ *Stack, err error) {
	front, queue, err := frontend.New(Name, options)
	if err != nil {
		return nil, err
	}
	front.AcceptDevice()
	s := &Stack{front: front, queue: queue, library: l, device: d, owned: owned}
	front.OpenWith(s.open)
	if err := s.device.Attached(l.open); err != nil {
		return nil, fmt.Errorf("cufile: %w", err)
	}
	workers, each := front.Caps().Depth, front.BounceBytes()
	if s.bounce, err = device.NewHost(workers * each); err != nil {
		return nil, fmt.Errorf("cufile: bounce buffers: %w", err)
	}
	attached := make(chan error, workers)
	for i := range workers {
		s.workers.Go(func() {
			defer fault.Crash()
			s.work(s.bounce.Bytes()[i*each:(i+1)*each], attached)
		})
	}
	var errs []error
	for range workers {
		errs = append(errs, <-attached)
	}
	if err := errors.Join(errs...); err != nil {
		s.owned = false // the caller gets no stack
		s.Close()
		return nil, fmt.Errorf("cufile: %w", err)
	}
	return s, nil
}

// open opens a file and registers it with the library, which may refuse files of some file systems.
func (s *Stack) open(path string) (*frontend.File, error) {
	f, err := s.OpenFile(path)
	if err != nil {
		return nil, err
	}
	var handle uintptr
	err = s.device.Attached(func() (err error) {
		handle, err = s.library.register(f.Fd())
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cufile: open %s: %w", path, err), f.Close())
	}
	f.Slot = int(handle)
	f.OnClose = func() { s.library.deregister(handle) }
	return f, nil
}

// Register does nothing: pread needs no memory pinned.
func (s *Stack) Register(...[]byte) error { return nil }

// Unregister does nothing, as Register does.
func (s *Stack) Unregister(...[]byte) error { return nil }

// RegisterDevice pins device memory for the drive; see iostack.RegisterDevice. If the library cannot pin
// it, reads go through its buffers.
func (s *Stack) RegisterDevice(bufs ...cuda.Buffer) error {
	return s.device.Attached(func() error {
		var errs []error
		for _, b := range bufs {
			errs = append(errs, s.pins.add(b, s.library.pin))
		}
		return errors.Join(errs...)
	})
}

// UnregisterDevice unpins memory of RegisterDevice; see iostack.UnregisterDevice.
func (s *Stack) UnregisterDevice(bufs ...cuda.Buffer) error {
	return s.device.Attached(func() error {
		var errs []error
		for _, b := range bufs {
			errs = append(errs, s.pins.remove(b, s.library.unpin))
		}
		return errors.Join(errs...)
	})
}

// Close ends the workers once their reads are over; see iostack.Stack. The library's
// driver stays open: files may outlive their stack, and their handles need it.
func (s *Stack) Close() error {
	s.queue.Close()
	s.workers.Wait()
	var err error
	s.ended.Do(func() {
		s.bounce.Free()
		err = s.UnregisterDevice(s.pins.all()...)
		if s.owned {
			s.device.Close()
		}
	})
	return err
}

// work carries out reads until the queue is closed. It sends its error on attached, nil if it can work.
func (s *Stack) work(bounce []byte, attached chan<- error) {
	detach, err := s.device.Attach()
	attached <- err
	if err != nil {
		return
	}
	defer detach()
	var r frontend.Read
	for s.queue.Take(&r, bounce) {
		r.End(s.read(&r))
	}
}

func (s *Stack) read(r *frontend.Read) error {
	if to, _ := r.Device(); to.Bytes() == 0 {
		return r.Serve(unix.Pread)
	}
	for {
		to, offset := r.Device()
		base := s.pins.base(to)
		n, err := s.library.read(uintptr(r.File().Slot), base, int(to.Bytes()), offset, int64(to.Address()-base))
		switch {
		case err != nil:
			return r.Failed(err)
		case n < 0 || int64(n) > to.Bytes():
			return fault.New(fault.ErrDevice, "cuFileRead of %d bytes reports %d bytes read", to.Bytes(), n)
		}
		if done, err := r.Advance(n); done || err != nil {
			return err
		}
	}
}
