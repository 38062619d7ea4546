// Command order measures what the order of batches is worth: how many input nodes
// an epoch needs, how many of them a batch shares with the one before, and what
// caches of several sizes would find.
//
//	go run ./bench/order -cache 5,10,20 SAMPLES...
//
// Each directory of samples is a line of JSON.
package main

import (
	"context"
	"flag"
	"log"
	"strconv"
	"strings"

	"diskgnn/bench/internal/tool"
	"diskgnn/graph"
	"diskgnn/internal/vfs"
	"diskgnn/presample/mbfile"
)

type result struct {
	Samples string `json:"samples"`
	Order   string `json:"order"`
	Batches int    `json:"batches"`
	Nodes   int64  `json:"nodes"`
	// InputNodes are those of an epoch's batches, added up: of each the distinct ones.
	InputNodes int64 `json:"input_nodes_per_epoch"`
	// Overlap is the mean share of a batch's input nodes that the batch before
	// it needs too.
	Overlap float64 `json:"overlap"`
	// Segments are the rows that segments of so many batches would store, over
	// those that single batches store.
	Segments map[string]float64 `json:"segments"`
	Caches   []cache            `json:"caches"`
}

// cache is what caches of one size would find, as shares of all input nodes, and
// the rows that they would leave to be read.
type cache struct {
	Percent    float64 `json:"percent"`
	Static     float64 `json:"static_hits"`
	LRU        float64 `json:"lru_hits"`
	Min        float64 `json:"min_hits"`
	StaticRows int64   `json:"static_rows_per_epoch"`
	MinRows    int64   `json:"min_rows_per_epoch"`
}

func main() {
	log.SetFlags(0)
	shares := flag.String("cache", "5,10,20", "caches, in percents of the nodes")
	flag.Parse()
	var percents []float64
	for s := range strings.SplitSeq(*shares, ",") {
		p, err := strconv.ParseFloat(s, 64)
		if err != nil || !(p > 0 && p <= 100) {
			log.Fatalf("-cache %s: percents of the nodes, like 5,10,20", *shares)
		}
		percents = append(percents, p)
	}
	for _, dir := range flag.Args() {
		r, err := measure(dir, percents)
		if err != nil {
			log.Fatal(err)
		}
		if err := tool.Print(r); err != nil {
			log.Fatal(err)
		}
	}
}

func measure(dir string, percents []float64) (result, error) {
	r, err := mbfile.Open(vfs.OS, dir)
	if err != nil {
		return result{}, err
	}
	defer r.Close()
	f := r.Facts()
	t, err := load(r)
	if err != nil {
		return result{}, err
	}
	epochs := int64(f.Epochs)
	res := result{
		Samples: dir, Order: r.Params().Order, Batches: f.TrainBatches, Nodes: f.Nodes,
		InputNodes: t.total() / epochs, Overlap: t.overlap(), Segments: map[string]float64{},
	}
	for _, n := range []int{4, 16} {
		res.Segments[strconv.Itoa(n)] = float64(t.distinct(n)) / float64(t.total())
	}
	for _, p := range percents {
		size := int(p / 100 * float64(f.Nodes))
		static, lru, best := t.static(size), t.replace(size, recent), t.replace(size, soonest)
		all := float64(t.total())
		res.Caches = append(res.Caches, cache{p, float64(static) / all, float64(lru) / all, float64(best) / all,
			(t.total() - static) / epochs, (t.total() - best) / epochs})
	}
	return res, nil
}

// load reads the input nodes of all training batches, in the order of visiting.
func load(r *mbfile.Reader) (*trace, error) {
	t := &trace{nodes: int(r.Facts().Nodes)}
	var b graph.Batch
	var buf []byte
	lo, hi := r.Train()
	for i := lo; i < hi; i++ {
		var err error
		if buf, err = r.Read(context.Background(), i, buf, &b); err != nil {
			return nil, err
		}
		t.batches = append(t.batches, append([]uint32(nil), b.Input...))
	}
	return t, nil
}
