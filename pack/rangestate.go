package pack

import (
	"encoding/binary"
	"errors"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/stage"
	"diskgnn/internal/vfs"
	"diskgnn/pack/internal/rowfile"
)

// rangeState is a resumed packing's record of the chunks already written: all rows below Next are
// durable.
type rangeState struct {
	Next int64
	// Running is the CRC of the unfinished granule of every (batch, band).
	Running []uint32
	// Sums are the finished checksums of every batch, by its place in the index.
	Sums []uint32
	// SSD are, by group, the CRC-32C of the checksums of the pages of the SSD level, with
	// zeros for the rows from Next on. None without that level.
	SSD []uint32
}

func (s *rangeState) clone() rangeState {
	return rangeState{s.Next, slices.Clone(s.Running), slices.Clone(s.Sums), slices.Clone(s.SSD)}
}

// encode returns the content of the scratch file.
func (s *rangeState) encode() []byte {
	b := make([]byte, 0, 8+3*4+4*(len(s.Running)+len(s.Sums)+len(s.SSD))+4)
	b = binary.LittleEndian.AppendUint64(b, uint64(s.Next))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.Running)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.Sums)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(s.SSD)))
	for _, list := range [][]uint32{s.Running, s.Sums, s.SSD} {
		b = append(b, binio.Bytes(list)...)
	}
	return binary.LittleEndian.AppendUint32(b, binio.CRC(b))
}

func (s *rangeState) decode(b []byte) error {
	if len(b) < 24 || binio.CRC(b[:len(b)-4]) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return fault.New(fault.ErrCorrupt, "it does not match its checksum")
	}
	d := binio.NewDecoder(b[:len(b)-4])
	s.Next = int64(d.U64())
	running, sums, ssd := d.Count(4), d.Count(4), d.Count(4)
	s.Running, s.Sums, s.SSD = d.Uints(nil, running, 4), d.Uints(nil, sums, 4), d.Uints(nil, ssd, 4)
	return d.Err()
}

// load reads the state of an interrupted run. It stays empty if there is none. running, sums and ssd are
// the expected lengths of the lists.
func (s *rangeState) load(fsys vfs.FS, name string, running, sums, ssd int) error {
	ok, err := vfs.Exists(fsys, name)
	if err != nil || !ok {
		return err
	}
	b, err := vfs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	if err := s.decode(b); err != nil {
		return touched(name, err)
	}
	if len(s.Running) != running || len(s.Sums) != sums || len(s.SSD) != ssd {
		return touched(name, errors.New("it belongs to another packing"))
	}
	return nil
}

// saver makes each range durable while the next one is packed: sync, then the
// state as it was at the range's end. At most one save is under way.
type saver struct {
	dir   *stage.Dir
	files *rowfile.Set
	done  chan error
}

// begin starts to make the files durable, and then their state, which must not change any more.
func (s *saver) begin(state rangeState, files []*rowfile.File) {
	s.done = make(chan error, 1)
	go func() {
		defer fault.Crash()
		err := s.files.Sync(files)
		if err == nil {
			err = vfs.ReplaceFile(s.dir.FS(), s.dir.File(stateFile), state.encode())
		}
		s.done <- err
	}()
}

// join waits for the save under way and returns the first error.
func (s *saver) join(err error) error {
	if s.done == nil {
		return err
	}
	saved := <-s.done
	s.done = nil
	if err == nil {
		return saved
	}
	return err
}
