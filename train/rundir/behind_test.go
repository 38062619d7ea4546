package rundir

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// TestLater: writes end in their order, while the caller goes on. After one that fails none is performed
// until Wait has returned its error.
func TestLater(t *testing.T) {
	var d Dir
	if d.Failed() || d.Wait() != nil {
		t.Error("nothing was written")
	}
	var done []string
	broken := errors.New("broken")
	write := func(name string, until <-chan struct{}, err error) {
		d.Later(func() error {
			if until != nil {
				<-until
			}
			done = append(done, name)
			return err
		})
	}
	released := make(chan struct{})
	write("0", released, nil)
	for i := 1; i < 20; i++ {
		write(fmt.Sprint(i), nil, nil)
	}
	close(released) // after Later has returned for all
	if err := d.Wait(); err != nil || len(done) != 20 || !slices.IsSortedFunc(done, func(a, b string) int { return len(a) - len(b) }) || done[19] != "19" || done[3] != "3" {
		t.Errorf("%v: %v", done, err)
	}
	done = nil
	write("fails", nil, broken)
	write("next", nil, nil)
	<-d.latest
	if !d.Failed() {
		t.Error("the failure is not seen")
	}
	if err := d.Wait(); err != broken || !slices.Equal(done, []string{"fails"}) {
		t.Errorf("%v: %v", done, err)
	}
	write("again", nil, nil)
	if err := d.Wait(); err != nil || d.Failed() || done[1] != "again" {
		t.Errorf("%v: %v", done, err)
	}
}
