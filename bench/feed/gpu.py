"""Batches of a pack on a GPU, for PyTorch Geometric's GraphSAGE: ways of loading in turn, with the model and without, beside its
steps on batches that lie on the GPU.

    PYTHONPATH=python python3 bench/feed/gpu.py PACK [--rounds 5] [--epochs 4] [--gpu-cache 10%] [FLAG=VALUE …]

The ways:

    copied     Loader(device="cuda"): all rows are copied ahead of the model
    gathered   Loader(device="cuda", gpu_cache=…): the model's process gathers rows that the GPU holds
    arenas     the same in a second process, which hands memory of the GPU over by CUDA IPC: what a program with a GPU engine of
               its own would do. Without MPS, kernels of two processes take turns.
    engine     `train --engine gpu`, as wide as the features: its loading, beside which the computing is short

FLAG=VALUE are flags of the Loader, such as ram_cache=10%. The program is in PATH, or $DISKGNN names it.
"""

import argparse
import statistics

import torch
import torch.multiprocessing as mp

from common import graphsage, later, line, trained, turns
from diskgnn import Loader

ARENAS = 3


def tensors(batch):
    return [batch.x, batch.y] + [t for b in batch.blocks for t in (b.edge_index, b.dst)]


def produce(pack, epochs, flags, size, send, receive):
    """The second process: it loads batches into arenas, in turn, and sends the shapes and types of their arrays."""
    arenas = [torch.empty(size, dtype=torch.uint8, device="cuda") for _ in range(ARENAS)]
    filled = [torch.cuda.Event(interprocess=True) for _ in range(ARENAS)]
    for e in filled:
        e.record()
    send.send([(a, e.ipc_handle()) for a, e in zip(arenas, filled)])
    used = [torch.cuda.Event.from_ipc_handle(torch.device("cuda", 0), h) for h in receive.recv()]
    for batch in Loader(pack, epochs=epochs, device="cuda", **flags):
        k, at, arrays = batch.number % ARENAS, 0, []
        if batch.number >= ARENAS:
            receive.recv()
            used[k].wait()
        for t in tensors(batch):
            arenas[k][at : at + t.nbytes].view(t.dtype).view(t.shape).copy_(t)
            arrays.append((at, tuple(t.shape), t.dtype))
            at += -(-t.nbytes // 256) * 256
        filled[k].record()
        send.send(arrays)
    receive.recv()  # the arenas stay until the last batch was used


class Arenas:
    """Iterates over the tensors of batches from a second process."""

    def __init__(self, pack, epochs, size, flags):
        context = mp.get_context("spawn")
        self.receive, theirs = context.Pipe(duplex=False)
        other, self.send = context.Pipe(duplex=False)
        self.process = context.Process(target=produce, args=(pack, epochs, flags, size, theirs, other))
        self.process.start()
        self.arenas, handles = zip(*self.receive.recv())
        self.filled = [torch.cuda.Event.from_ipc_handle(torch.device("cuda", 0), h) for h in handles]
        self.used = [torch.cuda.Event(interprocess=True) for _ in range(ARENAS)]
        for e in self.used:
            e.record()
        self.send.send([e.ipc_handle() for e in self.used])
        self.number = 0

    def __next__(self):
        if self.number:
            self.used[(self.number - 1) % ARENAS].record()
            self.send.send(None)
        arena, filled = self.arenas[self.number % ARENAS], self.filled[self.number % ARENAS]
        arrays = self.receive.recv()
        filled.wait()
        self.number += 1
        return [arena[at : at + torch.Size(shape).numel() * dtype.itemsize].view(dtype).view(shape) for at, shape, dtype in arrays]

    def close(self):
        torch.cuda.synchronize()
        for _ in range(ARENAS):
            self.send.send(None)
        self.process.join()


class Loaded:
    """Iterates over the tensors of a Loader's batches."""

    def __init__(self, pack, epochs, flags):
        self.loader = Loader(pack, epochs=epochs, device="cuda", **flags)
        self.batches = iter(self.loader)

    def __next__(self):
        return tensors(next(self.batches))

    def close(self):
        self.loader.close()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("pack")
    p.add_argument("flags", nargs="*", metavar="FLAG=VALUE")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--gpu-cache", default="10%")
    a = p.parse_intermixed_args()
    flags = dict(f.split("=", 1) for f in a.flags)
    held = {**flags, "gpu_cache": a.gpu_cache}
    with Loader(a.pack, device="cuda", **flags) as loader:
        per, resident = loader.batches_per_epoch, [tensors(b) for b in loader]
        layers = (len(resident[0]) - 2) // 2
        widths = [loader.num_features, *[a.hidden] * (layers - 1), loader.num_classes]
    size = 2 * max(sum(t.nbytes + 256 for t in b) for b in resident)  # batches of other epochs may be larger
    train = graphsage(widths, "cuda")

    def step(arrays):
        train(arrays[0], list(zip(arrays[2::2], arrays[3::2])), arrays[1])

    def epochs(make, each):
        """The median seconds of the later epochs."""
        batches = make()

        def epoch():
            for _ in range(per):
                each(next(batches))
            torch.cuda.synchronize()

        seconds = later(a.epochs, epoch)
        batches.close()
        return seconds

    class Resident:
        def __init__(self):
            self.at = 0

        def __next__(self):
            self.at += 1
            return resident[(self.at - 1) % per]

        def close(self):
            pass

    makes = {"copied": lambda: Loaded(a.pack, a.epochs, flags), "gathered": lambda: Loaded(a.pack, a.epochs, held), "arenas": lambda: Arenas(a.pack, a.epochs, size, held)}
    ways = {"steps on resident batches": lambda: epochs(Resident, step)}
    for name, make in makes.items():
        for how, each in (("alone", lambda _: None), ("with the model", step)):
            ways[f"{name}, {how}"] = lambda make=make, each=each: epochs(make, each)
    ways["engine"] = lambda: trained(a.pack, a.epochs, engine="gpu", hidden=str(widths[0]), **held)
    times = turns(ways, a.rounds)
    steps = statistics.median(times["steps on resident batches"])
    for name, t in times.items():
        text = line(name, t)
        if name.endswith("with the model"):
            alone = statistics.median(times[name.replace("with the model", "alone")])
            text += f", {statistics.median(t) / max(alone, steps):.2f} of max(loading, steps)"
        print(text)


if __name__ == "__main__":
    main()
