package commands

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestRelabelledModel computes one model on a graph under other numbers: by the source's numbers its
// logits are the same, within the order of sums. Weights stay what they were drawn as.
func TestRelabelledModel(t *testing.T) {
	t.Chdir(t.TempDir())
	do(t, "generate --out g --nodes 200 --avg-degree 5 --dim 4 --classes 3 --train-ratio 0.2")
	do(t, "export --dataset g --format graphbolt --out tree")
	var want [][]float64
	for _, order := range []string{"none", "degree", "bfs"} {
		do(t, "import --out d-"+order+" tree --relabel "+order)
		do(t, "presample --dataset d-"+order+" --out s-"+order+" --fanout 3,3")
		do(t, "train --dataset d-"+order+" --samples s-"+order+" --out r-"+order+" --epochs 1 --hidden 4 --lr 1e-30")
		do(t, "predict --run r-"+order+" --dataset d-"+order+" --out "+order+".csv")
		got := make([][]float64, 200)
		moved := 0
		b, err := os.ReadFile(order + ".csv")
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		for i, line := range lines[1:] {
			fields := strings.Split(line, ",")
			v, err := strconv.Atoi(fields[0])
			if err != nil || got[v] != nil {
				t.Fatalf("%s: %q, %v", order, line, err)
			}
			if v != i {
				moved++
			}
			for _, f := range fields[1:] {
				x, err := strconv.ParseFloat(f, 64)
				if err != nil {
					t.Fatal(err)
				}
				got[v] = append(got[v], x)
			}
		}
		if want == nil {
			want = got
			continue
		}
		if moved < 100 {
			t.Errorf("%s: %d nodes have other numbers", order, moved)
		}
		for v := range want {
			for c, x := range want[v] {
				if math.Abs(got[v][c]-x) > 1e-5*(1+math.Abs(x)) {
					t.Fatalf("%s: node %d: %v instead of %v", order, v, got[v], want[v])
				}
			}
		}
	}
}
