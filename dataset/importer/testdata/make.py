"""Writes the fixtures of the importers' tests, by the libraries of the formats where these write
them, and beside each what the library itself loads of it, as text.

    python make.py [NAME...]      needs numpy, scipy, pandas, pyarrow, torch and ogb
"""
import gzip
import os
import shutil
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def fresh(*name):
    path = os.path.join(HERE, *name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def gz(path, rows):
    """Lines of numbers, in an archive that is the same whenever it is made."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    text = "".join(",".join(str(x) for x in (row if isinstance(row, (list, tuple, np.ndarray)) else [row])) + "\n" for row in rows)
    with open(path, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0) as z:
        z.write(text.encode())


def number(x):
    return "%.9g" % x


def golden(path, nodes, edges, feat, labels, splits):
    """The graph as text: edges are (source, destination), labels a class or a list of classes."""
    with open(path, "w") as f:
        f.write("nodes %d\nedges %d\n" % (nodes, len(edges)))
        for dst, src in sorted((int(d), int(s)) for s, d in edges):
            f.write("%d <- %d\n" % (dst, src))
        for v in range(nodes):
            f.write("feat %d: %s\n" % (v, " ".join(number(x) for x in feat[v])))
        for v in range(nodes):
            label = labels[v]
            f.write("label %d: %s\n" % (v, " ".join(str(int(c)) for c in label) if isinstance(label, (list, tuple)) else str(int(label))))
        for name in ["train", "valid", "test"]:
            f.write("%s: %s\n" % (name, " ".join(str(v) for v in sorted(int(v) for v in splits[name]))))


def typed_golden(path, counts, feats, labelled, labels, index, splits):
    """The graph with its types as text: types with features first, relations by their destinations, and nodes counted
    from 0 in each type. labels and splits are of the nodes of the type labelled."""
    types = [t for t in counts if t in feats] + [t for t in counts if t not in feats]
    with open(path, "w") as f:
        for t in types:
            f.write("type %s: %d nodes%s\n" % (t, counts[t], "" if t in feats else " without features"))
        for triple in sorted(index, key=lambda k: types.index(k[2])):
            name = ":".join(triple)
            f.write("relation %s\n" % name)
            for dst, src in sorted((int(d), int(s)) for s, d in np.asarray(index[triple]).T):
                f.write("%s: %d <- %d\n" % (name, dst, src))
        for t in types:
            for v in range(counts[t] if t in feats else 0):
                f.write("feat %s %d: %s\n" % (t, v, " ".join(number(x) for x in feats[t][v])))
        for v in range(counts[labelled]):
            f.write("label %s %d: %d\n" % (labelled, v, labels[v]))
        for name in ["train", "valid", "test"]:
            f.write("%s: %s\n" % (name, " ".join(str(v) for v in sorted(int(v) for v in splits[name]))))


def random_graph(rng, nodes, edges):
    return np.stack([rng.integers(0, nodes, edges), rng.integers(0, nodes, edges)]).astype(np.int64)


def write_split(dir, name, parts):
    for split, ids in parts.items():
        gz(os.path.join(dir, "split", name, split + ".csv.gz"), ids)


META = {"num tasks": 1, "eval metric": "acc", "num classes": 4, "task type": "multiclass classification", "download_name": "x", "version": 1, "url": "",
        "additional node files": "None", "additional edge files": "None", "has_node_attr": "True", "has_edge_attr": "False"}


def load(dir, **changes):
    from ogb.nodeproppred import NodePropPredDataset
    meta = dict(META, dir_path=dir, **{k.replace("_", " ") if k in ("is_hetero",) else k: v for k, v in changes.items()})
    os.makedirs(os.path.join(dir, "processed"), exist_ok=True)
    open(os.path.join(dir, "RELEASE_v1.txt"), "w").close()
    data = NodePropPredDataset("fixture", meta_dict=meta)
    graph, labels = data[0]
    splits = data.get_idx_split()
    shutil.rmtree(os.path.join(dir, "processed"), ignore_errors=True)
    os.remove(os.path.join(dir, "RELEASE_v1.txt"))
    return graph, labels, splits


def classes(labels):
    labels = np.asarray(labels, dtype=np.float64)
    if labels.shape[1] > 1:
        return [[c for c in range(labels.shape[1]) if row[c] == 1] for row in labels]
    return [-1 if np.isnan(x) else int(x) for x in labels[:, 0]]


def ogb_csv(name, add_inverse, edge_features=False, multi=False):
    rng = np.random.default_rng(len(name))
    nodes, edges = 23, 61
    dir = fresh("ogb", name)
    index = random_graph(rng, nodes, edges)
    raw = os.path.join(dir, "raw")
    gz(os.path.join(raw, "edge.csv.gz"), index.T)
    gz(os.path.join(raw, "num-node-list.csv.gz"), [nodes])
    gz(os.path.join(raw, "num-edge-list.csv.gz"), [edges])
    if edge_features:
        gz(os.path.join(raw, "edge-feat.csv.gz"), rng.integers(-8, 8, (edges, 3)) / 8)
    else:
        gz(os.path.join(raw, "node-feat.csv.gz"), [["%g" % x for x in row] for row in rng.integers(-100, 100, (nodes, 5)) / 8])
    gz(os.path.join(raw, "node-label.csv.gz"), rng.integers(0, 2, (nodes, 3)) if multi else rng.integers(0, 4, nodes))
    order = rng.permutation(nodes)
    write_split(dir, "time", {"train": order[:12], "valid": order[12:17], "test": order[17:]})
    graph, labels, splits = load(dir, add_inverse_edge=str(add_inverse), split="time", binary="False", **{"is hetero": "False"})
    feat = graph["node_feat"]
    if edge_features:  # the mean over incoming edges, as PyG's and DGL's examples make them
        feat, degree = np.zeros((nodes, 3)), np.zeros(nodes)
        for i, v in enumerate(graph["edge_index"][1]):
            feat[v] += graph["edge_feat"][i]
            degree[v] += 1
        feat = (feat / np.maximum(degree, 1)[:, None]).astype(np.float32)
    golden(dir + ".txt", graph["num_nodes"], graph["edge_index"].T, feat, classes(labels), splits)


def ogb_binary():
    from ogb.io import DatasetSaver
    rng = np.random.default_rng(7)
    nodes, edges = 19, 47
    root = fresh("ogb", "saver")
    os.chdir(root)
    saver = DatasetSaver("ogbn-binary", is_hetero=False, version=1, root=root)
    saver.save_graph_list([{"edge_index": random_graph(rng, nodes, edges), "num_nodes": nodes,
                            "node_feat": (rng.integers(-50, 50, (nodes, 4)) / 4).astype(np.float32), "node_year": rng.integers(1990, 2020, (nodes, 1))}])
    labels = rng.integers(0, 4, (nodes, 1)).astype(np.float32)
    labels[rng.permutation(nodes)[:9]] = np.nan
    saver.save_target_labels(labels)
    dir = fresh("ogb", "binary")
    shutil.copytree(saver.raw_dir, os.path.join(dir, "raw"), dirs_exist_ok=True)
    os.chdir(HERE)
    shutil.rmtree(root)
    for left in os.listdir(os.path.dirname(root)):
        if left.startswith("saver"):
            shutil.rmtree(os.path.join(os.path.dirname(root), left), ignore_errors=True)
    known = rng.permutation(np.flatnonzero(~np.isnan(labels[:, 0])))
    write_split(dir, "time", {"train": known[:6], "valid": known[6:8], "test": known[8:]})
    graph, labels, splits = load(dir, add_inverse_edge="False", split="time", binary="True", **{"is hetero": "False"})
    golden(dir + ".txt", graph["num_nodes"], graph["edge_index"].T, graph["node_feat"], classes(labels), splits)


def hetero_golden(dir, graph, labels, splits):
    types = sorted(graph["num_nodes_dict"])
    first, total = {}, 0
    for t in types:
        first[t] = total
        total += int(graph["num_nodes_dict"][t])
    edges = [(int(s) + first[h], int(d) + first[t]) for (h, r, t), index in graph["edge_index_dict"].items() for s, d in index.T]
    (labelled,) = labels
    feat = np.zeros((total, graph["node_feat_dict"][labelled].shape[1]))
    at = first[labelled]
    feat[at:at + graph["num_nodes_dict"][labelled]] = graph["node_feat_dict"][labelled]
    of = [-1] * total
    of[at:at + len(labels[labelled])] = classes(labels[labelled])
    golden(dir + ".txt", total, edges, feat, of, {k: v[labelled] + at for k, v in splits.items()})
    typed_golden(dir + "-typed.txt", graph["num_nodes_dict"], graph["node_feat_dict"], labelled, of[at:], graph["edge_index_dict"],
                 {k: v[labelled] for k, v in splits.items()})


NODES = {"paper": 9, "author": 6, "venue": 3}
RELATIONS = {("author", "writes", "paper"): 14, ("paper", "cites", "paper"): 11, ("paper", "in", "venue"): 9}


def hetero_parts(rng):
    index = {t: np.stack([rng.integers(0, NODES[t[0]], n), rng.integers(0, NODES[t[2]], n)]).astype(np.int64) for t, n in RELATIONS.items()}
    order = rng.permutation(9)
    return index, (rng.integers(-9, 9, (9, 3)) / 2).astype(np.float32), rng.integers(0, 3, (9, 1)), {"train": order[:5], "valid": order[5:7], "test": order[7:]}


def hetero_split(dir, parts):
    gz(os.path.join(dir, "split", "time", "nodetype-has-split.csv.gz"), [sorted(NODES), [t == "paper" for t in sorted(NODES)]])
    write_split(dir, os.path.join("time", "paper"), parts)


def ogb_hetero():
    dir = fresh("ogb", "hetero")
    raw = os.path.join(dir, "raw")
    index, feat, labels, parts = hetero_parts(np.random.default_rng(3))
    gz(os.path.join(raw, "num-node-dict.csv.gz"), [list(NODES), list(NODES.values())])
    gz(os.path.join(raw, "triplet-type-list.csv.gz"), list(RELATIONS))
    gz(os.path.join(raw, "nodetype-has-label.csv.gz"), [list(NODES), [t == "paper" for t in NODES]])
    for t, e in index.items():
        sub = os.path.join(raw, "relations", "___".join(t))
        gz(os.path.join(sub, "edge.csv.gz"), e.T)
        gz(os.path.join(sub, "num-edge-list.csv.gz"), [e.shape[1]])
    gz(os.path.join(raw, "node-feat", "paper", "node-feat.csv.gz"), feat)
    gz(os.path.join(raw, "node-label", "paper", "node-label.csv.gz"), labels)
    hetero_split(dir, parts)
    graph, labels, splits = load(dir, add_inverse_edge="False", split="time", binary="False", **{"is hetero": "True"})
    hetero_golden(dir, graph, labels, splits)


def ogb_hetero_binary():
    from ogb.io import DatasetSaver
    index, feat, labels, parts = hetero_parts(np.random.default_rng(4))
    root = fresh("ogb", "saver")
    os.chdir(root)
    saver = DatasetSaver("ogbn-typed", is_hetero=True, version=1, root=root)
    saver.save_graph_list([{"edge_index_dict": index, "num_nodes_dict": dict(NODES), "node_feat_dict": {"paper": feat}}])
    saver.save_target_labels({"paper": labels})
    dir = fresh("ogb", "hetero-binary")
    shutil.copytree(saver.raw_dir, os.path.join(dir, "raw"), dirs_exist_ok=True)
    os.chdir(HERE)
    shutil.rmtree(root)
    for left in os.listdir(os.path.dirname(root)):
        if left.startswith("saver"):
            shutil.rmtree(os.path.join(os.path.dirname(root), left), ignore_errors=True)
    hetero_split(dir, parts)
    graph, labels, splits = load(dir, add_inverse_edge="False", split="time", binary="True", **{"is hetero": "True"})
    hetero_golden(dir, graph, labels, splits)


def mag240m():
    """The layout of MAG240M, whose saver is not public: as OGB's own loader reads it."""
    import torch
    from ogb.lsc import MAG240MDataset
    rng = np.random.default_rng(9)
    counts = {"paper": 13, "author": 7, "institution": 3}
    root = os.path.join(HERE, "ogb")
    dir = fresh("ogb", "mag240m_kddcup2021")
    at = lambda *name: os.path.join(dir, "processed", *name)
    for (h, t), r in MAG240MDataset.__rels__.items():
        os.makedirs(at(f"{h}___{r}___{t}"))
        np.save(at(f"{h}___{r}___{t}", "edge_index.npy"), np.stack([rng.integers(0, counts[h], 17), rng.integers(0, counts[t], 17)]))
    os.makedirs(at("paper"))
    np.save(at("paper", "node_feat.npy"), (rng.integers(-99, 99, (13, 6)) / 8).astype(np.float16))
    label = rng.integers(0, 5, 13).astype(np.float32)
    order = rng.permutation(13)
    split = {"train": order[:6], "valid": order[6:8], "test-dev": order[8:10], "test-whole": order[8:12], "test-challenge": order[10:12]}
    label[order[10:]] = np.nan  # of the challenge's papers, and of one in no set
    np.save(at("paper", "node_label.npy"), label)
    np.save(at("paper", "node_year.npy"), rng.integers(1990, 2020, 13))
    torch.save(dict(counts, num_classes=5), os.path.join(dir, "meta.pt"))
    torch.save(split, os.path.join(dir, "split_dict.pt"))
    open(os.path.join(dir, "RELEASE_v1.txt"), "w").close()
    data = MAG240MDataset(root)
    counts = {"paper": data.num_papers, "author": data.num_authors, "institution": data.num_institutions}
    labels = data.paper_label
    splits = {"train": data.get_idx_split("train"), "valid": data.get_idx_split("valid"), "test": data.get_idx_split("test-whole")}
    graph = {"num_nodes_dict": counts, "edge_index_dict": {(h, r, t): data.edge_index(h, t) for (h, t), r in data.__rels__.items()}, "node_feat_dict": {"paper": data.paper_feat}}
    hetero_golden(dir, graph, {"paper": np.asarray(labels)[:, None]}, {k: {"paper": np.array([i for i in v if not np.isnan(labels[i])])} for k, v in splits.items()})


def igb_draw(rng, nodes, edges):
    return (rng.integers(-9, 9, (nodes, 1024)) / 2).astype(np.float32), rng.integers(0, 19, nodes), rng.integers(0, nodes, (edges, 2)).astype(np.int32)


def igb():
    """The layout of IGB: with headers (tiny to medium) and without, with a tail that replaces the
    last rows (large, full). The features of the goldens are the first four of a row."""
    for name, headed, tail in [("tiny", True, 0), ("large", False, 0), ("patched", False, 4)]:
        rng = np.random.default_rng(len(name))
        nodes, edges = 11, 31
        dir = os.path.join(fresh("igb", name), "processed")
        feat, labels, index = igb_draw(rng, nodes, edges)
        os.makedirs(os.path.join(dir, "paper"))
        os.makedirs(os.path.join(dir, "paper__cites__paper"))
        np.save(os.path.join(dir, "paper__cites__paper", "edge_index.npy"), index)
        if headed:
            np.save(os.path.join(dir, "paper", "node_feat.npy"), feat)
            np.save(os.path.join(dir, "paper", "node_label_19.npy"), labels.astype(np.float32))
        else:
            body = feat.copy()
            body[nodes - tail:] = 0
            body.tofile(os.path.join(dir, "paper", "node_feat.npy"))
            labels.astype(np.float32).tofile(os.path.join(dir, "paper", "node_label_19.npy"))
        if tail:
            np.save(os.path.join(dir, "paper", "node_feat_5M_tail.npy"), feat[nodes - tail:])
        # No library of IGB's installs; what its loader does is np.load and np.memmap.
        with open(os.path.join(HERE, "igb", name + ".txt"), "w") as f:
            for dst, src in sorted((int(d), int(s)) for s, d in index):
                f.write("%d <- %d\n" % (dst, src))
            for v in range(nodes):
                f.write("feat %d: %s\n" % (v, " ".join(number(x) for x in feat[v])))
            for v in range(nodes):
                f.write("label %d: %d\n" % (v, labels[v]))


def igb_h():
    """A heterogeneous set: the types and relations that IGB's loader names, and a type without features."""
    rng = np.random.default_rng(11)
    counts = {"author": 5, "fos": 4, "institute": 2, "paper": 11}
    relations = [("paper", "cites", "paper"), ("paper", "written_by", "author"), ("author", "affiliated_to", "institute"), ("paper", "topic", "fos")]
    dir = fresh("igb", "het")
    at = lambda *name: os.path.join(dir, "processed", *name)
    for kind in "author", "institute", "paper":
        os.makedirs(at(kind))
        np.save(at(kind, "node_feat.npy"), (rng.integers(-9, 9, (counts[kind], 6)) / 2).astype(np.float32))
    np.save(at("paper", "node_label_19.npy"), rng.integers(0, 19, counts["paper"]).astype(np.float32))
    np.save(at("paper", "node_label_2K.npy"), rng.integers(0, 2983, counts["paper"]).astype(np.float32))
    for h, r, t in relations:
        os.makedirs(at(f"{h}__{r}__{t}"))
        index = np.stack([rng.integers(0, counts[h], 13), rng.integers(0, counts[t], 13)], 1).astype(np.int32)
        index[-1, 1] = counts[t] - 1  # the last fos has an edge
        np.save(at(f"{h}__{r}__{t}", "edge_index.npy"), index)
    # No library of IGB's installs; what its loader does is np.load, and a split by the papers' order.
    first, total = {}, 0
    for kind in sorted(counts):
        first[kind], total = total, total + counts[kind]
    edges = [(s + first[h], d + first[t]) for h, r, t in relations for s, d in np.load(at(f"{h}__{r}__{t}", "edge_index.npy"))]
    feat = np.concatenate([np.load(at(kind, "node_feat.npy")) if kind != "fos" else np.zeros((counts[kind], 6)) for kind in sorted(counts)])
    for classes, name in (19, "19"), (2983, "2K"):
        labels = [-1] * first["paper"] + list(np.load(at("paper", f"node_label_{name}.npy")))
        papers = np.arange(first["paper"], total)
        train, valid = int(len(papers) * 0.6), int(len(papers) * 0.2)
        splits = {"train": papers[:train], "valid": papers[train:train + valid], "test": papers[train + valid:]}
        golden(os.path.join(HERE, "igb", f"het-{classes}.txt"), total, edges, feat, labels, splits)
    # Types are in the order in which the names of relations have them, after papers.
    order = {"paper": 11, "author": 5, "institute": 2, "fos": 4}
    feats = {kind: np.load(at(kind, "node_feat.npy")) for kind in order if kind != "fos"}
    index = {r: np.load(at("__".join(r), "edge_index.npy")).T for r in sorted(relations)}
    typed_golden(os.path.join(HERE, "igb", "het-typed.txt"), order, feats, "paper", np.load(at("paper", "node_label_19.npy")), index,
                 {k: v - first["paper"] for k, v in splits.items()})


def raw():
    """The same graph in every form that the format raw reads."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq
    rng = np.random.default_rng(5)
    dir = fresh("raw")
    nodes, edges = 20, 70
    index, feat, labels = rng.integers(0, nodes, (edges, 2)), (rng.integers(-99, 99, (nodes, 3)) / 16).astype(np.float32), rng.integers(0, 3, nodes)
    order = rng.permutation(nodes)
    train, valid, test = order[:10], order[10:14], order[14:]
    at = lambda name: os.path.join(dir, name)
    np.save(at("edges.npy"), index)
    np.save(at("edges2.npy"), np.ascontiguousarray(index.T))
    np.save(at("edges-fortran.npy"), np.asfortranarray(index))
    np.save(at("edges2-fortran.npy"), np.asfortranarray(index.T.astype(np.uint32)))
    np.savez_compressed(at("all.npz"), edges=index, feat=feat.astype(np.float64))
    index.astype(np.int32).tofile(at("edges.bin"))
    table = pd.DataFrame(index, columns=["source", "destination"])
    table.to_csv(at("edges.csv"), index=False)
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), at("edges.parquet"), row_group_size=16, compression="snappy")
    with open(at("edges.txt"), "w") as f:
        f.write("# Directed graph\n# FromNodeId\tToNodeId\n" + "".join("%d\t%d\n" % (s, d) for s, d in index))
    with open(at("edges.graph-txt"), "w") as f:
        f.write("%d\n" % nodes + "".join(" ".join(str(d) for s, d in index if s == v) + "\n" for v in range(nodes)))
    np.save(at("feat.npy"), feat)
    feat.tofile(at("feat.bin"))
    pq.write_table(pa.table({c: feat[:, i] for i, c in enumerate("abc")}), at("feat.parquet"), compression="zstd")
    pq.write_table(pa.table({"list": [list(row) for row in feat]}, schema=pa.schema([("list", pa.list_(pa.float32()))])), at("feat-lists.parquet"), compression="gzip")
    gz(at("feat.csv.gz"), [["%g" % x for x in row] for row in feat])
    np.save(at("labels.npy"), labels)
    pq.write_table(pa.table({"label": pa.array([None if v == 0 else int(c) for v, c in enumerate(labels)])}), at("labels.parquet"))
    labels[0] = -1  # as the table above says
    with open(at("labels.csv"), "w") as f:
        f.write("label\n" + "".join("%d\n" % c for c in labels))
    mask = np.zeros(nodes, bool)
    mask[train] = True
    np.save(at("train.npy"), mask)
    pq.write_table(pa.table({"train": mask}), at("train.parquet"))
    np.savetxt(at("train.txt"), train, fmt="%d")
    np.save(at("valid.npy"), valid)
    np.savetxt(at("test.csv"), test, fmt="%d")
    keep = lambda ids: [v for v in ids if v != 0]
    golden(os.path.join(HERE, "raw.txt"), nodes, np.load(at("edges.npy")), pd.read_parquet(at("feat.parquet")).values,
           pd.read_csv(at("labels.csv"))["label"], {"train": keep(train), "valid": keep(valid), "test": keep(test)})


FIXTURES = {
    "raw": raw,
    "igb": igb,
    "igb-h": igb_h,
    "ogb": lambda: (ogb_csv("arxiv", False), ogb_csv("ogbn_products", True), ogb_csv("ogbn_proteins", True, edge_features=True, multi=True),
                    ogb_binary(), ogb_hetero(), ogb_hetero_binary()),
    "mag240m": mag240m,
}

if __name__ == "__main__":
    import torch
    load_ = torch.load
    torch.load = lambda *a, **k: load_(*a, **dict(k, weights_only=False))  # what ogb was written for
    for name in sys.argv[1:] or FIXTURES:
        FIXTURES[name]()
