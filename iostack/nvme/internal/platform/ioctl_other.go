//go:build !linux

package platform

import (
	"errors"
	"unsafe"
)

// Kernel has no modules on this system: all its calls fail.
var Kernel System = none{}

type none struct{}

func (none) Open(string) (int, error)                         { return -1, errors.ErrUnsupported }
func (none) Close(int) error                                  { return errors.ErrUnsupported }
func (none) Control(int, uint32, unsafe.Pointer) (int, error) { return -1, errors.ErrUnsupported }
func (none) Map(int, int) ([]byte, error)                     { return nil, errors.ErrUnsupported }
func (none) Huge(int) ([]byte, error)                         { return nil, errors.ErrUnsupported }
func (none) Unmap([]byte) error                               { return errors.ErrUnsupported }
func (none) Memory(int) (int, error)                          { return -1, errors.ErrUnsupported }
func (none) Duplicate(int) (int, error)                       { return -1, errors.ErrUnsupported }
