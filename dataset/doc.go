// Package dataset reads and writes the DATASET directory: a graph's topology, its node features,
// labels and splits, as raw arrays that are mapped or streamed.
//
// It opens and verifies such directories and generates synthetic ones. Package dataset/importer makes
// them from graphs in other formats, with a Writer.
//
// # Format
//
// The format is "diskgnn.dataset". Version 1 is the plain form; version 2 has compressed features;
// versions 3 and 4 are versions 1 and 2 with original ids of the nodes. Nothing else differs.
// Version 5 has a typed graph; its facts say which of these properties it has, too. A
// dataset for prediction only has neither labels nor splits: its label_kind is "none". A directory
// holds
//
//	DATASET/
//	├── meta.json           format, content parameters, facts, files, fingerprint
//	├── run.json            when, where and how it was made; covered by no checksum
//	├── indptr.bin          the topology in compressed sparse columns:
//	├── indices.bin         in-neighbours, grouped by destination
//	├── features.bin        one row per node (version 2: features.zst)
//	├── labels.bin          one class per node
//	├── targets.bin         multi-label datasets only: any number of classes per node
//	├── class_names.txt     where the classes have names: one a line
//	├── node_ids.bin        versions 3 and 4: the numbers that nodes had in the source,
//	├── name_offsets.bin    or, instead, their names: where each ends,
//	├── names.bin           and one after the other
//	├── train.bin           node ids of the splits
//	├── valid.bin
//	├── test.bin
//	└── NAME.bin.sums       checksums of each of the files above
//	                        (class_names.txt.sums; version 2: features.zst.frames)
//
// and perhaps features.bin.pages and indices.bin.pages, which no fingerprint covers.
//
// All numbers are little-endian. The data files have no headers and no padding: the facts give their
// shapes, and each file is exactly as long as its content.
//
//	file          element  count        content
//	indptr.bin    int64    nodes+1      ascending from 0 to edges (version 5: rows+1)
//	indices.bin   uint32   edges        in-neighbours of node v at indptr[v] … indptr[v+1],
//	                                    ascending; equal neighbours are parallel edges
//	features.bin  dtype    nodes × dim  row-major (version 5: below): float32, float16 or bfloat16, all finite
//	labels.bin    int32    nodes        0 … classes−1, or −1 for an unlabelled node
//	                                    (multi-label: 0 or −1)
//	targets.bin   uint8    nodes × T    T = ⌈classes/8⌉ bytes a node: class c is bit c mod 8
//	                                    of byte c/8; other bits, and unlabelled nodes', are 0
//	node_ids.bin  int64    nodes        the numbers 0 … nodes−1, each once
//	name_offsets  int64    nodes+1      ascending from 0 to name_bytes: node v has the bytes
//	  .bin                              name_offsets[v] to name_offsets[v+1] of names.bin
//	names.bin     uint8    name_bytes   UTF-8 without control characters, 1 to 4096 bytes a
//	                                    node, no two equal
//	class_names   uint8    class_name   UTF-8, the name of each class in their order, ended by
//	  .txt                 _bytes       a line feed: without control characters, 1 to 4096
//	                                    bytes, no two equal; 2²⁰ bytes at most in all
//	train.bin     uint32   train        node ids, strictly ascending; no node is in two
//	valid.bin     uint32   valid        splits, and every node of a split has a label
//	test.bin      uint32   test
//
// # Typed graphs
//
// A typed graph has node types and relations. A type is a range of node ids. A relation has a name and leads
// from one type to one type; at most 64 lead to a type. A row of the topology is a pair of a node and a relation
// into its type: indptr.bin has an offset for each row, and the in-neighbours of a row ascend. Rows are in the
// order of their nodes, and of the relations for each node (see graph.Types). Types without features follow
// all others: features.bin has a row for each node before them, and then a row of zeros for each of these types,
// which its nodes share. Labels and splits are of nodes of one type; all others are unlabelled.
// If the content parameter "fill" is "mean", types without features in the source have features that were computed
// (package dataset/internal/fill).
//
// # Checksums
//
// NAME.bin.sums holds the CRC-32C (Castagnoli) of every granule of 1 MiB of NAME.bin, the last one
// short:
//
//	offset   size  field
//	0        8     "DGNNSUM1"
//	8        8     granule in bytes, uint64: 1048576
//	16       8     size of NAME.bin, uint64
//	24       4·n   CRC-32C of granule 0 … n−1
//	24+4·n   4     CRC-32C of all that precedes it
//
// # Checksums of pages
//
// features.bin.pages has the form of NAME.bin.sums with a granule of 4096 bytes. Readers of single
// rows check pages by it. It can be computed from the dataset, so it is not part of it, and meta.json
// does not list it: the first such reader makes it, in one pass over the features. A reader trusts the
// table only if the CRCs of a granule's pages combine to the granule's CRC in features.bin.sums, which
// the fingerprint covers; a table that is damaged, or of other features, is made again. Compressed
// features have no such table. indices.bin.pages is the same for readers of single nodes'
// in-neighbours; the pass that makes it also checks the promises of the table above for indices.bin.
//
// # Compressed features
//
// features.zst has the content of features.bin, granule by granule: frame i is a Zstandard frame (RFC
// 8878) of granule i, with the size of its content, and without a checksum, a dictionary or any other
// dependence on other frames. Frames follow each other without padding, so any zstd tool restores
// features.bin from the file. features.zst.frames has their lengths:
//
//	offset   size  field
//	0        8     "DGNNFRM1"
//	8        8     granule in bytes, uint64: 1048576
//	16       8     size of the features in bytes, uint64: n granules, the last one short
//	24       4·n   length of frame 0 … n−1, uint32
//	24+4·n   4·n   CRC-32C of frame 0 … n−1, as it lies in the file
//	24+8·n   4     CRC-32C of all that precedes it
//
// # Checksums of files
//
// In meta.json the checksum of a data file is the SHA-256 of its n CRCs, as they lie in the table; the
// checksum of a table is the SHA-256 of its bytes. Readers check every byte they use: the topology as a
// whole before its first use, other files granule by granule as they are read.
//
// # Facts
//
//	nodes, edges         counts; edges are directed and counted as stored
//	dim, dtype           elements of a feature row, and their type
//	classes              number of classes
//	label_kind           "class": one per node; "multi-hot": any number, in targets.bin
//	                     (2²⁴ classes at most); "none": labels.bin, train.bin, valid.bin and
//	                     test.bin are absent, classes is 0, metric "", all unlabelled
//	metric               the score that suits the labels: "accuracy", or "f1" of multi-hot
//	                     ones (both can be judged by "auc" as well, the former of two classes)
//	train, valid, test   sizes of the splits
//	unlabelled           nodes of label −1; with the splits no more than all nodes
//	compression          of the features: "zstd" in versions 2 and 4, absent in others
//	original_ids         "number" (node_ids.bin) or "name" (names.bin) in versions 3 and 4,
//	                     absent in others
//	name_bytes           the size of names.bin, where there is one
//	class_name_bytes     the size of class_names.txt, where there is one
//	node_id_bytes        4 (8 is reserved for more than 2³² nodes)
//	types                version 5: node_types, each with name, nodes and features (whether its
//	                     nodes have any), and relations, ascending by destination, each with name,
//	                     source and destination (places among node_types)
//	labelled_type        the type of the nodes with labels, where it is not the first
//	needs                version 5: properties that a reader must know, of "types", "compressed features"
//	                     and "original ids"; a reader refuses others
//	node_types,          absent: earlier names of types
//	edge_types
//	edge_dim             absent: reserved for edge features
//
// Facts must agree with the sizes of all files and tables, and no data file is larger than 2⁵⁰ bytes;
// a reader checks that before anything else. Verify checks all promises above: bytes, order, ranges,
// finite features, and that no two names of nodes, or of classes, are equal. Other readers check the
// parts that they use.
//
// # Original ids
//
// Nodes are numbered from 0, and samples, packs and runs use these numbers only. If import renumbered
// the nodes of the source, node_ids.bin has the original number of each node; if nodes of the source
// have names, names.bin has them. Commands that print nodes, or take nodes as arguments, use these
// original ids.
//
// # Names of classes
//
// Numbers of classes decide labels, weights and scores. The names are for people: commands that print
// classes add them. Older readers ignore class_names.txt, and class_name_bytes, which no other file or
// fact depends on; so neither raises the version. A dataset without names has neither.
//
// # Content parameters
//
// The parameter "source" is the origin of the content, and decides the other parameters: "generator"
// with its version, seed and shape; "import" with the format, the SHA-256 of the source files' sizes
// and bytes, and the applied options ("for" is predict if labels and splits were left out); or
// "memory" with the SHA-256 of the content itself, and one of class_names.txt alone if there is one. If
// features are compressed, "compression" is the name of the encoder, which includes its fixed level.
//
// # Versions
//
// A reader that supports version 1 only rejects compressed features by their version; datasets without
// them keep their version, and so do samples made from them. A reader of versions 1 and 2 rejects
// original ids in the same way, since they raise the version by 2. Readers that support only one class
// for each node, or only datasets with labels, reject others by the label kind. A reader rejects any
// other version, and unknown values of reserved facts. Any change of the meaning of a byte raises the
// version; a new file or fact that older readers may ignore does not.
package dataset
