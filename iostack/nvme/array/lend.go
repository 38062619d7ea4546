package array

import (
	"fmt"

	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/internal/frontend"
	"diskgnn/iostack/nvme"
)

// Lent returns the number of drives, the number of queues that each can lend to a GPU, the entries of such
// a queue, and the largest transfer of a command in bytes. If a drive cannot lend queues, the error is of
// kind fault.ErrUsage.
func (s *Stack) Lent() (drives, queues, depth, most int, err error) {
	for i, d := range s.drives {
		if m, ok := d.c.Transport().(interface{ PlainMemory() bool }); !ok || !m.PlainMemory() {
			return 0, 0, 0, 0, fault.New(fault.ErrUsage, "a GPU cannot write the doorbells of %s", d.name)
		}
		d.mu.Lock()
		all := d.c.Queues()
		d.mu.Unlock()
		if len(all) <= s.own {
			return 0, 0, 0, 0, fault.New(fault.ErrUsage, "%s has %d queues, all of which the host uses", d.name, len(all))
		}
		if i == 0 {
			queues, depth, most = len(all)-s.own, all[s.own].Depth(), d.transfer
		}
		queues, depth, most = min(queues, len(all)-s.own), min(depth, all[s.own].Depth()), min(most, d.transfer)
	}
	return len(s.drives), queues, depth, most, nil
}

// Has returns nil if the file at path is on the drives, else the reason why not.
func (s *Stack) Has(path string) error {
	_, err := s.table.Find(path)
	return err
}

// Lend returns the controllers, and the number of queues of each, from the first, that the stack keeps. The
// other queues belong to the caller until the stack is closed. The caller must not stop, reset or close a
// controller. After Lend the stack does not reset a failing controller: it gives up the drive.
func (s *Stack) Lend() (controllers []*nvme.Controller, own int, err error) {
	if _, _, _, _, err := s.Lent(); err != nil {
		return nil, 0, err
	}
	for _, d := range s.drives {
		d.lent.Store(true)
		controllers = append(controllers, d.c)
	}
	return controllers, s.own, nil
}

// Locate returns the place of the byte at an offset of a file of the stack; see File.Locate. A striped file
// is an error.
func (s *Stack) Locate(f iostack.File, offset int64) (drive int, at, n int64, err error) {
	media, err := s.media(f)
	if err != nil {
		return 0, 0, 0, err
	}
	if offset < 0 || offset >= media.Size() {
		return 0, 0, 0, fault.New(fault.ErrUsage, "byte %d is not in %s, which has %d bytes", offset, f.Name(), media.Size())
	}
	drive, at, n = media.Locate(offset)
	return drive, at, n, nil
}

func (s *Stack) media(f iostack.File) (File, error) {
	mine, ok := f.(*frontend.File)
	if !ok || !s.Owns(f) {
		return nil, fmt.Errorf("%s: %w", f.Name(), iostack.ErrElsewhere)
	}
	media, ok := mine.Media.(File)
	if !ok {
		return nil, fault.New(fault.ErrUsage, "%s is striped: only its parts can be located", f.Name())
	}
	return media, nil
}
