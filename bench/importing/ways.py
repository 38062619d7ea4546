"""Writes one graph in many ways, with the libraries that people hold graphs in, imports each, and compares.

    ways.py [--only WORD] [--commands] [--dir DIR] [NAME=]DISKGNN…

Every way is a function below: it writes files into the working directory and returns the arguments of
`diskgnn import`. The datasets must have the content of the one that plain arrays of NumPy give: files with
equal checksums. Ways that name nodes or classes are compared by these names. Other ways must be refused, with
the words that are said here. Each DISKGNN has a column of the table; the exit code is 1 unless all ways are
right with the last. Ways of a library that cannot be imported are NOT CHECKED.
"""

import argparse
import contextlib
import csv
import functools
import gzip
import importlib
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
import types
import warnings

import numpy as np

warnings.filterwarnings("ignore")
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"))

N, E, DIM, CLASSES = 300, 2000, 7, 5
WORDS = ["art", "biology", "chemistry", "drama", "economics"]  # in the order of their classes


class Graph:
    """Distinct directed edges in the order of their sources, with one self-loop and without an isolated node.
    Features are quarters, half of them 0. Every tenth node has no label. Sets are sorted, and a fifth of the
    labelled nodes is in none."""

    def __init__(self):
        rng = np.random.default_rng(7)
        pairs = {(i, (i + 1) % N) for i in range(N)} | {(5, 5)}
        while len(pairs) < E:
            s, d = (int(v) for v in rng.integers(N, size=2))
            if s != d:
                pairs.add((s, d))
        self.edges = np.array(sorted(pairs)).T.copy()
        self.x = rng.integers(1, 40, (N, DIM)) / 4 * rng.integers(0, 2, (N, DIM))
        self.x[:, 0] += 0.25  # no column counts 0, 1, 2, and no row is empty
        self.y = rng.integers(CLASSES, size=N)
        self.y[::10] = -1
        labelled = rng.permutation(np.flatnonzero(self.y >= 0))
        a, b, c = len(labelled) // 2, len(labelled) * 13 // 20, len(labelled) * 4 // 5
        self.sets = [np.sort(labelled[:a]), np.sort(labelled[a:b]), np.sort(labelled[b:c])]
        self.masks = np.zeros((N, 3), bool)
        for k, ids in enumerate(self.sets):
            self.masks[ids, k] = True
        self.set_words = np.array(["", "train", "valid", "test"])[self.masks @ [1, 2, 3]]
        self.names = np.array([f"n{v:03}" for v in (np.arange(N) * 7 + 3) % 1000])
        self.words = np.array([WORDS[c] if c >= 0 else None for c in self.y], object)


G = Graph()
SRC, DST = G.edges
X, Y = G.x.astype("f4"), G.y
BASE = "../base/"
TABLES = ["--features", BASE + "x.npy", "--labels", BASE + "y.npy", "--split-files", ",".join(BASE + s + ".npy" for s in ("train", "valid", "test"))]
LABELS, SPLIT = TABLES[2:4], TABLES[4:]
EDGES = ["--edges", BASE + "edges.npy"]


def base(first=0, truths=False):
    x = X.copy()
    if truths:
        x[:, 3] = x[:, 3] > 0
    np.save("edges.npy", G.edges)
    np.save("x.npy", x)
    np.save("y.npy", np.where(Y < 0, -1, Y + first))
    for name, ids in zip(("train", "valid", "test"), G.sets):
        np.save(name + ".npy", ids)
    return EDGES + TABLES


WAYS = []


class Way:
    def __init__(self, library, what, write, like="base", refused=None, note=None):
        self.library, self.what, self.write, self.like, self.refused, self.note = library, what, write, like, refused, note
        self.name = write.__name__


def way(library, what, **expect):
    """like: the dataset that this one must equal: base, undirected (both directions, no self-loops), one (labels from
    1), truths (one feature is 0 or 1), or names and classes (compared by the names of nodes or classes). refused: words of the error. note: words of a note."""

    def add(write):
        WAYS.append(Way(library, what, write, **expect))
        return write

    return add


def edges(name, *more):
    return ["--edges", name, *more, *TABLES]


def features(name, *more):
    return [*EDGES, "--features", name, *more, *LABELS, *SPLIT]


def labels(name, *more):
    return [*EDGES, *TABLES[:2], "--labels", name, *more, *SPLIT]


def one_hot(dtype="f4", none=-1):
    rows = np.eye(CLASSES, dtype=dtype)[Y]
    rows[Y < 0] = none
    return rows


# NumPy


@way("numpy", "edges (2, E) int64")
def npy_rows():
    np.save("e.npy", G.edges)
    return edges("e.npy")


@way("numpy", "edges (E, 2) int64")
def npy_columns():
    np.save("e.npy", G.edges.T.copy())
    return edges("e.npy")


@way("numpy", "edges (E, 2), a transposed view (Fortran order)")
def npy_fortran():
    np.save("e.npy", G.edges.T)
    return edges("e.npy")


@way("numpy", "edges (E, 2) int32")
def npy_int32():
    np.save("e.npy", G.edges.T.astype("i4", order="C"))
    return edges("e.npy")


@way("numpy", "edges (2, E) uint32")
def npy_uint32():
    np.save("e.npy", G.edges.astype("u4"))
    return edges("e.npy")


@way("numpy", "edges (2, E) uint64")
def npy_uint64():
    np.save("e.npy", G.edges.astype("u8"))
    return edges("e.npy")


@way("numpy", "edges in big-endian order", refused="little-endian")
def npy_big():
    np.save("e.npy", G.edges.astype(">i8"))
    return edges("e.npy")


