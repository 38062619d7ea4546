package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"diskgnn/bench/internal/tool"
)

// TestComparesExactScores: peers evaluate from all neighbours, and so is what is compared
// with them.
func TestComparesExactScores(t *testing.T) {
	name := filepath.Join(t.TempDir(), "peers")
	lines := `{"peer": "graphbolt", "dataset": "fb100", "model": "sage", "test_mean": 0.74, "test_sd": 0.003, "runs": [{}, {}, {}]}
{"peer": "graphbolt", "dataset": "amazon-computers", "model": "gat", "test_mean": 0.9, "test_sd": null, "runs": [{}]}
`
	if err := os.WriteFile(name, []byte(lines), 0o666); err != nil {
		t.Fatal(err)
	}
	peers, err := readPeers(name)
	if err != nil || len(peers) != 2 || peers["fb100-sage"] != (score{"graphbolt", 74, 0.3, 3}) || peers["computers-gat"] != (score{"graphbolt", 90, 0, 1}) {
		t.Fatalf("%+v, %v", peers, err)
	}
	b := bench{exact: true, peers: peers}
	var runs []run
	for _, exact := range []float64{0.72, 0.73, 0.74} {
		runs = append(runs, run{training: tool.Training{TestAccuracy: 0.6, Epochs: []tool.Epoch{{}}}, exact: exact})
	}
	r := b.sum("fb100-sage", runs)
	if want := 2 * math.Sqrt(1./3+0.3*0.3/3); math.Abs(*r.Difference+1) > 1e-9 || math.Abs(*r.TwoSE-want) > 1e-9 {
		t.Errorf("%v ± %v, want −1 ± %v", *r.Difference, *r.TwoSE, want)
	}
}
