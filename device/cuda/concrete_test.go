package cuda

import (
	"testing"

	"diskgnn/device"
)

// TestConcrete: the interfaces of package device lead back to this package's types, nil to nil, and a type of
// another package is a programming error.
func TestConcrete(t *testing.T) {
	d, _ := openFake(t, Options{})
	s, _ := d.NewStream()
	defer s.Free()
	p, _ := d.NewSpan()
	defer p.Free()
	if DeviceOf(d) != d || StreamOf(s) != s || SpanOf(p) != p || DeviceOf(nil) != nil || StreamOf(nil) != nil || SpanOf(nil) != nil {
		t.Error("another object")
	}
	if n := testing.AllocsPerRun(10, func() { _ = StreamOf(device.Stream(s)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	defer func() {
		if recover() == nil {
			t.Error("a stream of another package is taken")
		}
	}()
	StreamOf(struct{ device.Stream }{s})
}