@way("numpy", "edges, features and labels in one savez_compressed")
def npz_all():
    np.savez_compressed("g.npz", edge_index=G.edges, x=X, y=Y)
    return ["--edges", "g.npz:edge_index", "--features", "g.npz:x", "--labels", "g.npz:y", *SPLIT]


@way("numpy", "edges by savetxt, in its default format (floats)")
def savetxt():
    np.savetxt("e.txt", G.edges.T)
    return edges("e.txt")


@way("numpy", "edges by savetxt, %d with commas")
def savetxt_int():
    np.savetxt("e.csv", G.edges.T, fmt="%d", delimiter=",", header="src,dst")
    return edges("e.csv")


@way("numpy", "edges by tofile")
def tofile():
    G.edges.T.astype("i8").tofile("e.bin")
    return edges(f"e.bin:int64:{E}x2")


@way("numpy", "features float64")
def x_float64():
    np.save("x.npy", G.x)
    return features("x.npy")


@way("numpy", "features float16")
def x_float16():
    np.save("x.npy", X.astype("f2"))
    return features("x.npy", "--dtype", "float32")


@way("numpy", "features by savetxt, .gz")
def x_savetxt():
    np.savetxt("x.txt.gz", X)
    return features("x.txt.gz")


@way("numpy", "labels (N, 1) int32")
def y_column():
    np.save("y.npy", Y.astype("i4")[:, None])
    return labels("y.npy")


@way("numpy", "labels float64 with NaN")
def y_nan():
    np.save("y.npy", np.where(Y < 0, np.nan, Y))
    return labels("y.npy")


@way("numpy", "labels with -100 for none")
def y_100():
    np.save("y.npy", np.where(Y < 0, -100, Y))
    return labels("y.npy")


@way("numpy", "labels one-hot, --labels-as classes")
def y_onehot():
    np.save("y.npy", one_hot())
    return labels("y.npy", "--labels-as", "classes")


@way("numpy", "labels one-hot, without --labels-as", refused="--labels-as")
def y_onehot_asks():
    np.save("y.npy", one_hot())
    return labels("y.npy")


@way("numpy", "labels that count from 1", like="one", note="class 0")
def y_from_one():
    np.save("y.npy", np.where(Y < 0, -1, Y + 1))
    return labels("y.npy")


@way("numpy", "targets of a regression", refused="regression")
def y_regression():
    np.save("y.npy", np.where(Y < 0, np.nan, Y + 0.37))
    return labels("y.npy")


@way("numpy", "splits as boolean masks")
def masks_bool():
    for k in range(3):
        np.save(f"m{k}.npy", G.masks[:, k])
    return [*EDGES, *TABLES[:4], "--split-files", "m0.npy,m1.npy,m2.npy"]


@way("numpy", "splits as uint8 masks")
def masks_uint8():
    for k in range(3):
        np.save(f"m{k}.npy", G.masks[:, k].astype("u1"))
    return [*EDGES, *TABLES[:4], "--split-files", "m0.npy,m1.npy,m2.npy"]


@way("numpy", "splits as masks of ten divisions, --split-index 2")
def masks_columns():
    for k in range(3):
        m = np.roll(G.masks[:, [k]], np.arange(10) * 10, 1).repeat(10, 1)
        m[:, 2] = G.masks[:, k]
        np.save(f"m{k}.npy", m)
    return [*EDGES, *TABLES[:4], "--split-files", "m0.npy,m1.npy,m2.npy", "--split-index", "2"]


# pandas


def frame():
    import pandas as pd
    return pd.DataFrame({"src": SRC, "dst": DST})


def node_frame(**more):
    import pandas as pd
    return pd.DataFrame({**more, **{f"f{k}": X[:, k] for k in range(DIM)}})


def nodes():
    """A table with everything about the nodes."""
    import pandas as pd
    return node_frame(id=np.arange(N), label=pd.array(np.where(Y < 0, None, Y), "Int64"), split=G.set_words)


NODE_COLUMNS = ["--id-column", "id", "--label-column", "label", "--split-column", "split"]


@way("pandas", "edges to_csv, with its index")
def csv_index():
    frame().to_csv("e.csv")
    return edges("e.csv")


@way("pandas", "edges to_csv(index=False)")
def csv_plain():
    frame().to_csv("e.csv", index=False)
    return edges("e.csv")


@way("pandas", "edges to_csv(header=False, index=False)")
def csv_bare():
    frame().to_csv("e.csv", header=False, index=False)
    return edges("e.csv")


@way("pandas", "edges to_csv(sep=';')")
def csv_semicolon():
    frame().to_csv("e.csv", index=False, sep=";")
    return edges("e.csv")


@way("pandas", "edges to_csv(sep='\\t') in .csv")
def csv_tab():
    frame().to_csv("e.csv", index=False, sep="\t")
    return edges("e.csv")


@way("pandas", "edges to_csv(sep='\\t') in .tsv.gz")
def tsv_gz():
    frame().to_csv("e.tsv.gz", index=False, sep="\t")
    return edges("e.tsv.gz")


@way("pandas", "edges to_csv, all fields quoted, CRLF, byte order mark")
def csv_excel():
    frame().to_csv("e.csv", index=False, quoting=csv.QUOTE_ALL, lineterminator="\r\n", encoding="utf-8-sig")
    return edges("e.csv")


@way("pandas", "edges to_csv, destination first by name")
def csv_target_first():
    frame().rename(columns={"src": "source", "dst": "target"})[["target", "source"]].to_csv("e.csv", index=False)
    return edges("e.csv")


@way("pandas", "edges to_csv, ids that are floats since one was missing")
def csv_float_ids():
    f = frame().astype("f8")
    f.to_csv("e.csv", index=False)
    return edges("e.csv")


