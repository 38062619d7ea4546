"""What the scripts of this directory share: a model, and ways of loading in turn."""

import json
import os
import statistics
import subprocess
import tempfile
import time


def graphsage(widths, device):
    """A function that takes a step of training PyTorch Geometric's GraphSAGE on a batch: x, (edges, positions of the destinations
    among the sources) for each layer, and y."""
    import torch
    import torch.nn.functional as F
    from torch_geometric.nn import SAGEConv

    convs = torch.nn.ModuleList(SAGEConv((i, i), o) for i, o in zip(widths, widths[1:])).to(device)
    optimizer = torch.optim.Adam(convs.parameters(), lr=0.003)

    def step(x, layers, y):
        for conv, (edges, dst) in zip(convs, layers):
            x = conv((x, x[dst]), edges)
            if conv is not convs[-1]:
                x = x.relu()
        optimizer.zero_grad()
        F.cross_entropy(x, y, ignore_index=-1).backward()
        optimizer.step()

    return step


def later(epochs, epoch):
    """The median seconds of the epochs but the first."""
    times = []
    for _ in range(epochs):
        began = time.perf_counter()
        epoch()
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def trained(pack, epochs, **flags):
    """The median seconds of the epochs but the first of `train` on a pack."""
    with tempfile.TemporaryDirectory() as d:
        given = [w for name, value in flags.items() for w in ("--" + name.replace("_", "-"), value)]
        command = [os.environ.get("DISKGNN", "diskgnn"), "train", "--pack", pack, "--out", os.path.join(d, "run"), "--epochs", str(epochs), "--validate-every", str(epochs + 1), "--json", "--quiet"]
        out = subprocess.run(command + given, check=True, capture_output=True, text=True).stdout
    return statistics.median(e["seconds"] for e in json.loads(out)["epochs"][1:])


def turns(ways, rounds):
    """The seconds that each way returns, by name: one after the other, in each second round in the opposite order."""
    times = {name: [] for name in ways}
    for r in range(rounds):
        for name in list(ways)[:: 1 if r % 2 == 0 else -1]:
            times[name].append(ways[name]())
            print(json.dumps({"round": r, "way": name, "epoch_seconds": round(times[name][-1], 4)}), flush=True)
    return times


def line(name, times):
    return f"{name}: {statistics.median(times):.4f} s ({min(times):.4f}–{max(times):.4f})"
