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

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from .loader import Block, classes

_Array = npt.NDArray[Any]
_TYPES = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}


class _Directory:
    def __init__(self, path: str, kind: str, versions: Sequence[int]) -> None:
        self.path = path
        with open(os.path.join(path, "meta.json")) as f:
            self.meta: Dict[str, Any] = json.load(f)
        self.params: Dict[str, Any] = self.meta["params"]
        self.facts: Dict[str, Any] = self.meta["facts"]
        form = self.meta["format"]
        if form["name"] != kind or form["version"] not in versions:
            raise ValueError(f"{path} is {form['name']}, version {form['version']}: this reads {kind}, {versions}"
                             + (", without compression" if kind == "diskgnn.dataset" else ""))

    def _file(self, name: str, dtype: str, shape: Union[int, Tuple[int, ...]] = -1) -> _Array:
        path = os.path.join(self.path, name)
        if os.path.getsize(path) == 0:
            return np.zeros(0, dtype).reshape(shape)
        return np.memmap(path, dtype, "r").reshape(shape)


class _Rows:
    """A feature table, by node: rows are float32, or float16 as they are stored."""

    def __init__(self, rows: _Array, widen: bool) -> None:
        self.rows, self.widen, self.shape = rows, widen, rows.shape

    def __getitem__(self, nodes: Any) -> _Array:
        rows = np.asarray(self.rows[nodes])
        return (rows.astype("<u4") << 16).view("<f4") if self.widen else rows