@way("pandas", "edges to_csv with weight and time beside", note="weight")
def csv_weights():
    f = frame()
    f["weight"], f["time"] = np.arange(E) / 8, np.arange(E)
    f.to_csv("e.csv", index=False)
    return edges("e.csv", "--edge-columns", "src,dst")


@way("pandas", "edges to_csv, two of five columns, by number")
def csv_by_number():
    f = frame()
    f.insert(0, "kind", "cites")
    f.insert(2, "year", 2000 + np.arange(E) % 20)
    f.to_csv("e.csv", index=False)
    return edges("e.csv", "--edge-columns", "1,3")


@way("pandas", "edges to_parquet, with a named index")
def parquet_index():
    f = frame()
    f.index = np.arange(E) + 10
    f.to_parquet("e.parquet")
    return edges("e.parquet")


@way("pandas", "edges to_parquet, a range index (metadata alone)")
def parquet_range():
    frame().to_parquet("e.parquet")
    return edges("e.parquet")


@way("pandas", "edges to_parquet, float64 ids")
def parquet_float():
    frame().astype("f8").to_parquet("e.parquet")
    return edges("e.parquet")


@way("pandas", "edges to_feather")
def feather():
    frame().to_feather("e.feather")
    return edges("e.feather")


@way("pandas", "features to_csv with index, numeric column names")
def x_numeric_names():
    import pandas as pd
    pd.DataFrame(X).to_csv("x.csv")
    return features("x.csv")


@way("pandas", "features to_csv(index=False), numeric column names")
def x_numeric_header():
    import pandas as pd
    pd.DataFrame(X).to_csv("x.csv", index=False)
    return features("x.csv")


@way("pandas", "features to_parquet, some columns by pattern")
def x_parquet_columns():
    f = node_frame()
    f["year"], f["title"] = 2000 + np.arange(N) % 9, "a title"
    f.to_parquet("x.parquet")
    return features("x.parquet", "--feature-columns", "f*")


@way("pandas", "features to_csv, columns dropped by name")
def x_drop():
    f = node_frame()
    f["year"], f["title"] = 2000 + np.arange(N) % 9, 'a "title", and more'
    f.to_csv("x.csv", index=False)
    return features("x.csv", "--drop", "year,title")


@way("pandas", "the same, with line breaks in a column", refused="line")
def x_line_breaks():
    f = node_frame()
    f["title"] = "two\nlines"
    f.to_csv("x.csv", index=False)
    return features("x.csv", "--drop", "title")


@way("pandas", "features to_feather, with an id that counts nodes")
def x_feather_id():
    node_frame(node_id=np.arange(N)).to_feather("x.feather")
    return features("x.feather")


@way("pandas", "features to_csv, a column of True and False", like="truths")
def x_truths():
    f = node_frame()
    f["f3"] = X[:, 3] > 0
    f.to_csv("x.csv", index=False)
    return features("x.csv")


@way("pandas", "splits to_csv, masks of True and False")
def masks_csv():
    import pandas as pd
    for k in range(3):
        pd.DataFrame({"mask": G.masks[:, k]}).to_csv(f"m{k}.csv", index=False)
    return [*EDGES, *TABLES[:4], "--split-files", "m0.csv,m1.csv,m2.csv"]


@way("pandas", "labels to_csv with index, empty for none")
def y_csv():
    import pandas as pd
    pd.DataFrame({"label": np.where(Y < 0, np.nan, Y)}).to_csv("y.csv")
    return labels("y.csv")


@way("pandas", "labels to_parquet, nullable Int64")
def y_nullable():
    nodes()[["label"]].to_parquet("y.parquet")
    return labels("y.parquet")


@way("pandas", "labels to_csv, words", like="classes")
def y_words():
    import pandas as pd
    pd.DataFrame({"label": G.words}).to_csv("y.csv", index=False)
    return labels("y.csv")


@way("pandas", "labels to_parquet, a categorical of words", like="classes")
def y_categorical():
    import pandas as pd
    pd.DataFrame({"label": pd.Categorical(G.words)}).to_parquet("y.parquet")
    return labels("y.parquet")


@way("pandas", "one table of nodes in .csv: id, label, split, features")
def nodes_csv():
    nodes().to_csv("nodes.csv", index=False)
    return [*EDGES, "--features", "nodes.csv", *NODE_COLUMNS]


@way("pandas", "the same in Parquet, with a categorical split")
def nodes_parquet():
    f = nodes()
    f["split"] = f["split"].astype("category")
    f.to_parquet("nodes.parquet")
    return [*EDGES, "--features", "nodes.parquet", *NODE_COLUMNS]


@way("pandas", "the same in Feather, with class words", like="classes")
def nodes_feather():
    f = nodes()
    f["label"] = G.words
    f.to_feather("nodes.feather")
    return [*EDGES, "--features", "nodes.feather", *NODE_COLUMNS]


@way("pandas", "the same in ;, labels and split in a table beside")
def nodes_two():
    f = nodes()
    f.drop(columns=["label", "split"]).to_csv("x.csv", index=False, sep=";")
    f[["id", "split", "label"]].to_csv("y.csv", index=False, sep=";")
    return [*EDGES, "--features", "x.csv", "--labels", "y.csv", *NODE_COLUMNS]


def named_frames():
    e = frame()
    e["src"], e["dst"] = G.names[SRC], G.names[DST]
    f = nodes()
    f["id"] = G.names
    return e, f


@way("pandas", "string ids, a table of nodes in another order", like="names")
def names_csv():
    e, f = named_frames()
    e.to_csv("e.csv", index=False)
    f.iloc[::-1].to_csv("nodes.csv", index=False)
    return ["--edges", "e.csv", "--features", "nodes.csv", "--node-ids", "edges", *NODE_COLUMNS]


