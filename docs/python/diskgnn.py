"""Datasets, samples and packs of diskgnn as NumPy arrays.

    d, s, p = Dataset("graph"), Samples("samples"), Pack("pack")
    d.features[:10], d.edge_index(), d.labels, d.train
    b = s[0]                    # what trained batch 0 of epoch 0
    b.x = d.features[b.input]
    b = p[0]                    # the same batch, renumbered, and its features in that order
    for block in b.tensors()["blocks"]: ...

Large files are mapped, and nothing is checked against its checksum: `diskgnn verify` does that. Compressed
directories, and packs of the policy min, whose rows depend on the batches before, are refused by name.
"""

import json
import os

import numpy as np

TYPES = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}


class Directory:
    def __init__(self, path, kind, versions):
        self.path = path
        with open(os.path.join(path, "meta.json")) as f:
            self.meta = json.load(f)
        self.params, self.facts, form = self.meta["params"], self.meta["facts"], self.meta["format"]
        if form["name"] != kind or form["version"] not in versions:
            raise ValueError(f"{path} is {form['name']}, version {form['version']}: this reads {kind}, {versions}"
                             + (", without compression" if kind == "diskgnn.dataset" else ""))

    def file(self, name, dtype, shape=-1):
        path = os.path.join(self.path, name)
        if os.path.getsize(path) == 0:
            return np.zeros(0, dtype).reshape(shape)
        return np.memmap(path, dtype, "r").reshape(shape)


def classes(bits, n):
    """A row of ones and zeros for each row of bits, class c in bit c mod 8 of byte c/8."""
    return np.unpackbits(bits, axis=1, bitorder="little")[:, :n]


class Rows:
    """A feature table, by node: rows are float32, or float16 as they are stored."""

    def __init__(self, rows, widen):
        self.rows, self.widen, self.shape = rows, widen, rows.shape

    def __getitem__(self, nodes):
        rows = np.asarray(self.rows[nodes])
        return (rows.astype("<u4") << 16).view("<f4") if self.widen else rows


class Dataset(Directory):
    """indptr, indices: in-neighbours in compressed columns. labels: -1 is none. ids: by node the number that it had
    in the source, or its name; None where these are the nodes'."""

    def __init__(self, path):
        super().__init__(path, "diskgnn.dataset", (1, 3))
        f = self.facts
        self.indptr, self.indices = self.file("indptr.bin", "<i8"), self.file("indices.bin", "<u4")
        self.features = Rows(self.file("features.bin", TYPES[f["dtype"]], (f["nodes"], f["dim"])), f["dtype"] == "bfloat16")
        if f["label_kind"] == "none":  # of a dataset to predict on
            return
        self.labels = self.file("labels.bin", "<i4")
        if f["label_kind"] == "multi-hot":  # by node: classes(d.targets[nodes], d.facts["classes"])
            self.targets = self.file("targets.bin", "u1", (f["nodes"], -1))
        self.train, self.valid, self.test = (self.file(name + ".bin", "<u4") for name in ("train", "valid", "test"))

    @property
    def class_names(self):
        """By class its name; None if the classes have none."""
        if "class_name_bytes" in self.facts:
            return self.file("class_names.txt", "u1").tobytes().decode().split("\n")[:-1]

    @property
    def ids(self):
        kind = self.facts.get("original_ids")
        if kind == "number":
            return self.file("node_ids.bin", "<i8")
        if kind == "name":
            ends, names = self.file("name_offsets.bin", "<i8"), self.file("names.bin", "u1").tobytes()
            return [names[a:b].decode() for a, b in zip(ends[:-1], ends[1:])]

    def edge_index(self):
        """(2, edges): sources and destinations, as PyTorch Geometric has them."""
        return np.stack((self.indices.astype("i8"), np.repeat(np.arange(self.facts["nodes"]), np.diff(self.indptr))))