class Dataset(_Directory):
    """indptr, indices: in-neighbours in compressed columns. labels: -1 is none. ids: by node the number that it had
    in the source, or its name; None where these are the nodes'."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "diskgnn.dataset", (1, 3))
        f = self.facts
        self.indptr, self.indices = self._file("indptr.bin", "<i8"), self._file("indices.bin", "<u4")
        self.features = _Rows(self._file("features.bin", _TYPES[f["dtype"]], (f["nodes"], f["dim"])), f["dtype"] == "bfloat16")
        if f["label_kind"] == "none":  # of a dataset to predict on
            return
        self.labels = self._file("labels.bin", "<i4")
        if f["label_kind"] == "multi-hot":  # by node: classes(d.targets[nodes], d.facts["classes"])
            self.targets = self._file("targets.bin", "u1", (f["nodes"], -1))
        self.train, self.valid, self.test = (self._file(name + ".bin", "<u4") for name in ("train", "valid", "test"))

    @property
    def class_names(self) -> Optional[List[str]]:
        """By class its name; None if the classes have none."""
        if "class_name_bytes" not in self.facts:
            return None
        return self._file("class_names.txt", "u1").tobytes().decode().split("\n")[:-1]

    @property
    def ids(self) -> Union[None, _Array, List[str]]:
        kind = self.facts.get("original_ids")
        if kind == "number":
            return self._file("node_ids.bin", "<i8")
        if kind == "name":
            ends, names = self._file("name_offsets.bin", "<i8"), self._file("names.bin", "u1").tobytes()
            return [names[a:b].decode() for a, b in zip(ends[:-1], ends[1:])]
        return None

    def edge_index(self) -> _Array:
        """(2, edges): sources and destinations, as PyTorch Geometric has them."""
        return np.stack((self.indices.astype("i8"), np.repeat(np.arange(self.facts["nodes"]), np.diff(self.indptr))))


class _Reader:
    """Takes numbers from bytes, one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, dtype: Any, n: int) -> _Array:
        a: _Array = np.frombuffer(self.data, dtype, n, self.at)
        self.at += a.nbytes
        return a

    def one(self, dtype: str) -> int:
        return int(self.take(dtype, 1)[0])

    def narrow(self, n: int, width: int) -> _Array:
        """n numbers of 1 to 4 bytes."""
        wide = np.zeros((n, 4), "u1")
        wide[:, :width] = self.take("u1", n * width).reshape(n, width)
        return wide.view("<u4").reshape(n)

    def bits(self, n: int, width: int) -> _Array:
        """n numbers of a width in bits, one after another."""
        return _unpacked(self.take("u1", -(-n * width // 8)), np.arange(n) * width, width)

    def list(self, n: int) -> _Array:
        """n numbers in blocks of 128, each with a width of its own, of which the values follow in one of four ways."""
        if n == 0:
            return np.zeros(0, "<u4")
        form, base = self.one("u1"), np.uint32(self.one("<u4"))
        begin = self.take("<u4", int(base)) if form == 3 else np.zeros(0, "<u4")
        of = self.bits(n, (len(begin) - 1).bit_length()) if form == 3 else np.zeros(0, "<u4")
        widths = self.take("u1", -(-n // 128)).astype("i8")
        sizes = 16 * widths
        sizes[-1] = -(-(n - 128 * (len(widths) - 1)) * widths[-1] // 8)
        i, starts = np.arange(n), 8 * (np.cumsum(sizes) - sizes)
        v = _unpacked(self.take("u1", int(sizes.sum())), starts[i // 128] + i % 128 * widths[i // 128], widths[i // 128])
        if form == 0:
            return v + base
        if form == 1:
            return base + np.cumsum(v, dtype="<u4")
        if form == 2:
            return base - np.cumsum(v, dtype="<u4")
        for k, first in enumerate(begin):
            v[of == k] = first + np.cumsum(v[of == k], dtype="<u4")
        return v


def _unpacked(data: _Array, at: _Array, width: Any) -> _Array:
    """The numbers that begin at the given bits of data, with their widths in bits."""
    padded, first = np.concatenate((data, np.zeros(5, "u1"))).astype("u8"), at >> 3
    v: _Array = sum((padded[first + k] << np.uint64(8 * k) for k in range(5)), np.zeros(len(at), "u8"))
    wide = np.asarray(width, "u8")
    return (v >> (at & 7).astype("u8") & ((np.uint64(1) << wide) - np.uint64(1))).astype("<u4")


class StoredBatch:
    """input: node ids, of a pack ranks. degree: theirs in the whole graph. blocks: input side first. labels: of the
    seed nodes, or targets, a column per class. x: of the input nodes."""

    x: Optional[_Array] = None

    def __init__(self, data: bytes, n_classes: Optional[int] = None) -> None:
        r = _Reader(data)
        layers, n, seeds = (r.one("<u4") for _ in range(3))
        width, row = r.one("u1"), int.from_bytes(r.take("u1", 3).tobytes(), "little")
        heads = [(r.one("<u4"), r.one("<u4"), r.one("<u4"), *r.take("u1", 4).tolist()) for _ in range(layers)]
        self.input, self.degree = r.take("<u4", n), r.narrow(n, width)
        self._read(r, r.narrow, heads, seeds, row, n_classes)
        self.rest = data[r.at:]

    @classmethod
    def _packed(cls, data: bytes, inputs: int, cold: List[int], ssd: List[int], n_classes: Optional[int]) -> Tuple["StoredBatch", _Array]:
        """A training batch of a pack since version 6, and the places of its rows of the SSD level. cold and ssd are the rows of
        each band."""
        b, r = cls.__new__(cls), _Reader(data)
        b.degree = r.list(inputs)
        layers, _, seeds, row = (r.one("<u4") for _ in range(4))
        heads = [(r.one("<u4"), r.one("<u4"), r.one("<u4"), *r.take("u1", 4).tolist()) for _ in range(layers)]
        b._read(r, r.bits, heads, seeds, row, n_classes)
        places, hot = r.list(sum(ssd)), r.list(inputs - sum(cold) - sum(ssd))
        bands = [(r.list(c), r.list(s)) for c, s in zip(cold[::-1], ssd[::-1])][::-1]
        b.input = np.concatenate([c for c, _ in bands] + [s for _, s in bands] + [hot])
        return b, places

    def _read(self, r: _Reader, numbers: Any, heads: List[Any], seeds: int, row: int, n_classes: Optional[int]) -> None:
        """Reads blocks, of which numbers(n, width) reads arrays, and classes."""
        self.blocks: List[Block] = []
        for sources, destinations, edges, counts, positions, places, _ in heads:
            to = np.repeat(np.arange(destinations), numbers(destinations, counts))
            edge_index = np.stack((numbers(edges, positions).astype("i8"), to))
            dst = numbers(destinations, places).astype("i8") if places else np.arange(destinations)
            self.blocks.append(Block(edge_index, dst, (sources, destinations)))
        self.labels = r.take("<i4", seeds)
        self.targets = classes(r.take("u1", seeds * row).reshape(seeds, row), n_classes) if row else None

    def tensors(self) -> Dict[str, Any]:
        """The same for PyTorch Geometric: conv((x, x[block["dst"]]), block["edge_index"]), block after block."""
        import torch

        def t(a: Optional[_Array]) -> Any:
            return None if a is None else torch.from_numpy(np.array(a))

        y = t(self.labels.astype("i8")) if self.targets is None else t(self.targets)
        return {"x": t(self.x), "y": y, "blocks": [{"edge_index": t(b.edge_index), "dst": t(b.dst), "size": b.size} for b in self.blocks]}


class Samples(_Directory):
    """The batches, training ones first (facts: train_batches), then valid_batches, then test_batches."""

    def __init__(self, path: str, n_classes: Optional[int] = None) -> None:
        super().__init__(path, "diskgnn.samples", (1, 2))
        r, self.n_classes = _Reader(self._file("index.bin", "u1").tobytes()), n_classes
        if r.take("S8", 1)[0] != b"DGNNSMP1":
            raise ValueError(f"{path}/index.bin is no index of samples")
        layers, self.per_file, n = r.one("<u4"), r.one("<u4"), r.one("<u8")
        self.records = r.take([("at", "<u8"), ("size", "<u8"), ("crc", "<u4"), ("counts", "<u4", 2 * layers + 1)], n)
        self.hotness = self._file("hotness.bin", "<u4")

    @property
    def by_rank(self) -> _Array:
        """The node of each rank: by descending hotness, ties by ascending id. `by_rank[rank]` are ids of nodes of a pack."""
        return np.argsort(-self.hotness.astype("<i8"), kind="stable")

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, i: int) -> StoredBatch:
        r = self.records[i]
        data = self._file(f"batches-{i // self.per_file:05}.bin", "u1")[int(r["at"]):int(r["at"] + r["size"])]
        return StoredBatch(data.tobytes(), self.n_classes)


class Pack(_Directory):
    """The training batches with their features."""

    def __init__(self, path: str, n_classes: Optional[int] = None) -> None:
        super().__init__(path, "diskgnn.pack", (2, 3, 4, 5, 6, 7))
        if self.params["codec"] != "none":
            raise ValueError(f"{path}: its chunks are compressed ({self.params['codec']}): pack with --compress-chunks none")
        if self.params["policy"] != "static":
            raise ValueError(f"{path}: its policy is {self.params['policy']}: pack with --policy static")
        f, self.n_classes = self.facts, n_classes or self.facts["classes"]
        r = _Reader(self._file("index.bin", "u1").tobytes())
        magic = r.take("S8", 1)[0]
        if magic not in (b"DGNNPIX2", b"DGNNPIX3", b"DGNNPIX4", b"DGNNPIX5"):
            raise ValueError(f"{path}/index.bin is no index of a pack")
        self._bytewise = magic in (b"DGNNPIX2", b"DGNNPIX3")
        train, _, _, segments, bands, edges = r.take("<u4", 6).tolist()
        r.take("<u8", edges)
        self.records = r.take([("input", "<u4"), ("seeds", "<u4"), ("edges", "<u4"), ("cold", "<u4", bands), ("ssd", "<u4", bands), ("chunk", "<u8"),
                               ("chunk_bytes", "<u8"), ("graph", "<u8"),
                               ("sections", [("bytes", "<u4"), ("crc", "<u4")], 1 if self._bytewise else 3 + bands)], train)
        self.segments = r.take([("at", "<u8"), ("rows", "<u4")], segments)
        self.group = -(-64 // f["segment"]) * f["segment"]  # batches in a file
        self.hot = self._rows("hot.bin", 0, f["hot_rows"])

    def __len__(self) -> int:
        return len(self.records)

    def _rows(self, name: str, at: int, n: int) -> _Array:
        """n rows of a file, as they lie there."""
        width = self.facts["row_bytes"]
        return self._file(name, "u1")[at:at + n * width].reshape(n, width)

    def _floats(self, rows: _Array) -> _Array:
        kind, dim, rows = self.facts["dtype"], int(self.facts["dim"]), np.ascontiguousarray(rows)
        if kind == "int8":
            values: _Array = rows[:, :4].copy().view("<f4") * rows[:, 4:4 + dim].view("i1")
            return values
        if kind == "int4":
            groups = -(-dim // 32)
            at = -(-2 * groups // 4) * 4
            scales = rows[:, :2 * groups].copy().view("<f2").astype("f4")
            codes = rows[:, at:at + (dim + 1) // 2]
            q = np.stack((codes << 4, codes), axis=2).view("i1") >> 4  # low halves, then high ones, with their signs
            values = q.reshape(len(q), -1)[:, :dim] * np.repeat(scales, 32, axis=1)[:, :dim]
            return values
        values = rows.view(_TYPES[kind])
        return (values.astype("<u4") << 16).view("<f4") if kind == "bfloat16" else values

    def __getitem__(self, i: int) -> StoredBatch:
        i = range(len(self))[i]
        r, group = self.records[i], i // self.group
        at, n = int(r["graph"]), int(r["sections"]["bytes"].sum())
        data = self._file(f"graph-{group:05}.bin", "u1")[at:at + n].tobytes()
        cold, ssd = int(r["cold"].sum()), int(r["ssd"].sum())
        if self._bytewise:
            b = StoredBatch(data, self.n_classes)
            places = np.frombuffer(b.rest, "<u4", ssd)
        else:
            b, places = StoredBatch._packed(data, int(r["input"]), r["cold"].tolist(), r["ssd"].tolist(), self.n_classes)
        parts = [self._rows(f"cold-{group:05}.bin", int(r["chunk"]), cold)] if cold else []
        if ssd:
            s = self.segments[i // self.facts["segment"]]
            parts.append(self._rows(f"ssd-{group:05}.bin", int(s["at"]), int(s["rows"]))[places])
        parts.append(self.hot[b.input[cold + ssd:]])
        b.x = self._floats(np.concatenate(parts))
        return b