@way("pandas", "string ids in Parquet, --node-ids the table", like="names")
def names_parquet():
    e, f = named_frames()
    e.to_parquet("e.parquet")
    f.to_parquet("nodes.parquet")
    return ["--edges", "e.parquet", "--features", "nodes.parquet", "--node-ids", "nodes.parquet", *NODE_COLUMNS]


@way("pandas", "the table of edges, without a flag", refused="--edges")
def csv_argument():
    frame().to_csv("edges.csv")
    return ["edges.csv"]


# PyArrow


def table(dtype="i8"):
    import pyarrow as pa
    return pa.table({"src": SRC.astype(dtype), "dst": DST.astype(dtype)})


def parquet_way(name, what, **options):
    def write():
        import pyarrow.parquet as pq
        pq.write_table(table(), "e.parquet", **options)
        return edges("e.parquet")

    write.__name__ = "parquet_" + name
    way("pyarrow", what)(write)


parquet_way("snappy", "edges in Parquet, defaults (snappy, dictionary)")
parquet_way("zstd", "edges in Parquet, zstd", compression="zstd")
parquet_way("lz4", "edges in Parquet, lz4, with a dictionary", compression="lz4")
parquet_way("gzip", "edges in Parquet, gzip, no dictionary", compression="gzip", use_dictionary=False)
parquet_way("brotli", "edges in Parquet, brotli", compression="brotli")
parquet_way("none", "edges in Parquet, uncompressed, small row groups", compression="none", row_group_size=97)
parquet_way("v2", "edges in Parquet, data pages 2.0, delta encoding", data_page_version="2.0", use_dictionary=False,
            column_encoding={"src": "DELTA_BINARY_PACKED", "dst": "DELTA_BINARY_PACKED"})
parquet_way("split", "edges in Parquet, BYTE_STREAM_SPLIT", use_dictionary=False, column_encoding={"src": "BYTE_STREAM_SPLIT", "dst": "PLAIN"})


@way("pyarrow", "edges in Parquet, int32")
def parquet_int32():
    import pyarrow.parquet as pq
    pq.write_table(table("i4"), "e.parquet")
    return edges("e.parquet")


@way("pyarrow", "edges as a dataset: a directory of Parquet parts")
def parquet_dir():
    import pyarrow.dataset as ds
    ds.write_dataset(table(), "e", format="parquet", max_rows_per_file=600, max_rows_per_group=600)
    return edges("e")


@way("pyarrow", "edges as a glob of Parquet parts")
def parquet_glob():
    import pyarrow.dataset as ds
    ds.write_dataset(table(), "e", format="parquet", max_rows_per_file=600, max_rows_per_group=600)
    return edges("e/part-*.parquet")


@way("pyarrow", "edges as parts in CSV, by pyarrow.csv (quoted names)")
def csv_dir():
    import pyarrow.csv as pc
    os.mkdir("e")
    for k in range(3):
        pc.write_csv(table().slice(k * 700, 700), f"e/part-{k}.csv")
    return edges("e")


@way("pyarrow", "edges in an IPC file")
def ipc_file():
    import pyarrow as pa
    with pa.ipc.new_file("e.arrow", table().schema) as w:
        w.write_table(table(), max_chunksize=333)
    return edges("e.arrow")


@way("pyarrow", "edges in an IPC stream")
def ipc_stream():
    import pyarrow as pa
    with pa.ipc.new_stream("e.arrows", table().schema) as w:
        w.write_table(table(), max_chunksize=333)
    return edges("e.arrows")


@way("pyarrow", "features in Feather, zstd, float16 as float32")
def feather_zstd():
    import pyarrow as pa
    import pyarrow.feather as pf
    pf.write_feather(pa.table({f"f{k}": X[:, k] for k in range(DIM)}), "x.feather", compression="zstd")
    return features("x.feather")


@way("pyarrow", "features as one column of lists, Parquet")
def x_lists():
    import pyarrow as pa
    import pyarrow.parquet as pq
    pq.write_table(pa.table({"embedding": pa.array(X.tolist(), pa.list_(pa.float32()))}), "x.parquet")
    return features("x.parquet")


@way("pyarrow", "labels in an IPC file, a dictionary of words", like="classes")
def y_dictionary():
    import pyarrow as pa
    t = pa.table({"label": pa.array(G.words.tolist()).dictionary_encode()})
    with pa.ipc.new_file("y.arrow", t.schema) as w:
        w.write_table(t)
    return labels("y.arrow")


# networkx


def networkx_graph(**data):
    import networkx as nx
    g = nx.DiGraph()
    g.add_nodes_from(range(N))
    g.add_edges_from(zip(SRC.tolist(), DST.tolist()), **data)
    return g


@way("networkx", "write_edgelist, its defaults")
def nx_default():
    import networkx as nx
    nx.write_edgelist(networkx_graph(), "g.edgelist")
    return edges("g.edgelist")


@way("networkx", "write_edgelist with data, .txt", note="weight")
def nx_data():
    import networkx as nx
    nx.write_edgelist(networkx_graph(weight=0.5, kind="cites it"), "g.txt")
    return edges("g.txt")


@way("networkx", "write_edgelist(data=False, delimiter=',')")
def nx_comma():
    import networkx as nx
    nx.write_edgelist(networkx_graph(), "g.csv", data=False, delimiter=",")
    return edges("g.csv")


@way("networkx", "write_edgelist(data=['weight']), .gz", note="g.txt.gz")
def nx_weight():
    import networkx as nx
    nx.write_edgelist(networkx_graph(weight=0.5), "g.txt.gz", data=["weight"])
    return edges("g.txt.gz")


