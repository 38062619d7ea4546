"""DGL with GraphBolt on features that are not in memory (in_memory: false), GraphSAGE, hidden 256, dropout
0.5: one JSON line with seconds, and bytes that the kernel read for this process, of each epoch. The page cache
of the features is empty before the first; nothing bounds it after.

    PEERS_DIR=… graphbolt.py GRAPH --data DIR --features FILE.npy --batch 512 --fanout 5,5 --epochs 2

PEERS_DIR holds common.py and nets_dgl.py, the graphs and models of the comparisons. FILE.npy is made if it
is not there.
"""
import json
import os
import sys
import time
import warnings
from pathlib import Path

os.environ.setdefault("DGLBACKEND", "pytorch")
warnings.filterwarnings("ignore")
sys.path.insert(0, os.environ["PEERS_DIR"])
import dgl
import dgl.graphbolt as gb
import numpy as np
import torch

import common
from nets_dgl import Net


def read_bytes():
    """Bytes that storage was asked for, page faults of mapped files included."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


def main():
    parser = common.arguments(__doc__)
    parser.add_argument("--features", type=Path, required=True)
    args = common.parse(parser)
    dgl.utils.set_num_threads(args.threads)
    g = common.load(args.dataset, args.data)
    if not args.features.exists():
        np.save(args.features, g.x.numpy())
    dim, g.x = g.x.shape[1], None
    with open(args.features, "rb+") as f:  # pages that were not written yet cannot be dropped
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    graph = gb.fused_csc_sampling_graph(g.indptr, g.indices)
    store = gb.TorchBasedFeatureStore([gb.OnDiskFeatureData(
        domain="node", type=None, name="feat", format="numpy", path=str(args.features), in_memory=False)])
    torch.manual_seed(0)
    dgl.seed(0)
    np.random.seed(0)
    net = Net("sage", dim, args.hidden, g.classes, args.layers, args.heads, args.dropout)
    net.train()
    adam = torch.optim.Adam(net.parameters(), lr=args.lr)
    items = gb.ItemSet((g.train, g.y[g.train]), names=("seed_nodes", "labels"))
    pipe = gb.ItemSampler(items, batch_size=args.batch, shuffle=True)
    loader = gb.DataLoader(pipe.sample_neighbor(graph, args.fanout).fetch_feature(store, node_feature_keys=["feat"]), num_workers=0)
    epochs = []
    for _ in range(args.epochs):
        start, before, rows = time.perf_counter(), read_bytes(), 0
        for b in loader:
            x = b.node_features["feat"]
            adam.zero_grad()
            torch.nn.functional.cross_entropy(net(x, [(block, None, None) for block in b.blocks]), b.labels).backward()
            adam.step()
            rows += len(x)
        epochs.append({"seconds": round(time.perf_counter() - start, 3), "bytes_read": read_bytes() - before, "rows": rows})
    print(json.dumps({"store": "graphbolt, in_memory: false", "epochs": epochs}))


if __name__ == "__main__":
    main()