class Reader:
    """Takes numbers from bytes, one after the other."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, dtype, n):
        a = np.frombuffer(self.data, dtype, n, self.at)
        self.at += a.nbytes
        return a

    def one(self, dtype):
        return int(self.take(dtype, 1)[0])

    def narrow(self, n, width):
        """n numbers of 1 to 4 bytes."""
        wide = np.zeros((n, 4), "u1")
        wide[:, :width] = self.take("u1", n * width).reshape(n, width)
        return wide.view("<u4").reshape(n)


class Block:
    """Sampled edges of one hop: edge_index has positions, of sources among the block's sources, of destinations
    among its destinations. Destination i is source dst[i]."""

    def __init__(self, sources, destinations):
        self.size = sources, destinations


class Batch:
    """input: node ids, of a pack ranks. degree: theirs in the whole graph. blocks: input side first. labels: of the
    seed nodes, or targets, a column per class. x: of the input nodes."""

    x = None

    def __init__(self, data, n_classes=None):
        r = Reader(data)
        layers, n, seeds = (r.one("<u4") for _ in range(3))
        width, row = r.one("u1"), int.from_bytes(r.take("u1", 3).tobytes(), "little")
        heads = [(r.one("<u4"), r.one("<u4"), r.one("<u4"), *r.take("u1", 4).tolist()) for _ in range(layers)]
        self.input, self.degree, self.blocks = r.take("<u4", n), r.narrow(n, width), []
        for sources, destinations, edges, counts, positions, places, _ in heads:
            b = Block(sources, destinations)
            to = np.repeat(np.arange(destinations), r.narrow(destinations, counts))
            b.edge_index = np.stack((r.narrow(edges, positions).astype("i8"), to))
            b.dst = r.narrow(destinations, places).astype("i8") if places else np.arange(destinations)
            self.blocks.append(b)
        self.labels = r.take("<i4", seeds)
        self.targets = classes(r.take("u1", seeds * row).reshape(seeds, row), n_classes) if row else None
        self.rest = data[r.at:]

    def tensors(self):
        """The same for PyTorch Geometric: conv((x, x[block["dst"]]), block["edge_index"]), block after block."""
        import torch
        t = lambda a: None if a is None else torch.from_numpy(np.array(a))
        y = t(self.labels.astype("i8")) if self.targets is None else t(self.targets)
        return {"x": t(self.x), "y": y, "blocks": [{"edge_index": t(b.edge_index), "dst": t(b.dst), "size": b.size} for b in self.blocks]}


class Samples(Directory):
    """The batches, training ones first (facts: train_batches), then valid_batches, then test_batches."""

    def __init__(self, path, n_classes=None):
        super().__init__(path, "diskgnn.samples", (1, 2))
        r, self.n_classes = Reader(self.file("index.bin", "u1").tobytes()), n_classes
        if r.take("S8", 1)[0] != b"DGNNSMP1":
            raise ValueError(f"{path}/index.bin is no index of samples")
        layers, self.per_file, n = r.one("<u4"), r.one("<u4"), r.one("<u8")
        self.records = r.take([("at", "<u8"), ("size", "<u8"), ("crc", "<u4"), ("counts", "<u4", 2 * layers + 1)], n)
        self.hotness = self.file("hotness.bin", "<u4")

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        r = self.records[i]
        data = self.file(f"batches-{i // self.per_file:05}.bin", "u1")[int(r["at"]):int(r["at"] + r["size"])]
        return Batch(data.tobytes(), self.n_classes)


class Pack(Directory):
    """The training batches with their features."""

    def __init__(self, path, n_classes=None):
        super().__init__(path, "diskgnn.pack", (2, 3, 4, 5))
        if self.params["codec"] != "none":
            raise ValueError(f"{path}: its chunks are compressed ({self.params['codec']}): pack with --compress-chunks none")
        if self.params["policy"] != "static":
            raise ValueError(f"{path}: its policy is {self.params['policy']}: pack with --policy static")
        f, self.n_classes = self.facts, n_classes or self.facts["classes"]
        r = Reader(self.file("index.bin", "u1").tobytes())
        if r.take("S8", 1)[0] not in (b"DGNNPIX2", b"DGNNPIX3"):
            raise ValueError(f"{path}/index.bin is no index of a pack")
        train, _, _, segments, bands, edges = r.take("<u4", 6).tolist()
        r.take("<u8", edges)
        self.records = r.take([("input", "<u4"), ("seeds", "<u4"), ("edges", "<u4"), ("cold", "<u4", bands), ("ssd", "<u4", bands), ("chunk", "<u8"),
                               ("chunk_bytes", "<u8"), ("graph", "<u8"), ("graph_bytes", "<u4"), ("crc", "<u4")], train)
        self.segments = r.take([("at", "<u8"), ("rows", "<u4")], segments)
        self.group = -(-64 // f["segment"]) * f["segment"]  # batches in a file
        self.hot = self.rows("hot.bin", 0, f["hot_rows"])

    def __len__(self):
        return len(self.records)

    def rows(self, name, at, n):
        """n rows of a file, as they lie there."""
        width = self.facts["row_bytes"]
        return self.file(name, "u1")[at:at + n * width].reshape(n, width)

    def floats(self, rows):
        kind, dim, rows = self.facts["dtype"], self.facts["dim"], np.ascontiguousarray(rows)
        if kind == "int8":
            return rows[:, :4].copy().view("<f4") * rows[:, 4:4 + dim].view("i1")
        values = rows.view(TYPES[kind])
        return (values.astype("<u4") << 16).view("<f4") if kind == "bfloat16" else values

    def __getitem__(self, i):
        i = range(len(self))[i]
        r, group = self.records[i], i // self.group
        at, n = int(r["graph"]), int(r["graph_bytes"])
        b = Batch(self.file(f"graph-{group:05}.bin", "u1")[at:at + n].tobytes(), self.n_classes)
        cold, ssd = int(r["cold"].sum()), int(r["ssd"].sum())
        parts = [self.rows(f"cold-{group:05}.bin", int(r["chunk"]), cold)] if cold else []
        if ssd:
            s = self.segments[i // self.facts["segment"]]
            parts.append(self.rows(f"ssd-{group:05}.bin", int(s["at"]), int(s["rows"]))[np.frombuffer(b.rest, "<u4", ssd)])
        parts.append(self.hot[b.input[cold + ssd:]])
        b.x = self.floats(np.concatenate(parts))
        return b
