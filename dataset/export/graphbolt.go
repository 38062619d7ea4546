package export

import (
	"fmt"
	"slices"
	"strings"

	"diskgnn/dataset"
	"diskgnn/graph"
)

func (e *exporting) graphBolt() error {
	if err := e.edges(); err != nil {
		return err
	}
	if err := e.features("feat.npy"); err != nil {
		return err
	}
	return e.setsAndMetadata()
}

// graphBoltOfTypes writes a typed graph.
func (e *exporting) graphBoltOfTypes() error {
	if err := e.byType(e.f.Types); err != nil {
		return err
	}
	return e.setsAndMetadata()
}

func (e *exporting) setsAndMetadata() error {
	labels, err := e.d.Labels()
	if err != nil {
		return err
	}
	inSplit := int64(0)
	for _, name := range dataset.SplitNames {
		nodes, err := e.d.Split(name)
		if err != nil {
			return err
		}
		inSplit += int64(len(nodes))
		if err := e.set(name, nodes, labels); err != nil {
			return err
		}
	}
	left := -inSplit
	for _, c := range labels {
		if c != graph.Unlabelled {
			left++
		}
	}
	if left > 0 {
		e.rep.Logf("left out the labels of %d nodes in no split: GraphBolt's format has labels only for splits", left)
	}
	return e.metadata()
}

// edges writes sources, then destinations.
func (e *exporting) edges() error {
	o, err := e.d.Offsets(e.ctx, e.rep)
	if err != nil {
		return err
	}
	return e.array("edges.npy", "<i8", []int64{2, e.f.Edges}, func(w *file) error {
		ends := integers{w: w}
		if err := e.d.ScanIndices(e.ctx, e.rep, "write sources", func(_ int64, sources []uint32) error {
			for _, u := range sources {
				if err := ends.add(int64(u)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
		for v := range e.f.Nodes {
			for range o.Degree(uint32(v)) {
				if err := ends.add(v); err != nil {
					return err
				}
			}
		}
		return ends.flush()
	})
}

func (e *exporting) set(name string, nodes []uint32, labels []int32) error {
	n, first := int64(len(nodes)), int64(0) // of the nodes that are counted
	if e.f.Types != nil {
		first, _ = e.f.Types.Range(e.f.LabelledType)
	}
	wide := func(value func(v uint32) int64) func(*file) error {
		return func(w *file) error {
			values := integers{w: w}
			for _, v := range nodes {
				if err := values.add(value(v)); err != nil {
					return err
				}
			}
			return values.flush()
		}
	}
	if err := e.array(name+"_seeds.npy", "<i8", []int64{n}, wide(func(v uint32) int64 { return int64(v) - first })); err != nil {
		return err
	}
	if !e.f.MultiLabel() {
		return e.array(name+"_labels.npy", "<i8", []int64{n}, wide(func(v uint32) int64 { return int64(labels[v]) }))
	}
	return e.array(name+"_labels.npy", "|u1", []int64{n, int64(e.f.Classes)}, func(w *file) error {
		for part := range slices.Chunk(nodes, rowsAtOnce) {
			if err := e.targets(w, part); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *exporting) metadata() error {
	nodes, edges, seeds := fmt.Sprintf("    - num: %d\n", e.f.Nodes), "    - format: numpy\n      path: edges.npy\n", ""
	features := "  - domain: node\n    name: feat\n    format: numpy\n    in_memory: false\n    path: feat.npy\n"
	if t := e.f.Types; t != nil {
		nodes, edges, features = e.graphBoltTypes(t)
		seeds = fmt.Sprintf("type: %s\n        ", quoted(t.Nodes[e.f.LabelledType].Name))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `dataset_name: diskgnn
graph:
  nodes:
%s  edges:
%sfeature_data:
%stasks:
  - name: node_classification
    num_classes: %d
`, nodes, edges, features, e.f.Classes)
	for i, key := range []string{"train_set", "validation_set", "test_set"} {
		fmt.Fprintf(&b, "    %s:\n      - %sdata:\n", key, seeds)
		for _, part := range []string{"seeds", "labels"} {
			fmt.Fprintf(&b, "          - name: %s\n            format: numpy\n            path: %s_%s.npy\n", part, dataset.SplitNames[i], part)
		}
	}
	return e.create("metadata.yaml", func(w *file) error { return w.append([]byte(b.String())) })
}
