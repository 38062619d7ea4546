"""DistDGL 2.1's part of compare.sh: GraphSAGE with means, dropout 0.5, Adam, as `diskgnn train` has it.

    distdgl.py partition --arrays DIR --out DIR --hosts W     arrays: what `diskgnn export --format npy` made
    distdgl.py train --partitions DIR --arrays DIR --out FILE --fanout 10,10 --batch 1000 --hidden 256 --epochs 3
    distdgl.py sum --kind NAME --hosts W --dataset DIR --link BYTES FILE…

train is a server if DGL_ROLE says so, else a trainer; both are told by the environment who they are. Each
process writes the peak of its resident memory to FILE, trainers their epochs too. sum makes one line of the
files of a run, of which rank 0's is the first, those of `diskgnn train --json` too.
"""
import argparse
import atexit
import json
import os
import sys
import time
from pathlib import Path

INTERFACE = "rank"  # of the link between the hosts


def link_bytes():
    """Bytes that the link to the other host has carried, both ways; 0 on a host that has none."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == INTERFACE:
            fields = counters.split()
            return int(fields[0]) + int(fields[8])
    return 0


def peak_rss():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def partition(args):
    import dgl
    import numpy as np
    import torch

    array = lambda name: np.load(args.arrays / f"{name}.npy")
    whole = lambda name: torch.from_numpy(array(name).astype(np.int64))  # torch has no unsigned ones
    graph = dgl.graph(("csc", (whole("indptr"), whole("indices"), [])))
    graph.ndata["feat"], graph.ndata["label"] = torch.from_numpy(array("features")), whole("labels")
    graph.ndata["train"] = torch.zeros(graph.num_nodes(), dtype=torch.bool)
    graph.ndata["train"][whole("train")] = True
    dgl.distributed.partition_graph(graph, "graph", args.hosts, str(args.out), part_method="metis",
                                    balance_ntypes=graph.ndata["train"].long())


def train(args):
    import dgl
    import dgl.nn
    import numpy as np
    import torch
    import torch.distributed as dist
    from torch.nn.functional import cross_entropy, dropout, relu

    threads = int(os.environ["OMP_NUM_THREADS"])
    torch.set_num_threads(threads)
    dgl.utils.set_num_threads(threads)
    record = {}
    atexit.register(lambda: args.out.write_text(json.dumps(record | {"peak_rss_bytes": peak_rss()})))
    dgl.distributed.initialize(os.environ["DGL_IP_CONFIG"])  # does not return in a server
    dist.init_process_group("gloo")

    torch.manual_seed(0)
    graph = dgl.distributed.DistGraph("graph", part_config=os.environ["DGL_CONF_PATH"])
    seeds = dgl.distributed.node_split(graph.ndata["train"], graph.get_partition_book(), force_even=True)
    sampler = dgl.dataloading.NeighborSampler([int(f) for f in args.fanout.split(",")])
    loader = dgl.dataloading.DistNodeDataLoader(graph, seeds, sampler, batch_size=args.batch, shuffle=True, drop_last=False)

    classes = int(np.load(args.arrays / "labels.npy", mmap_mode="r").max()) + 1
    dims = [graph.ndata["feat"].shape[1]] + [args.hidden] * (len(sampler.fanouts) - 1) + [classes]
    layers = torch.nn.ModuleList(dgl.nn.SAGEConv(i, o, "mean") for i, o in zip(dims, dims[1:]))

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = layers

        def forward(self, blocks, x):
            for n, (layer, block) in enumerate(zip(self.layers, blocks)):
                x = layer(block, x)
                if n < len(self.layers) - 1:
                    x = dropout(relu(x), 0.5, self.training)
            return x

    net = torch.nn.parallel.DistributedDataParallel(Net())
    adam = torch.optim.Adam(net.parameters(), lr=0.003)
    epochs = []
    for _ in range(args.epochs):
        dist.barrier()
        start, before, sums = time.perf_counter(), link_bytes(), torch.zeros(3, dtype=torch.float64)
        for inputs, outputs, blocks in loader:
            x, y = graph.ndata["feat"][inputs], graph.ndata["label"][outputs]
            loss = cross_entropy(net(blocks, x), y)
            adam.zero_grad()
            loss.backward()
            adam.step()
            sums += torch.tensor([1, len(inputs), loss.item()])
        dist.all_reduce(sums)  # and a barrier
        seconds, carried, (batches, rows, loss) = time.perf_counter() - start, link_bytes() - before, sums.tolist()
        epochs.append({"seconds": seconds, "rank_bytes": carried, "batches": int(batches), "input_nodes": int(rows),
                       "loss": loss / batches})
    record["epochs"] = epochs


def total(args):
    files = [json.loads(f.read_text()) for f in args.files]
    epochs = files[0]["epochs"]  # rank 0's are those of all ranks
    size = sum(f.stat().st_size for f in args.dataset.iterdir())
    memory = sum(f["peak_rss_bytes"] for f in files)
    print(json.dumps({
        "kind": args.kind, "hosts": args.hosts, "processes": len(files),
        "seconds": [round(e["seconds"], 2) for e in epochs],
        "rank_bytes": [e.get("rank_bytes", 0) for e in epochs],
        "batches": epochs[-1]["batches"], "input_nodes": epochs[-1]["input_nodes"], "loss": round(epochs[-1]["loss"], 3),
        "link_bytes_of_the_run": args.link,
        "peak_rss_bytes": memory, "memory_over_dataset": round(memory / size, 2)}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    part, run, summed = (commands.add_parser(n) for n in ("partition", "train", "sum"))
    for p in (part, run):
        p.add_argument("--arrays", type=Path, required=True)
        p.add_argument("--out", type=Path, required=True)
    part.add_argument("--hosts", type=int, required=True)
    run.add_argument("--fanout", required=True)
    for flag in ("--batch", "--hidden", "--epochs"):
        run.add_argument(flag, type=int, required=True)
    summed.add_argument("--kind", required=True)
    summed.add_argument("--hosts", type=int, required=True)
    summed.add_argument("--dataset", type=Path, required=True)
    summed.add_argument("--link", type=int, required=True)
    summed.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()
    {"partition": partition, "train": train, "sum": total}[args.command](args)


if __name__ == "__main__":
    sys.exit(main())
