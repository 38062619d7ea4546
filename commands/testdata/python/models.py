"""Models of PyTorch Geometric that train through diskgnn.Loader: python models.py NAME ARGUMENTS... [+ NAME ARGUMENTS...]..."""

import importlib
import json
import os
import sys
import tempfile
import types

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn import Linear, ReLU, Sequential
from torch_geometric.nn import GATv2Conv, GINConv, SAGEConv

from diskgnn import BatchGone, Loader

torch.set_num_threads(2)


class Net(torch.nn.Module):
    def __init__(self, kind, widths):
        super().__init__()
        make = {"sage": SAGEConv, "gin": lambda i, o: GINConv(Sequential(Linear(i, o), ReLU(), Linear(o, o)), train_eps=True),
                "gatv2": lambda i, o: GATv2Conv(i, o, heads=2, concat=False, add_self_loops=False)}[kind]
        self.loops, self.convs = kind == "gatv2", torch.nn.ModuleList(make(i, o) for i, o in zip(widths, widths[1:]))

    def forward(self, x, blocks):
        for conv, b in zip(self.convs, blocks):
            edges = b.edge_index
            if self.loops:  # destination i is source dst[i]
                edges = torch.cat([edges, torch.stack([b.dst, torch.arange(len(b.dst))])], 1)
            x = conv((x, x[b.dst]), edges)
            x = x if conv is self.convs[-1] else F.relu(x)
        return x


def score(model, loader):
    right = n = 0
    with torch.no_grad():
        for b in loader:
            right += int((model(b.x, b.blocks).argmax(1) == b.y).sum())
            n += len(b.y)
    return right / n


def accuracy(kind, pack, least):
    """A model's accuracy on the test batches after some epochs."""
    torch.manual_seed(0)
    loader = Loader(pack, epochs=20)
    model = Net(kind, [loader.num_features, 32, loader.num_classes])
    optimizer = torch.optim.Adam(model.parameters(), 0.005)
    for b in loader:
        assert b.x.dtype == torch.float32 and b.y.dtype == b.blocks[0].dst.dtype == torch.int64
        loss = F.cross_entropy(model(b.x, b.blocks), b.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    got = score(model, Loader(pack, split="test"))
    assert got >= float(least), (kind, got)
    print(kind, got)


def losses(pack, weights, epochs, lr):
    """The losses of GraphSAGE that begins with the weights of a run, batch by batch."""
    from safetensors.torch import load_file

    state = load_file(weights)
    model = None
    for b in Loader(pack, epochs=int(epochs)):
        if model is None:
            widths = [len(state[f"convs.{l}.lin_l.bias"]) for l in range(len(b.blocks))]
            model = Net("sage", [b.x.shape[1], *widths])
            model.load_state_dict(state)
            optimizer = torch.optim.Adam(model.parameters(), float(lr))
        loss = F.cross_entropy(model(b.x, b.blocks), b.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())


def ddp(pack):
    """Two processes that train one model end with equal weights."""
    with tempfile.TemporaryDirectory() as directory:
        for n, share in enumerate((None, directory)):
            torch.multiprocessing.spawn(one_rank, (pack, f"{directory}/store{n}", share), 2)


def one_rank(rank, pack, store, share):
    torch.distributed.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
    loader = Loader(pack, epochs=3, rank=rank, world=2, share=share)
    model = torch.nn.parallel.DistributedDataParallel(Net("sage", [loader.num_features, 16, loader.num_classes]))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for b in loader:
        loss = F.cross_entropy(model(b.x, b.blocks), b.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    mine = torch.cat([w.detach().view(-1) for w in model.parameters()])
    its = mine.clone()
    torch.distributed.broadcast(its, 0)
    assert torch.equal(mine, its) and loss.isfinite()
    torch.distributed.destroy_process_group()


def dtypes(pack):
    """Tensors of the asked type are float32 rounded, in RAM and on a device."""
    whole = [b.x.clone() for b in Loader(pack)]
    for args in (dict(), dict(copy=True), dict(device="cpu"), dict(device="cpu", gpu_cache="20%")):
        for dtype in (torch.float32, torch.bfloat16, "float16"):
            for b, x in zip(Loader(pack, dtype=dtype, **args), whole):
                want = x.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)
                assert b.x.dtype == want.dtype and torch.equal(b.x, want), (args, dtype, b.number)


def tensors(pack):
    """Tensors have the values of the arrays, and no copy; a worker of a DataLoader is refused."""
    for a, b in zip(Loader(pack, torch=False), Loader(pack, torch=True)):
        assert isinstance(a.x, np.ndarray) and isinstance(b.x, torch.Tensor)
        pairs = [(a.x, b.x), (a.y, b.y), (a.rank, b.rank), (a.degree, b.degree)]
        for k, l in zip(a.blocks, b.blocks):
            pairs += [(k.edge_index, l.edge_index), (k.dst, l.dst)]
        assert all(np.array_equal(x, y.numpy()) for x, y in pairs)

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return (b.number for b in Loader(pack))

    load = lambda n: [int(b) for b in torch.utils.data.DataLoader(Stream(), num_workers=n, batch_size=None)]
    assert load(0) == list(range(len(Loader(pack))))
    try:
        load(1)
    except RuntimeError as e:
        assert "a Loader in a worker of a DataLoader" in str(e), e
    else:
        raise AssertionError("a worker is not refused")


def dgl(pack):
    """DGL's blocks: their destinations are the first sources."""

    class Empty(types.ModuleType):  # GraphBolt has libraries for some releases of PyTorch alone
        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return type(name, (), {})

    os.environ.setdefault("DGLBACKEND", "pytorch")
    sys.modules.setdefault("dgl.graphbolt", Empty("dgl.graphbolt"))
    try:
        dgl = importlib.import_module("dgl")
    except Exception as e:
        print("skipped:", e)
        return
    for b in Loader(pack):
        x, blocks = b.to_dgl()
        torch.manual_seed(b.number)
        for k, block in zip(b.blocks, blocks):
            assert (block.num_src_nodes(), block.num_dst_nodes()) == k.size and block.is_block
        mine, its = b.x, x
        for k, block in zip(b.blocks, blocks):
            want = torch.zeros(k.size[1], mine.shape[1]).index_add_(0, k.edge_index[1], mine[k.edge_index[0]]) + 2 * mine[k.dst]
            block.srcdata["h"] = its
            block.update_all(dgl.function.copy_u("h", "m"), dgl.function.sum("m", "s"))
            mine, its = want, block.dstdata["s"] + 2 * its[: block.num_dst_nodes()]
            assert torch.allclose(mine, its, 1e-5, 1e-5), b.number
    try:
        b.to_dgl()
    except BatchGone:
        return
    raise AssertionError("a batch that is gone gives blocks")


if __name__ == "__main__":
    for part in " ".join(sys.argv[1:]).split(" + "):
        name, *args = part.split()
        globals()[name](*args)
