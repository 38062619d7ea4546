package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
)

// score is another program's score: mean and standard deviation over a number of seeds, in percent.
type score struct {
	Peer  string  `json:"peer"`
	Mean  float64 `json:"mean"`
	SD    float64 `json:"sd"`
	Seeds int     `json:"seeds"`
}

func (s score) String() string { return fmt.Sprintf("%s, %.4g ± %.2g", s.Peer, s.Mean, s.SD) }

const pyg = "PyTorch Geometric"

// known has the scores of PyTorch Geometric, sampled in memory, with the protocol of the example.
var known = map[string]score{
	"computers-sage": {pyg, 91.74, 0.41, 3}, "computers-gcn": {pyg, 90.29, 0.42, 3}, "computers-gat": {pyg, 91.47, 0.64, 3},
	"tolokers-sage": {pyg, 82.07, 0.35, 3}, "tolokers-gcn": {pyg, 75.35, 0.13, 3}, "tolokers-gat": {pyg, 75.29, 1.08, 3},
	"physics-sage": {pyg, 97.12, 0, 1},
}

// published are scores of tuned full-batch training (Luo et al., NeurIPS 2024; tolokers: Platonov
// et al., ICLR 2023).
var published = map[string]float64{
	"computers-sage": 93.25, "computers-gcn": 93.99, "computers-gat": 94.09,
	"tolokers-sage": 82.43, "tolokers-gcn": 83.64, "tolokers-gat": 83.70,
	"physics-sage": 97.19, "physics-gcn": 97.46, "physics-gat": 97.25,
}

// readPeers reads the output of peers.sh, by the names of the examples.
func readPeers(name string) (map[string]score, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	all := make(map[string]score)
	for line := range bytes.Lines(text) {
		var r struct {
			Peer, Dataset, Model string
			Mean                 float64  `json:"test_mean"`
			SD                   *float64 `json:"test_sd"`
			Runs                 []any
		}
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		graph := r.Dataset
		for ours, source := range sources {
			if strings.TrimSuffix(source, ".npz") == graph {
				graph = ours
			}
		}
		s := score{Peer: r.Peer, Mean: 100 * r.Mean, Seeds: len(r.Runs)}
		if r.SD != nil {
			s.SD = 100 * *r.SD
		}
		all[graph+"-"+r.Model] = s
	}
	return all, nil
}

// beside compares the scores of an example with other programs' scores: the exact scores if any were
// measured, else the test scores.
func (b *accuracy) beside(example string, test, exact []float64) (r row) {
	if v, ok := published[strings.TrimSuffix(example, tuning)]; ok {
		r = append(r, field{"published", v})
	}
	peer, ok := b.peers[example]
	if !ok || len(test) == 0 {
		return r
	}
	own := scoresOf(test)
	if len(exact) > 0 {
		own = scoresOf(exact)
	}
	// One seed has no standard deviation: the other side's is used for both.
	sd, peerSD := cmp.Or(own.SD, peer.SD), cmp.Or(peer.SD, own.SD)
	two := 2 * math.Sqrt(sd*sd/float64(len(test))+peerSD*peerSD/float64(peer.Seeds))
	return append(r, field{"peer", peer}, field{"difference_points", own.Mean - peer.Mean}, field{"two_standard_errors", two})
}
