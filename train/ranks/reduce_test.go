package ranks

import (
	"errors"
	"testing"

	"diskgnn/internal/fault"
	"diskgnn/train/collective"
	"diskgnn/train/decide"
)

// TestChoose: all ranks come to the same sum, or end together where it is refused.
func TestChoose(t *testing.T) {
	none, broken := errors.New("no library"), errors.New("broken")
	for name, c := range map[string]struct {
		wanted, engine string
		without        int // the rank that has no library; -1: all have it
		id             error
		by, why        string
		refused        string
		asked          bool // what is available
	}{
		"on the host":        {wanted: decide.ReduceHost, engine: decide.EngineGPU, without: -1, why: "--reduce host"},
		"by the CPU":         {wanted: decide.ReduceAuto, engine: decide.EngineCPU, without: -1, why: "the engine is cpu"},
		"on devices":         {wanted: decide.ReduceAuto, engine: decide.EngineGPU, without: -1, by: "library 2", asked: true},
		"on any devices":     {wanted: decide.ReduceAuto, engine: decide.EngineAuto, without: -1, by: "library 2", asked: true},
		"one lacks it":       {wanted: decide.ReduceAuto, engine: decide.EngineAuto, without: 1, why: "rank 1: no library", asked: true},
		"wanted":             {wanted: decide.ReduceNCCL, engine: decide.EngineGPU, without: -1, by: "library 2", asked: true},
		"wanted, impossible": {wanted: decide.ReduceNCCL, engine: decide.EngineGPU, without: 0, refused: "--reduce nccl: no library", why: "no library", asked: true},
		"no communicator":    {wanted: decide.ReduceAuto, engine: decide.EngineGPU, without: -1, id: broken, asked: true},
	} {
		together(2, func(g *collective.Group) {
			asked := false
			on := Reducing{
				Available: func() (string, error) {
					if asked = true; g.Rank() == c.without {
						return "", none
					}
					return "library 2", nil
				},
				ID: func() ([]byte, error) {
					if g.Rank() > 0 {
						t.Errorf("%s: rank %d names the communicator", name, g.Rank())
					}
					return []byte{1, 2}, c.id
				},
			}
			by, err := on.Choose(g, c.wanted, c.engine)
			if asked != c.asked {
				t.Errorf("%s: rank %d asked: %t", name, g.Rank(), asked)
			}
			switch {
			case c.id != nil:
				if g.Rank() == 0 {
					if !errors.Is(err, broken) {
						t.Errorf("%s: %v", name, err)
					}
					g.Fail(err)
				} else if _, lost := errors.AsType[*collective.Lost](err); !lost {
					t.Errorf("%s: %v", name, err)
				}
			case c.refused != "":
				if !errors.Is(err, ErrAgreed) || !errors.Is(err, fault.ErrUsage) || err.Error() != c.refused {
					t.Errorf("%s: rank %d: %v", name, g.Rank(), err)
				}
			case err != nil || by.By != c.by || by.Why != c.why || (len(by.ID) == 2) != (c.by != ""):
				t.Errorf("%s: rank %d: %+v, %v", name, g.Rank(), by, err)
			}
		})
	}
}