@way("networkx", "write_weighted_edgelist", note="g.txt")
def nx_weighted():
    import networkx as nx
    nx.write_weighted_edgelist(networkx_graph(weight=2), "g.txt")
    return edges("g.txt")


@way("networkx", "to_pandas_edgelist, to_csv", note="weight")
def nx_pandas():
    import networkx as nx
    nx.to_pandas_edgelist(networkx_graph(weight=0.5)).to_csv("e.csv")
    return edges("e.csv", "--edge-columns", "source,target")


@way("networkx", "to_scipy_sparse_array, save_npz")
def nx_scipy():
    import networkx as nx
    import scipy.sparse as sp
    sp.save_npz("a.npz", nx.to_scipy_sparse_array(networkx_graph(), dtype="i1"))
    return edges("a.npz")


@way("networkx", "write_graphml", refused="GraphML")
def nx_graphml():
    import networkx as nx
    nx.write_graphml(networkx_graph(), "g.graphml")
    return ["g.graphml", *TABLES]


@way("networkx", "a pickle of the graph", refused="pickle")
def nx_pickle():
    with open("g.pkl", "wb") as f:
        pickle.dump(networkx_graph(), f)
    return ["g.pkl", *TABLES]


# SciPy


def adjacency(dtype="f4"):
    import scipy.sparse as sp
    return sp.coo_matrix((np.ones(E, dtype), (SRC, DST)), shape=(N, N))


def sparse_way(form):
    def write():
        import scipy.sparse as sp
        sp.save_npz("a.npz", adjacency().asformat(form))
        return edges("a.npz")

    write.__name__ = "adjacency_" + form
    way("scipy", f"save_npz, adjacency in {form.upper()}")(write)


for form in ("csr", "csc", "coo"):
    sparse_way(form)


@way("scipy", "save_npz, a csr_array with weights", note="a.npz")
def adjacency_weights():
    import scipy.sparse as sp
    sp.save_npz("a.npz", sp.csr_array((np.arange(E) / 4 + 1, (SRC, DST)), shape=(N, N)), compressed=False)
    return edges("a.npz")


@way("scipy", "save_npz, features (bag of words) in CSR")
def bag_csr():
    import scipy.sparse as sp
    sp.save_npz("x.npz", sp.csr_matrix(X))
    return features("x.npz")


@way("scipy", "save_npz, features in CSC", refused="tocsr")
def bag_csc():
    import scipy.sparse as sp
    sp.save_npz("x.npz", sp.csc_matrix(X))
    return features("x.npz")


@way("scipy", "mmwrite, adjacency")
def mm():
    import scipy.io
    scipy.io.mmwrite("a.mtx", adjacency())
    return edges("a.mtx")


@way("scipy", "mmwrite, adjacency, field pattern")
def mm_pattern():
    import scipy.io
    scipy.io.mmwrite("a.mtx", adjacency(), field="pattern")
    return edges("a.mtx")


@way("scipy", "mmwrite, a symmetric adjacency of both directions", like="undirected")
def mm_symmetric():
    import scipy.io
    import scipy.sparse as sp
    a = adjacency()
    a = (a + a.T).tolil()
    a.setdiag(0)
    a = a.tocsr()
    a.eliminate_zeros()
    a.data[:] = 1
    scipy.io.mmwrite("a.mtx", sp.coo_matrix(a), symmetry="symmetric")
    return edges("a.mtx")


# PyTorch


def tensors():
    import torch
    return {"edge_index": torch.from_numpy(G.edges), "x": torch.from_numpy(X), "y": torch.from_numpy(Y)}


@way("torch", "torch.save of three tensors")
def pt_tensors():
    import torch
    for k, v in tensors().items():
        torch.save(v, k + ".pt")
    for k, name in enumerate(("train", "valid", "test")):
        torch.save(torch.from_numpy(G.masks[:, k].copy()), name + ".pt")
    return ["--edges", "edge_index.pt", "--features", "x.pt", "--labels", "y.pt", "--split-files", "train.pt,valid.pt,test.pt"]


@way("torch", "a view of a tensor: edge_index.t()")
def pt_view():
    import torch
    torch.save(torch.from_numpy(G.edges).t(), "e.pt")
    return edges("e.pt")


@way("torch", "a column of a tensor: y[:, 0]", refused="contiguous")
def pt_strided():
    import torch
    torch.save(torch.from_numpy(np.stack((Y, Y), 1))[:, 0], "y.pt")
    return labels("y.pt")


@way("torch", "features bfloat16")
def pt_bfloat16():
    import torch
    torch.save(torch.from_numpy(X).bfloat16(), "x.pt")
    return features("x.pt", "--dtype", "float32")


@way("torch", "torch.save of a dict with edge_index, x, y and masks")
def pt_dict():
    import torch
    torch.save({**tensors(), **masks()}, "g.pt")
    return ["g.pt"]


@way("torch", "the file before 1.6 (no zip)", refused="before 1.6")
def pt_legacy():
    import torch
    torch.save(tensors()["x"], "x.pt", _use_new_zipfile_serialization=False)
    return features("x.pt")


# PyTorch Geometric


def masks(dtype=None):
    import torch
    return {k: torch.from_numpy(G.masks[:, i].astype(dtype or bool)) for i, k in enumerate(("train_mask", "val_mask", "test_mask"))}


def data(**more):
    from torch_geometric.data import Data
    return Data(**{**tensors(), **masks(), **more})


def pyg(what, **expect):
    def add(make):
        def write():
            import torch
            torch.save(make(), "data.pt")
            return ["data.pt"]

        write.__name__ = make.__name__
        way("torch_geometric", what, **expect)(write)
        return make

    return add


