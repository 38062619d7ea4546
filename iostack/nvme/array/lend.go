package array

import (
	"fmt"

	"diskgnn/internal/fault"
	"diskgnn/iostack"
	"diskgnn/iostack/internal/frontend"
	"diskgnn/iostack/nvme"
)

// Lent returns how many drives there are, how many queues each can lend to a GPU, of how many
// entries, and the most bytes of a command.
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

// Has returns nil if a file is on the drives, else the reason.
func (s *Stack) Has(path string) error {
	_, err := s.table.Find(path)
	return err
}

// Lend returns the controllers, and how many of the first queues of each are the stack's own: the
// others belong to the caller from now on, as long as the stack is open. Both use their queues side
// by side. The caller must not stop, reset or close a controller. The stack does not reset a failing
// controller any more either: it gives up that drive.
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

// Locate returns where the bytes of a file of the stack's lie from an offset on; see
// File.Locate. A striped file is refused: its parts are files.
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
