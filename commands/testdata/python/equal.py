"""Compares the batches of Loaders with the arrays of the samples: python equal.py DATASET SAMPLES SPLIT EPOCHS ARGUMENTS...,
where ARGUMENTS are of Loader, as JSON objects."""

import json
import sys

import numpy as np

from diskgnn import Batch, Block, Dataset, Loader, Samples

dataset, samples, split, epochs, *loaders = sys.argv[1:]
d, s = Dataset(dataset), Samples(samples, Dataset(dataset).facts["classes"])
by_rank = np.lexsort((np.arange(len(s.hotness)), -s.hotness.astype("i8")))
assert np.array_equal(s.by_rank, by_rank)
counts = [s.facts[k] for k in ("train_batches", "valid_batches", "test_batches")]
which = ("train", "valid", "test").index(split)
first, n = sum(counts[:which]), counts[which]
per = s.facts["batches_per_epoch"] if which == 0 else n


def ids(b):
    """The ids of a batch's input nodes, None of a pack's."""
    try:
        return b.ids
    except ValueError as e:
        assert "a pack has no ids of nodes" in str(e), e
        return None


def on_host(b):
    """A batch of tensors on a device, as NumPy arrays."""
    its = ids(b)
    blocks = [Block(k.edge_index.cpu().numpy(), k.dst.cpu().numpy(), k.size) for k in b.blocks]
    return Batch(b.number, b.bytes_read, {"blocks": blocks, "ids": its if its is None else its.cpu().numpy(), **{name: getattr(b, name).cpu().numpy() for name in ("x", "y", "rank", "degree")}})


for text in loaders:
    args = json.loads(text)
    near, ranked = args.pop("near", 0), args.pop("ranked", True) and which == 0
    with Loader(split=split, epochs=int(epochs), torch=False, **args) as loader:
        assert (len(loader), loader.batches_per_epoch) == (int(epochs) * per, per), (text, len(loader), per)
        assert (loader.num_features, loader.num_classes) == (d.facts["dim"], d.facts["classes"])
        for b in loader:
            a = s[first + b.number % n]
            if "device" in args:
                b = on_host(b)
            x = d.features[a.input].astype("f4")
            assert b.x.dtype == "f4" and b.x.shape == x.shape and len(b.blocks) == len(a.blocks), text
            # Packed input nodes have another order: rows are compared at the ends of every edge.
            mine, its = b.blocks[0], a.blocks[0]
            assert mine.size == its.size and np.array_equal(mine.edge_index[1], its.edge_index[1]), text
            seen = np.zeros(len(x), bool)
            for i, j in ((mine.edge_index[0], its.edge_index[0]), (mine.dst, its.dst)):
                assert i.dtype == j.dtype == "i8" and i.shape == j.shape
                assert np.abs(b.x[i] - x[j]).max(initial=0) <= near * np.abs(x).max(), (text, b.number)
                assert np.array_equal(b.degree[i], a.degree[j]), (text, b.number)
                assert (ids(b) is None) == ("pack" in args)
                if "pack" not in args:
                    assert b.ids.dtype == "i8" and np.array_equal(b.ids[i], a.input[j]), (text, b.number)
                if ranked:
                    assert np.array_equal(by_rank[b.rank[i]], a.input[j]), (text, b.number)
                seen[i] = True
            assert seen.all()
            for mine, its in zip(b.blocks[1:], a.blocks[1:]):
                assert mine.size == its.size and np.array_equal(mine.edge_index, its.edge_index) and np.array_equal(mine.dst, its.dst), (text, b.number)
            assert np.array_equal(b.y, a.labels if a.targets is None else a.targets), (text, b.number)
