// Command topology samples and trains on a graph whose topology is twice --memory, mapped and
// cached, and compares the orders by which neighbours are held.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"path/filepath"

	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

func main() {
	orders := flag.Bool("orders", false, "compare orders on the datasets that are named")
	fanout := flag.String("fanout", "10,10", "neighbours to draw")
	batch := flag.Int("batch-size", 512, "seed nodes of a batch")
	method := flag.String("sampler", "uniform", "uniform or labor")
	flag.Parse()
	_ = os.Args
	if *orders {
		p := mbfile.Params{BatchSize: *batch, Epochs: 2, TrainRatio: 1, Order: sampler.Random}
		var err error
		if p.Fanout, err = sampler.ParseFanout(*fanout); err != nil {
			log.Fatal(err)
		}
		p.EvalFanout = p.Fanout
		if *method == mbfile.Labor {
			p.Method = mbfile.Labor
		}
		for _, dir := range flag.Args() {
			if err := compareOrders(context.Background(), filepath.Base(dir), dir, p); err != nil {
				log.Fatal(err)
			}
		}
	}
}
