package topology

import (
	"errors"
	"strings"
	"testing"

	"diskgnn/dataset/datasettest"
	"diskgnn/graph"
	"diskgnn/internal/fault"
	"diskgnn/internal/progress"
	"diskgnn/presample/sampler"
)

// TestForeignNodes: a node id that is out of range is found where it is read, though the page
// has its checksum: here, since the topology is made to be that of the first 20 nodes.
func TestForeignNodes(t *testing.T) {
	raw := datasettest.Params{Nodes: 300, AvgDegree: 9}.Raw()
	d := datasettest.Create(t, t.TempDir(), raw)
	top, err := Open(t.Context(), d, Options{Level: Cached, IO: "pread"}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	c := top.(*cached)
	c.offsets = graph.NewOffsets(20)
	if err := c.offsets.Append(raw.Indptr[:21]); err != nil {
		t.Fatal(err)
	}
	_, _, err = top.Fill(t.Context(), Degree, 1<<20, progress.Discard)
	if !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "indices.bin: one of the edges ") || !strings.Contains(err.Error(), "the graph has 20 nodes") {
		t.Error(err)
	}
}

// TestHoldings: what a topology says that it holds is what its tables have room for.
func TestHoldings(t *testing.T) {
	raw := datasettest.Params{Nodes: 1300, AvgDegree: 9}.Raw()
	d := datasettest.Create(t, t.TempDir(), raw)
	top, err := Open(t.Context(), d, Options{Level: Cached, IO: "pread"}, progress.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	c := top.(*cached)
	if want := int64(4*1301+4*len(c.sums.CRC)) + StackBytes; top.Bytes() != want || top.HostBytes() != StackBytes {
		t.Errorf("%d bytes, want %d", top.Bytes(), want)
	}
	before := top.Bytes()
	nodes, read, err := top.Fill(t.Context(), Degree, 30<<10, progress.Discard)
	if err != nil || nodes == 0 || read == 0 || read > 2*d.IndicesBytes() {
		t.Fatal(nodes, read, err)
	}
	h := &c.held
	host := int64(h.ids.Len()+4095) / 4096 * 4096
	if held := int64(8*len(h.bits)+4*len(h.ranks)) + 4*(nodes+1) + host; top.Bytes()-before != held || held > 30<<10 || top.HostBytes() != StackBytes+host {
		t.Errorf("%d bytes more, want %d; %d outside the heap", top.Bytes()-before, held, top.HostBytes())
	}
	from, err := top.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Free()
	r := from.(*reader)
	if held := int64(8*cap(r.missed) + r.staging.Len()); held > top.ReaderBytes() || top.ReaderBytes() > held+512<<10 || r.Reads() != (sampler.Reads{}) {
		t.Errorf("a reader holds %d bytes, %d are counted", held, top.ReaderBytes())
	}
}
