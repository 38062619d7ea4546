package cuda

import (
	"fmt"
	"slices"
)

// Code has the compiled kernels that a device loads when it is opened.
type Code struct {
	// Functions are the kernels. Launch.Run takes their indices here.
	Functions []Function
	// Image returns the bytes of a compiled file, given its name in Function.File.
	Image func(file string) ([]byte, error)
}

// Function names a kernel of a compiled file.
type Function struct{ File, Name string }

// Load loads further code and returns the index of each of its functions, for Launch.Run. A function of the
// same file and name is loaded only once. The calling goroutine must be attached, and no other goroutine
// may use the device during the call.
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

// Launch builds a launch of a kernel: arguments are added in the order of the kernel's parameters, and Run
// enqueues the launch. Run returns the error of the first wrong argument. A stream has one unfinished
// Launch at a time.
type Launch struct {
	stream *Stream
	what   string
	err    error
}

// Launch begins a launch on the stream. Errors name the launch with the given text.
func (s *Stream) Launch(what string) Launch {
	s.args = s.args[:0]
	return Launch{s, what, s.device.usable()}
}

// Stream returns the stream of the launch.
func (l *Launch) Stream() *Stream { return l.stream }

// Fail records an error in the arguments, with the launch's name before it. Run returns the first one.
func (l *Launch) Fail(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf("cuda: "+l.what+": "+format, args...)
	}
}

// Buffer adds a pointer to b. A buffer of fewer than the given bytes is an error, which calls it name.
func (l *Launch) Buffer(name string, b Buffer, bytes int64) {
	if l.err == nil {
		l.err = needs(l.what, name, b, bytes)
	}
	l.Word(b.Address())
}

// Optional is Buffer for an optional argument: the zero Buffer adds a null pointer.
func (l *Launch) Optional(name string, b Buffer, bytes int64) {
	if b == (Buffer{}) {
		bytes = 0
	}
	l.Buffer(name, b, bytes)
}

// Int adds a signed integer.
func (l *Launch) Int(n int) { l.Word(uint64(n)) }

// Bool adds 1 for true, 0 for false.
func (l *Launch) Bool(b bool) {
	if b {
		l.Word(1)
	} else {
		l.Word(0)
	}
}

// Word adds an argument of eight bytes. A smaller parameter takes the low bytes.
func (l *Launch) Word(w uint64) { l.stream.args = append(l.stream.args, w) }

// Run enqueues the launch of a function, an index in Code.Functions or from Device.Load, with the given
// grid and block. An empty grid enqueues nothing.
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