@pyg("Data with masks")
def pyg_data():
    return data()


@pyg("[Data]")
def pyg_list():
    return [data()]


@pyg("Data, adj_t by ToSparseTensor")
def pyg_adj():
    import torch
    from torch_geometric.transforms import ToSparseTensor
    return ToSparseTensor(layout=torch.sparse_csr)(data())


@pyg("Data, adj_t as sparse COO")
def pyg_adj_coo():
    import torch
    return data(edge_index=None, adj_t=torch.sparse_coo_tensor(np.stack((DST, SRC)), torch.ones(E), (N, N)).coalesce())


@pyg("Data, x sparse CSR")
def pyg_sparse_x():
    return data(x=tensors()["x"].to_sparse_csr())


@pyg("Data, x sparse COO")
def pyg_sparse_x_coo():
    return data(x=tensors()["x"].to_sparse())


@pyg("Data, uint8 masks")
def pyg_uint8():
    return data(**masks("u1"))


@pyg("Data, y (N, 1), edge_weight", note="edge_weight")
def pyg_y_column():
    import torch
    return data(y=tensors()["y"][:, None], edge_weight=torch.arange(E) / 4)


@pyg("Data, targets of a regression", refused="regression")
def pyg_regression():
    return data(y=tensors()["y"] + 0.37)


@pyg("Data.to_dict()")
def pyg_to_dict():
    return data().to_dict()


@pyg("HeteroData", refused="to_homogeneous")
def pyg_hetero():
    from torch_geometric.data import HeteroData
    h = HeteroData()
    t = tensors()
    h["paper"].x, h["paper"].y = t["x"], t["y"]
    h["paper", "cites", "paper"].edge_index = t["edge_index"]
    h["author"].x = t["x"]
    return h


@pyg("HeteroData.to_homogeneous()")
def pyg_homogeneous():
    from torch_geometric.data import HeteroData
    h = HeteroData()
    t = tensors()
    h["paper"].x, h["paper"].y = t["x"], t["y"]
    for k, m in masks().items():
        h["paper"][k] = m
    h["paper", "cites", "paper"].edge_index = t["edge_index"]
    return h.to_homogeneous()


@way("torch_geometric", "Data, masks of four divisions, --split-index 1")
def pyg_columns():
    import torch
    d = data()
    for k, m in masks().items():
        d[k] = torch.stack((~m, m, m, ~m), 1)
    torch.save(d, "data.pt")
    return ["data.pt", "--split-index", "1"]


@way("torch_geometric", "InMemoryDataset: processed/data.pt")
def pyg_dataset():
    from torch_geometric.data import InMemoryDataset

    class Set(InMemoryDataset):
        processed_file_names = ["data.pt"]

        def process(self):
            self.save([data()], self.processed_paths[0])

    with contextlib.redirect_stderr(io.StringIO()):
        Set("set")
    return ["set"]


@pyg("a dict of Data and split_idx")
def pyg_split_idx():
    import torch
    d = data(train_mask=None, val_mask=None, test_mask=None)
    d.split_idx = {k: torch.from_numpy(ids) for k, ids in zip(("train", "valid", "test"), G.sets)}
    return d


@pyg("a dictionary of features by type, no graph", refused="edge_index")
def pyg_no_edges():
    return {"x": tensors()["x"], "y": tensors()["y"]}


# DGL


@functools.cache
def load_dgl():
    """DGL without GraphBolt, which has libraries for some releases of PyTorch alone; save_graphs needs none."""
    class Empty(types.ModuleType):
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {})

    os.environ.setdefault("DGLBACKEND", "pytorch")
    sys.modules.setdefault("dgl.graphbolt", Empty("dgl.graphbolt"))
    return importlib.import_module("dgl")


def dgl_graph(mask=bool, **more):
    dgl = load_dgl()
    t = tensors()
    g = dgl.graph((t["edge_index"][0], t["edge_index"][1]), num_nodes=N)
    g.ndata.update({"feat": t["x"], "label": t["y"], **masks(mask), **more})
    return g


def dgl_way(what, **expect):
    def add(make):
        def write():
            g = make()
            load_dgl().save_graphs("g.bin", g)
            return ["g.bin"]

        write.__name__ = make.__name__
        way("dgl", what, **expect)(write)
        return make

    return add


@dgl_way("save_graphs, COO")
def dgl_coo():
    return [dgl_graph().formats("coo")]


@dgl_way("save_graphs, CSR")
def dgl_csr():
    return [dgl_graph().formats("csr")]


@dgl_way("save_graphs, CSC")
def dgl_csc():
    return [dgl_graph().formats("csc")]


@dgl_way("save_graphs, int32 ids, uint8 masks")
def dgl_int32():
    return dgl_graph("u1").int()


@dgl_way("save_graphs, edge weights beside", note="weight")
def dgl_edata():
    import torch
    g = dgl_graph()
    g.edata["weight"] = torch.ones(E)
    return g


@dgl_way("save_graphs of a heterograph", refused="to_homogeneous")
def dgl_hetero():
    t = tensors()["edge_index"]
    return load_dgl().heterograph({("a", "to", "b"): (t[0], t[1]), ("b", "of", "a"): (t[1], t[0])})


@dgl_way("save_graphs of two graphs", refused="2 graphs")
def dgl_two():
    return [dgl_graph(), dgl_graph()]


