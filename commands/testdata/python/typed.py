"""Batches of a typed graph, with all neighbours: the sums over every relation are those of the dataset's files."""

import json
import sys

import numpy as np
import torch

from diskgnn import Loader

dataset, samples, packs = sys.argv[1], sys.argv[2], sys.argv[3:]
facts = json.load(open(dataset + "/meta.json"))["facts"]
kinds, relations = facts["types"]["node_types"], facts["types"]["relations"]
names = [k["name"] for k in kinds]
ends = np.cumsum([k["nodes"] for k in kinds])
begins = ends - [k["nodes"] for k in kinds]
into = [[r for r in range(len(relations)) if relations[r]["destination"] == t] for t in range(len(kinds))]
first = np.concatenate([[0], np.cumsum([k["nodes"] * len(into[t]) for t, k in enumerate(kinds)])])
indptr, indices = np.fromfile(dataset + "/indptr.bin", "<i8"), np.fromfile(dataset + "/indices.bin", "<u4")
features = np.fromfile(dataset + "/features.bin", "<f4").reshape(-1, facts["dim"])
featured = sum(k["nodes"] for k in kinds if k["features"])
table = np.zeros((ends[-1], facts["dim"]), "f4")
table[:featured] = features[:featured]


def key(r):
    k = relations[r]
    return names[k["source"]], k["name"], names[k["destination"]]


def sums(x, block):
    """The sums of the sources' rows by relation."""
    out = {}
    for r, e in block.edge_index_dict.items():
        n = len(block.dst_dict[r[2]])
        out[r] = torch.zeros(n, x[r[0]].shape[1]).index_add(0, e[1], x[r[0]][e[0]])
    return out


def expected(t, v, r):
    """The sum over the in-neighbours of node v of type t by relation r."""
    row = first[t] + (v - begins[t]) * len(into[t]) + into[t].index(r)
    return table[indices[indptr[row] : indptr[row + 1]]].sum(0)


loaders = [Loader(dataset=dataset, samples=samples)] + [Loader(p) for p in packs]
n = 0
for batches in zip(*loaders):
    of = []
    for b in batches:
        assert b.degree is None and len(b.types) == len(b.x)
        x, blocks = b.to_hetero()
        assert len(blocks) == 2 and all(not x[k["name"]].any() and len(x[k["name"]]) <= 1 for k in kinds if not k["features"])
        of.append((x, blocks, sums(x, blocks[0])))
        pairs = blocks[0].pairs(x)
        for r, (source, destination) in pairs.items():
            assert len(source) == len(x[r[0]]) and len(destination) == len(blocks[0].dst_dict[r[2]])
    x, blocks, got = of[0]
    ids, inputs = torch.as_tensor(batches[0].ids), torch.as_tensor(batches[0].types)
    for t, name in enumerate(names):
        if not kinds[t]["features"]:
            continue
        nodes = ids[inputs == t][blocks[0].dst_dict[name]]  # rows of features are nodes
        for r in into[t]:
            want = np.stack([expected(t, v, r) for v in nodes.numpy()]) if len(nodes) else np.zeros((0, facts["dim"]))
            np.testing.assert_allclose(got[key(r)].numpy(), want, rtol=1e-4, atol=1e-4)
            n += len(nodes)
    for x2, blocks2, got2 in of[1:]:
        for r in got:
            torch.testing.assert_close(got2[r], got[r], rtol=1e-4, atol=1e-4)
        for b1, b2 in zip(blocks[1:], blocks2[1:]):
            for r in b1.edge_index_dict:
                assert torch.equal(b1.edge_index_dict[r], b2.edge_index_dict[r])
            for name in names:
                assert torch.equal(b1.dst_dict[name], b2.dst_dict[name])
    assert torch.equal(torch.as_tensor(batches[0].y), torch.as_tensor(batches[1].y))
assert n > 100, n
