package collective

import (
	"errors"
	"fmt"
	"testing"

	"diskgnn/internal/secret"
	"diskgnn/train/engine"
	"diskgnn/train/model"
)

// quietAdder is an engine that computes nothing.
type quietAdder struct{ engine.Engine }

func (quietAdder) Contribution([]float32) error { return nil }

func (quietAdder) ApplySum(*engine.Sum) error { return nil }

// BenchmarkStep is steps of two ranks with a batch each, over the loopback; the bytes are those that
// the ranks exchange.
func BenchmarkStep(b *testing.B) {
	common, err := secret.New("0123456789abcdef", "")
	if err != nil {
		b.Fatal(err)
	}
	for name, with := range map[string]secret.Secret{"open": {}, "secret": common} {
		for _, hidden := range []int{64, 1024} {
			l := (&model.Model{Kind: model.SAGE, Dims: []int{hidden, hidden, 64}}).Layout()
			b.Run(fmt.Sprintf("%s/%d-parameters", name, l.Count()), func(b *testing.B) {
				groups := join(b, 2, func(m *Member) { m.Secret, m.Limits = with, Usual })
				defer closeAll(groups)
				b.SetBytes(int64(2 * 4 * l.Count()))
				reductions := make([]*Ordered, 2)
				for i, g := range groups {
					reductions[i] = NewOrdered(g, &l, 2, 1)
				}
				b.ResetTimer()
				errs := each(groups, func(g *Group) error {
					e := new(quietAdder)
					for range b.N {
						err := reductions[g.Rank()].Add(e, 1)
						if err == nil {
							_, err = reductions[g.Rank()].Step(e, 0)
						}
						if err != nil {
							return err
						}
					}
					return nil
				})
				if err := errors.Join(errs...); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
