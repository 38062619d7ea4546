"""Batches of a Loader on a device: python device.py DEVICE, beside the packs of TestPythonLoaderDevice."""

import os
import sys

import torch

from diskgnn import FeedError, Loader

device = sys.argv[1]


def refused(kind, call, *says):
    try:
        call()
    except kind as e:
        assert all(s in str(e) for s in says), f"{e!r} says nothing of {says}"
        return
    raise AssertionError(f"no {kind.__name__}")


# Batches are their owner's: they stay, and may be written to.
kept = list(Loader("p", device=device, gpu_cache="10%"))
for a, b in zip(kept, Loader("p", copy=True, torch=True)):
    assert a.x.device.type == torch.device(device).type
    assert torch.equal(a.x.cpu(), b.x) and torch.equal(a.y.cpu(), b.y) and torch.equal(a.blocks[0].edge_index.cpu(), b.blocks[0].edge_index)
    a.x.zero_()

for a, b in zip(Loader("p", device=device, gpu_cache="10%", dtype=torch.bfloat16), Loader("p", torch=True, dtype=torch.bfloat16)):
    assert a.x.dtype == torch.bfloat16 and torch.equal(a.x.cpu(), b.x)

# A position counts batches that were taken, not the one that is copied ahead; a loop that is left goes on.
with Loader("p", device=device, epochs=2) as loader:
    numbers = [next(iter(loader)).number for _ in range(3)]
    state = loader.state_dict()
    assert numbers == [0, 1, 2] and state["position"] == 3
    assert [b.number for b in loader] == list(range(3, len(loader)))
    assert [b.number for b in loader] == list(range(len(loader)))
again = Loader("p", device=device, epochs=2)
again.load_state_dict(state)
assert [b.number for b in again] == list(range(3, len(again)))



def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1]))


# An error comes in the place of its batch, though that one is copied ahead.
size = os.path.getsize("p/cold-00000.bin")
for at in range(size // 2, size, 64):  # some lie between chunks
    flip("p/cold-00000.bin", at)
taken = []
refused(FeedError, lambda: [taken.append(b.number) for b in Loader("p", device=device, epochs=2, ram_cache="5%")], "cold-00000.bin")
assert taken == list(range(len(taken))) and 0 < len(taken) < len(Loader("p", epochs=2))
flip("p/hot.bin", 5)
refused(FeedError, lambda: list(Loader("p", device=device, gpu_cache="10%")), "hot.bin")

refused(TypeError, lambda: Loader("p", gpu_cache="1%"), "device")
refused(FeedError, lambda: list(Loader("pm", device=device, gpu_cache="1%")), "policy min")
refused(FeedError, lambda: list(Loader(dataset="d", samples="s", device=device, gpu_cache="1%")), "store memory")
