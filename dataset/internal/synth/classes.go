package synth

import "diskgnn/internal/rng"

const (
	// mostCompanions is how many classes a label has for companions, at most.
	mostCompanions = 3
	// companionShare is how often a node has a companion of its label.
	companionShare = 0.85
	// strayShare is how often a node has one more class, which neither its label nor its
	// neighbours predict.
	strayShare = 0.1
)

// Classes calls add with the classes of a node of a multi-label graph, of which some
// may come twice.
func (m *Model) Classes(v uint32, add func(class int32)) {
	label := m.Label(v)
	add(label)
	src := rng.New(rng.Key(m.p.Seed, keyClasses, uint64(v)))
	of := rng.New(rng.Key(m.p.Seed, keyCompanions, uint64(label)))
	k := uint32(m.p.Classes)
	for range 1 + of.Uint32n(mostCompanions) {
		c := of.Uint32n(k)
		if src.Float64() < companionShare {
			add(int32(c))
		}
	}
	if src.Float64() < strayShare {
		add(int32(src.Uint32n(k)))
	}
}
