package nvme

import (
	"fmt"
	"runtime"
	"time"

	"diskgnn/iostack/nvme/spec"
)

// Disable clears CC.EN of a transport's controller and waits until it is not ready, as long
// as the controller says that it may take. Transports call it in Close before they give
// memory back: until then the controller may still write to it. After an error, which wraps
// ErrTimeout, that memory must stay. A controller whose registers read as ones is not there
// any more, and writes nothing. now is the clock; nil: the machine's.
func Disable(t Transport, now func() time.Time) error {
	if now == nil {
		now = time.Now
	}
	t.Store32(spec.CC, t.Load32(spec.CC)&^spec.Enable)
	limit := time.Duration(max(1, spec.Capabilities(t.Load64(spec.CAP)).Timeout())) * 500 * time.Millisecond
	for deadline := now().Add(limit); ; {
		status := t.Load32(spec.CSTS)
		switch {
		case status&spec.Ready == 0 || status == ^uint32(0):
			return nil
		case now().After(deadline):
			return fmt.Errorf("disable %s: %w: CSTS %08xh after %v", t.Name(), ErrTimeout, status, limit)
		}
		runtime.Gosched()
	}
}