@way("dgl", "chunked: metadata.json with arrays and Parquet")
def dgl_chunked():
    import pyarrow as pa
    import pyarrow.parquet as pq
    os.makedirs("g/edges")
    os.makedirs("g/node_data")
    halves = [slice(0, N // 2), slice(N // 2, N)]
    meta = {"graph_name": "g", "node_type": ["_N"], "num_nodes_per_chunk": [[N // 2, N - N // 2]], "edge_type": ["_N:_E:_N"],
            "num_edges_per_chunk": [[E]], "edge_data": {}, "node_data": {"_N": {}},
            "edges": {"_N:_E:_N": {"format": {"name": "parquet"}, "data": ["edges/0.parquet"]}}}
    pq.write_table(pa.table({"src": SRC, "dst": DST}), "g/edges/0.parquet")
    for key, v in {"feat": X, "label": Y, **{k: m.numpy() for k, m in masks().items()}}.items():
        paths = [f"node_data/{key}-{i}.npy" for i in range(2)]
        for path, half in zip(paths, halves):
            np.save("g/" + path, v[half])
        meta["node_data"]["_N"][key] = {"format": {"name": "numpy"}, "data": paths}
    with open("g/metadata.json", "w") as f:
        json.dump(meta, f)
    return ["g"]


# Layouts of archives, as their documentation has them


@way("numpy", "a tree of GraphBolt's OnDiskDataset")
def graphbolt():
    os.mkdir("g")
    np.savetxt("g/edges.csv", G.edges.T, fmt="%d", delimiter=",")
    np.save("g/feat.npy", X)
    np.save("g/label.npy", Y)
    yaml = f"""dataset_name: g
graph:
  nodes:
    - num: {N}
  edges:
    - format: csv
      path: edges.csv
feature_data:
  - domain: node
    name: feat
    format: numpy
    path: feat.npy
  - domain: node
    name: label
    format: numpy
    path: label.npy
tasks:
  - name: node_classification
    num_classes: {CLASSES}
"""
    for key, name, ids in zip(("train", "validation", "test"), ("train", "valid", "test"), G.sets):
        np.save(f"g/{name}.npy", ids)
        yaml += f"    {key}_set:\n      - data:\n          - name: seeds\n            format: numpy\n            path: {name}.npy\n"
    with open("g/metadata.yaml", "w") as f:
        f.write(yaml)
    return ["g"]


def write_gz(name, rows):
    with gzip.open(name, "wt") as f:
        for row in rows:
            f.write(",".join(str(v) for v in row) + "\n")


@way("numpy", "OGB's layout, csv.gz")
def ogb():
    os.makedirs("g/raw")
    os.makedirs("g/split/time")
    write_gz("g/raw/edge.csv.gz", G.edges.T.tolist())
    write_gz("g/raw/node-feat.csv.gz", X.tolist())
    write_gz("g/raw/node-label.csv.gz", [[v if v >= 0 else "nan"] for v in Y.tolist()])
    write_gz("g/raw/num-node-list.csv.gz", [[N]])
    write_gz("g/raw/num-edge-list.csv.gz", [[E]])
    for name, ids in zip(("train", "valid", "test"), G.sets):
        write_gz(f"g/split/time/{name}.csv.gz", [[v] for v in ids.tolist()])
    return ["g"]


@way("scipy", "GraphSAINT's layout")
def graphsaint():
    import scipy.sparse as sp
    os.mkdir("g")
    sp.save_npz("g/adj_full.npz", adjacency("i1").tocsr())
    np.save("g/feats.npy", G.x)
    with open("g/class_map.json", "w") as f:
        json.dump({str(i): int(v) for i, v in enumerate(Y)}, f)
    with open("g/role.json", "w") as f:
        json.dump({k: ids.tolist() for k, ids in zip(("tr", "va", "te"), G.sets)}, f)
    return ["g"]


@way("scipy", "gnn-benchmark's npz", like="undirected")
def gnn_benchmark():
    import scipy.sparse as sp
    a, x = adjacency().tocsr(), sp.csr_matrix(X)
    np.savez("g.npz", adj_data=a.data, adj_indices=a.indices, adj_indptr=a.indptr, adj_shape=a.shape, attr_data=x.data,
             attr_indices=x.indices, attr_indptr=x.indptr, attr_shape=x.shape, labels=Y)
    np.savez("g_split.npz", train=G.sets[0], valid=G.sets[1], test=G.sets[2])
    return ["g.npz"]


@way("numpy", "SNAP's list of edges")
def snap():
    np.savetxt("g.txt.gz", G.edges.T, fmt="%d", delimiter="\t", header=f"Nodes: {N} Edges: {E}\nFromNodeId\tToNodeId")
    return ["g.txt.gz", *TABLES]


@way("numpy", "WebGraph's ASCII format")
def webgraph():
    with open("g.graph-txt", "w") as f:
        f.write(f"{N}\n")
        for i in range(N):
            f.write(" ".join(str(v) for v in DST[SRC == i]) + "\n")
    return ["g.graph-txt", *TABLES]


@way("numpy", "a file of HDF5 (its signature)", refused="HDF5")
def hdf5():
    with open("x.h5", "wb") as f:
        f.write(b"\x89HDF\r\n\x1a\n" + bytes(2040))
    return features("x.h5")


# Importing and comparing

CONTENT = ["indptr.bin", "indices.bin", "features.bin", "labels.bin", "train.bin", "valid.bin", "test.bin"]


def run(binary, args):
    """Imports, and returns the dataset, the result in JSON, the last line of errors, and seconds."""
    shutil.rmtree("out", ignore_errors=True)
    began = time.monotonic()
    p = subprocess.run([binary, "import", "--out", "out", "--quiet", "--json", *args], capture_output=True, text=True, timeout=120)
    seconds = time.monotonic() - began
    if p.returncode:
        if p.returncode not in (2, 3):
            raise RuntimeError(f"exit code {p.returncode}: {p.stderr}")
        return None, None, p.stderr.strip(), seconds
    with open("out/meta.json") as f:
        meta = json.load(f)
    return meta, json.loads(p.stdout.splitlines()[-1]), "", seconds


def sums(meta):
    return {f["name"]: f["checksum"] for f in meta["files"]}


def arrays(path, order=None):
    """The content of a dataset; order[i] is the node that is i in the reference."""
    from diskgnn import Dataset
    d = Dataset(path)
    n = d.facts["nodes"]
    order = np.arange(n) if order is None else order
    rank = np.empty(n, "i8")
    rank[order] = np.arange(n)
    e = rank[d.edge_index()]
    return {"edges": e[:, np.lexsort(e)], "features": d.features[:][order], "labels": d.labels[order],
            **{name: np.sort(rank[np.asarray(getattr(d, name), "i8")]) for name in ("train", "valid", "test")}}, d


def differences(like, meta, reference):
    """The names of files or arrays that differ."""
    if like in reference:
        have = sums(meta)
        return [n for n in CONTENT if have.get(n) != reference[like].get(n)]
    want, _ = arrays("../base/out")
    order = None
    if like == "names":
        from diskgnn import Dataset
        ids = {name: i for i, name in enumerate(Dataset("out").ids)}
        if sorted(ids) != sorted(G.names):
            return ["names"]
        order = np.array([ids[name] for name in G.names])
    have, d = arrays("out", order)
    wrong = []
    if like == "classes":
        names = class_names(d)
        if sorted(names) != sorted(WORDS):
            return [f"class names {names}"]
        index = np.array([WORDS.index(name) for name in names] + [-1])
        have["labels"] = index[have["labels"]]
    return wrong + [k for k, v in want.items() if v.shape != have[k].shape or not np.array_equal(v, have[k])]


def class_names(d):
    path = os.path.join(d.path, "class_names.txt")
    if not os.path.exists(path):
        return []
    with open(path) as f:
        return f.read().splitlines()


def check(w, binary, args, reference):
    """One word for the table, whether it is right, the explanation, and seconds."""
    meta, result, error, seconds = run(binary, args)
    if w.refused:
        if meta is not None:
            return "TAKEN", False, "this must be refused", seconds
        if w.refused not in error:
            return "refused, other words", False, f"the error lacks {w.refused!r}: {error}", seconds
        return "refused", True, error, seconds
    if meta is None:
        return "REFUSED", False, error, seconds
    different = differences(w.like, meta, reference)
    if different:
        return "DIFFERS", False, " ".join(different), seconds
    notes = " ".join(result.get("notes", []))
    if w.note and w.note not in notes:
        return "no note", False, f"no note has {w.note!r}: {notes}", seconds
    return "same", True, "", seconds


def version(library):
    try:
        return getattr(load_dgl() if library == "dgl" else importlib.import_module(library), "__version__", "")
    except Exception as e:  # of whatever the library does at its start
        return e


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--only", default="", help="only ways with this in their name or description")
    p.add_argument("--commands", action="store_true", help="print the flags of every way")
    p.add_argument("--explain", action="store_true", help="print the errors of refusals that are right, too")
    p.add_argument("--dir", help="keep the files in this directory")
    p.add_argument("binaries", nargs="+", metavar="[NAME=]DISKGNN")
    o = p.parse_args()
    binaries = [(b.split("=", 1) if "=" in b else [os.path.basename(b), b]) for b in o.binaries]
    binaries = [(name, os.path.abspath(path)) for name, path in binaries]

    ways = [w for w in WAYS if o.only.lower() in f"{w.library} {w.name} {w.what}".lower()]
    versions = {lib: version(lib) for lib in sorted({w.library for w in ways})}
    with contextlib.ExitStack() as stack:
        top = os.path.abspath(o.dir) if o.dir else stack.enter_context(tempfile.TemporaryDirectory())

        def enter(name):
            path = os.path.join(top, name)
            shutil.rmtree(path, ignore_errors=True)
            os.makedirs(path)
            os.chdir(path)

        stack.callback(os.chdir, "/")
        # The first binary makes the reference, so that a way is compared with it and not with itself.
        reference = {}
        for like, args, more in (("undirected", (), ["--symmetrize"]), ("one", (1,), []), ("truths", (0, True), []), ("base", (), [])):
            enter("base")
            meta, _, error, _ = run(binaries[0][1], base(*args) + more)
            if meta is None:
                sys.exit(f"ways.py: {error}")
            reference[like] = sums(meta)

        head = f"{'library':24} {'way':62}" + "".join(f" {name:14}" for name, _ in binaries) + "  seconds"
        print(head)
        wrong = right = 0
        unchecked = []
        for w in ways:
            if isinstance(versions[w.library], Exception):
                unchecked.append(w)
                continue
            enter(w.name)
            args = w.write()
            cells, seconds, ok, why = [], 0, False, ""
            for _, path in binaries:
                word, ok, why, seconds = check(w, path, args, reference)
                cells.append(word)
            print(f"{w.library + ' ' + str(versions[w.library]):24.24} {w.what:62}" + "".join(f" {c:14}" for c in cells) + f"  {seconds:.2f}", flush=True)
            if o.commands:
                print("    diskgnn import --out out " + " ".join(args))
            if not ok or o.explain and why:
                print(f"    {w.name}: {why}")
            wrong, right = wrong + (not ok), right + ok
        for lib in sorted({w.library for w in unchecked}):
            print(f"NOT CHECKED: {sum(w.library == lib for w in unchecked)} ways of {lib}: {versions[lib]}")
        print(f"{right} ways are right, {wrong} are wrong")
        return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
