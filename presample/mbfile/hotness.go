package mbfile

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"diskgnn/internal/binio"
	"diskgnn/internal/fault"
	"diskgnn/internal/vfs"
)

// Hotness reads and returns the hotness of every node: the number of training batches with this input
// node. The result takes 4 bytes for each node.
func (r *Reader) Hotness() ([]uint32, error) {
	h, err := r.openHotness()
	if err != nil {
		return nil, r.damaged(err)
	}
	hot := make([]uint32, r.facts.Nodes)
	if err := h.read(hot, 0); err != nil {
		return nil, r.damaged(err)
	}
	return hot, r.damaged(h.add(hot))
}

// Ranks sets rank[v] to the place of node v by descending hotness, ties by ascending id. touched is
// the number of nodes with a hotness above 0; they have the first ranks. classes has the first rank of each
// hotness, ascending. It holds 12 bytes for each value from 0 to the largest hotness. hotness and rank have an element
// for each node.
func Ranks(hotness, rank []uint32) (touched int64, classes []uint32) {
	most := uint32(0)
	if len(hotness) > 0 {
		most = slices.Max(hotness)
	}
	next := make([]uint64, most+1) // the rank of the next node of that hotness
	for _, n := range hotness {
		next[n]++
	}
	touched = int64(len(hotness)) - int64(next[0])
	sum := uint64(0)
	classes = make([]uint32, 0, len(next))
	for n := len(next) - 1; n >= 0; n-- {
		if next[n] > 0 {
			classes = append(classes, uint32(sum))
		}
		next[n], sum = sum, sum+next[n]
	}
	for v, n := range hotness {
		rank[v] = uint32(next[n])
		next[n]++
	}
	return touched, classes
}

// hotness is hotness.bin with its checksums.
type hotness struct {
	fs   vfs.FS
	path string
	sums binio.Sums

	batches   int   // that each node is an input node of at most
	left, all int64 // input nodes of all batches that are not counted yet
	nodes     int64 // that are
}

// add checks the hotness of the next nodes: no node is needed by more batches than there are,
// and the sum over all nodes is the number of the batches' input nodes.
func (h *hotness) add(hot []uint32) error {
	for i, n := range hot {
		if int64(n) > int64(h.batches) {
			return fault.New(fault.ErrCorrupt, "%s: node %d has the hotness %d, but there are %d training batches", h.path, h.nodes+int64(i), n, h.batches)
		}
		h.left -= int64(n)
	}
	if h.nodes += int64(len(hot)); h.left < 0 || 4*h.nodes == h.sums.Size && h.left != 0 {
		return fault.New(fault.ErrCorrupt, "%s: the sum over all nodes is not %d, the number of input nodes of all training batches", h.path, h.all)
	}
	return nil
}

// openHotness reads the checksums. Each read opens the file of the hotness: merging reads more shards
// than files may be open.
func (r *Reader) openHotness() (*hotness, error) {
	b, err := r.readWhole(SumsFile)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.dir, err)
	}
	sums, err := binio.DecodeSums(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", r.dir, SumsFile, err)
	}
	if f, ok := r.meta.File(HotnessFile); !ok || f.Checksum != sums.Checksum() || f.Size != sums.Size || f.Size != 4*r.facts.Nodes || sums.Granule != hotnessGranule {
		return nil, fault.New(fault.ErrCorrupt, "%s: %s has no valid checksums for the hotness of %d nodes", r.dir, SumsFile, r.facts.Nodes)
	}
	n := r.facts.Train.InputNodes
	return &hotness{fs: r.fs, path: filepath.Join(r.dir, HotnessFile), sums: sums, batches: r.facts.TrainBatches, left: n, all: n}, nil
}

// read fills dst with the hotness of the nodes from first on. Both ends must lie
// where the checksums' granules do.
func (h *hotness) read(dst []uint32, first int64) error {
	f, err := h.fs.Open(h.path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, off := binio.Bytes(dst), 4*first
	if n, err := f.ReadAt(b, off); n < len(b) {
		if errors.Is(err, io.EOF) {
			return fault.New(fault.ErrCorrupt, "%s: ends at byte %d, before byte %d: it was truncated", h.path, off+int64(n), off+int64(len(b)))
		}
		return fmt.Errorf("read %s: %w", h.path, err)
	}
	return h.sums.Verify(h.path, off, b)
}
