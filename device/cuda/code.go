package cuda

import (
	"fmt"
	"slices"
)

// Code is compiled kernels, which a device loads when it is opened.
type Code struct {
	// Functions are the kernels. Launch.Run takes their indices here.
	Functions []Function
	// Image returns a compiled file, by its name.
	Image func(file string) ([]byte, error)
}

// Function is a kernel of a compiled file.
type Function struct{ File, Name string }

// Load loads more code than the device was opened with, and returns the indices of its
// functions for Launch.Run, in their order. Functions that were loaded before, by file and
// name, are not loaded again. The calling goroutine must be attached; nobody may use the
// device meanwhile.
func (d *Device) Load(c Code) ([]int, error) {
	missing := Code{Image: c.Image}
	for _, f := range c.Functions {
		if !slices.Contains(d.code, f) {
			missing.Functions = append(missing.Functions, f)
		}
	}
	if err := d.load(missing); err != nil {
		return nil, err
	}
	at := make([]int, len(c.Functions))
	for i, f := range c.Functions {
		at[i] = slices.Index(d.code, f)
	}
	return at, nil
}

// load finds every function in its file.
func (d *Device) load(c Code) error {
	modules := make(map[string]handle)
	for _, f := range c.Functions {
		m, ok := modules[f.File]
		if !ok {
			image, err := c.Image(f.File)
			if err != nil {
				return d.failed("load the kernels of "+f.File, err)
			}
			if m, err = d.driver.loadModule(image); err != nil {
				return d.failed("load the kernels of "+f.File, err)
			}
			modules[f.File] = m
			d.modules = append(d.modules, m)
		}
		h, err := d.driver.function(m, f.Name)
		if err != nil {
			return d.failed("find kernel "+f.Name, err)
		}
		d.functions, d.code = append(d.functions, h), append(d.code, f)
	}
	return nil
}

// Dims are the sizes of a grid or of a block, along x and y.
type Dims [2]uint32

// Launch is a launch of a kernel that is being made: its arguments are added in the order in which
// the kernel has them. Run returns an error for the first wrong argument. A stream makes one launch
// at a time.
type Launch struct {
	stream *Stream
	what   string
	err    error
}

// Launch begins a launch. Errors name the launch by it.
func (s *Stream) Launch(what string) Launch {
	s.args = s.args[:0]
	return Launch{s, what, s.device.usable()}
}

// Stream returns the stream that the launch is for.
func (l *Launch) Stream() *Stream { return l.stream }

// Fail records an error in the arguments; Run returns the first.
func (l *Launch) Fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf("cuda: "+l.what+": "+format, args...)
	}
}

// Buffer adds a pointer to a buffer of at least the given size in bytes.
func (l *Launch) Buffer(name string, b Buffer, bytes int64) {
	if l.err == nil {
		l.err = needs(l.what, name, b, bytes)
	}
	l.Word(b.address)
}

// Optional adds a pointer that may be null.
func (l *Launch) Optional(name string, b Buffer, bytes int64) {
	if b == (Buffer{}) {
		bytes = 0
	}
	l.Buffer(name, b, bytes)
}

// Int adds a signed number.
func (l *Launch) Int(n int) { l.Word(uint64(n)) }

// Bool adds 1 or 0.
func (l *Launch) Bool(b bool) {
	if b {
		l.Word(1)
	} else {
		l.Word(0)
	}
}

// Word adds eight bytes. The kernel takes the low bytes, up to its parameter's size.
func (l *Launch) Word(w uint64) { l.stream.args = append(l.stream.args, w) }

// Run gives the stream the launch of a function, which is an index of Code.Functions. There
// is nothing to do for an empty grid.
func (l *Launch) Run(function int, grid, block Dims) error {
	if l.err != nil || grid[0] == 0 || grid[1] == 0 {
		return l.err
	}
	s := l.stream
	if function < 0 || function >= len(s.device.functions) {
		return fmt.Errorf("cuda: %s: the device was opened without function %d of the code", l.what, function)
	}
	return s.asked(l.what, s.device.driver.launch(s.device.functions[function], grid, block, s.handle, s.args))
}
