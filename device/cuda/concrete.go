package cuda

import "diskgnn/device"

// DeviceOf returns the device behind the interface, nil for nil. All implementations are types of this package:
// for another one it panics.
func DeviceOf(g device.GPU) *Device { return concrete[*Device](g) }

// StreamOf returns the stream behind the interface, as DeviceOf does.
func StreamOf(s device.Stream) *Stream { return concrete[*Stream](s) }

// SpanOf returns the span behind the interface, as DeviceOf does.
func SpanOf(s device.Span) *Span { return concrete[*Span](s) }

func concrete[T *Device | *Stream | *Span](v any) T {
	if v == nil {
		return nil
	}
	return v.(T)
}
