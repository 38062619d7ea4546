"""Batches of a pack through diskgnn.Loader beside `diskgnn train --engine none` on it, in turn: seconds of the later epochs,
without a model.

    PYTHONPATH=python python3 bench/feed/loading.py PACK [--rounds 7] [--epochs 4] [--neighbor DATASET] [FLAG=VALUE …]

FLAG=VALUE are flags of the Loader, such as ram_cache=10%. The program is in PATH, or $DISKGNN names it. With --neighbor, the
pack's dataset, PyTorch Geometric's NeighborLoader takes its turn, with all rows in memory and the pack's numbers of neighbours,
and so does an epoch of GraphSAGE by either loader, on the CPU. It needs pyg-lib or torch-sparse.
"""

import argparse
import json
import os

from common import graphsage, later, line, trained, turns
from diskgnn import Dataset, Loader

p = argparse.ArgumentParser()
p.add_argument("pack")
p.add_argument("flags", nargs="*", metavar="FLAG=VALUE")
p.add_argument("--rounds", type=int, default=7)
p.add_argument("--epochs", type=int, default=4)
p.add_argument("--neighbor", metavar="DATASET")
a = p.parse_intermixed_args()
flags = dict(f.split("=", 1) for f in a.flags)


def loading(each=None):
    """Seconds of an epoch. each takes its batches."""
    with Loader(a.pack, epochs=a.epochs, torch=each is not None, **flags) as loader:
        batches = iter(loader)

        def epoch():
            for _ in range(loader.batches_per_epoch):
                batch = next(batches)
                if each:
                    each(batch.x, [(b.edge_index, b.dst) for b in batch.blocks], batch.y)

        return later(a.epochs, epoch)


def alone():
    """The same of `train --engine none`."""
    return trained(a.pack, a.epochs, engine="none", **flags)


def peers():
    """The ways with PyTorch Geometric."""
    import torch
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    torch.set_num_threads(2)
    with open(os.path.join(a.pack, "meta.json")) as f:
        facts = json.load(f)["facts"]
    d, fanout = Dataset(a.neighbor), facts["fanout"]
    data = Data(x=torch.from_numpy(d.features[:].astype("f4")), y=torch.from_numpy(d.labels.astype("i8")), edge_index=torch.from_numpy(d.edge_index()))
    seeds, size = torch.from_numpy(d.train.astype("i8")), -(-len(d.train) // facts["batches_per_epoch"])
    neighbors = NeighborLoader(data, fanout[::-1], seeds, batch_size=size, shuffle=True)
    widths = [facts["dim"]] + [256] * (len(fanout) - 1) + [facts["classes"]]
    step = graphsage(widths, "cpu")

    def memory(each=None):
        def epoch():
            for b in neighbors:
                n, blocks = b.batch_size, []
                for _ in fanout if each else ():  # as trim_to_layer does, which needs pyg-lib: nodes lie in the order found
                    edges = b.edge_index[:, b.edge_index[1] < n]
                    blocks.insert(0, (edges, slice(n)))
                    n = max(n, int(edges[0].max()) + 1)
                if each:
                    each(b.x, blocks, b.y[: b.batch_size])

        return later(a.epochs, epoch)

    return {"NeighborLoader": memory, "loader and model": lambda: loading(step), "NeighborLoader and model": lambda: memory(step)}


ways = {"train --engine none": alone, "loader": loading}
if a.neighbor:
    ways.update(peers())
for name, times in turns(ways, a.rounds).items():
    print(line(name, times))
