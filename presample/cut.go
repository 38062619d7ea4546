package presample

import (
	"diskgnn/presample/mbfile"
	"diskgnn/presample/sampler"
)

// Files of batches are made durable one by one, each while the next is written.
// They are large enough for that to cost nothing, small enough that the last one
// is no long wait and that an interrupted run repeats little.
const (
	fileBytes    = 128 << 20 // about
	leastPerFile = 16
	mostPerFile  = 4096
)

// batchesPerFile returns where files are cut. It decides bytes, so it may depend
// on nothing but the graph's counts and the parameters: it reckons with batches
// over a graph whose nodes all have the average degree.
func batchesPerFile(nodes, edges int64, p mbfile.Params) int {
	average := int(max(edges/nodes, 1))
	fanout := make([]int, len(p.Fanout))
	for l, f := range p.Fanout {
		if fanout[l] = f; f == mbfile.AllNeighbours || f > average {
			fanout[l] = average
		}
	}
	x := sampler.Bound(nodes, edges, p.BatchSize, fanout)
	return int(min(max(fileBytes/(8*x.Nodes+4*x.Edges), leastPerFile), mostPerFile))
}
