"""GraphBolt's loader alone, without a model, on features that are not in memory: a JSON line with the seconds of
each epoch, and the bytes that the kernel read for the process.

    loading.py DATASET --features FILE.npy --by mmap|uring --batch 1024 --fanout 10,10 --epochs 2 [--dgl CHECKOUT]

DATASET is a directory of diskgnn; FILE.npy takes its features, once. By mmap: in_memory=False, page faults. By
uring: DiskBasedFeature, which reads around the page cache; DGL 2.1 lacks it, so that it is built from CHECKOUT, of
a later version. While a batch's features are read, the next batch is sampled.

The page cache of FILE.npy is empty before the first epoch.
"""
import argparse
import functools
import json
import os
import sys
import time
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("DGLBACKEND", "pytorch")
warnings.filterwarnings("ignore")
sys.path.insert(0, str(Path(__file__).parents[2] / "python"))
import dgl
import dgl.graphbolt as gb
import numpy as np
import torch

import diskgnn

SHIM = "#pragma once\n#include <semaphore>\nnamespace cuda { namespace std { using ::std::counting_semaphore; } }\n"


def build(checkout):
    """Makes torch.ops.diskbased of DGL's own files. libcu++'s semaphore is the standard library's."""
    from torch.utils.cpp_extension import load

    src = checkout / "graphbolt/src"
    shim = checkout / "shim/cuda/std/semaphore"
    shim.parent.mkdir(parents=True, exist_ok=True)
    shim.write_text(SHIM)
    load("diskbased", [str(Path(__file__).parent / "diskbased.cpp"), *(str(src / f) for f in ("cnumpy.cc", "io_uring.cc", "utils.cc"))],
         extra_include_paths=[str(src), str(checkout / "graphbolt/include"), str(checkout / "shim")],
         extra_cflags=["-O3", "-std=c++20", "-DHAVE_LIBRARY_LIBURING"], extra_ldflags=["-luring"], is_python_module=False)


def read_bytes():
    """Bytes that storage was asked for, page faults of mapped files included."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["read_bytes"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--by", choices=("mmap", "uring"), required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--fanout", type=lambda s: [int(k) for k in s.split(",")], required=True)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--dgl", type=Path)
    args = parser.parse_args()
    torch.set_num_interop_threads(args.threads)
    dgl.utils.set_num_threads(args.threads)
    data = diskgnn.Dataset(args.dataset)
    if not args.features.exists():
        np.save(args.features, data.features.rows)
    with open(args.features, "rb+") as f:  # pages that were not written yet cannot be dropped
        os.fsync(f.fileno())
        os.posix_fadvise(f.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    mapped = torch.from_numpy(np.load(args.features, mmap_mode="r+"))
    if args.by == "uring":
        build(args.dgl)
        array = torch.ops.diskbased.array(str(args.features), mapped.dtype, list(mapped.shape), args.threads)
        begin, end = array.index_select, lambda read: read.wait()
    else:
        begin = functools.partial(ThreadPoolExecutor(1).submit, gb.TorchBasedFeature(mapped).read)
        end = Future.result

    graph = gb.fused_csc_sampling_graph(torch.from_numpy(np.array(data.indptr)), torch.from_numpy(data.indices.astype("i8")))
    torch.manual_seed(0)
    dgl.seed(0)
    np.random.seed(0)
    items = gb.ItemSet(torch.from_numpy(data.train.astype("i8")), names="seed_nodes")
    loader = gb.DataLoader(gb.ItemSampler(items, batch_size=args.batch, shuffle=True).sample_neighbor(graph, args.fanout), num_workers=0)
    epochs = []
    for _ in range(args.epochs):
        start, before, rows, under_way = time.perf_counter(), read_bytes(), 0, None
        for b in loader:
            now = begin(b.input_nodes)
            if under_way is not None:
                rows += len(end(under_way))
            under_way = now
        rows += len(end(under_way))
        epochs.append({"seconds": round(time.perf_counter() - start, 3), "bytes_read": read_bytes() - before, "rows": rows})
    ids = torch.arange(0, len(mapped), len(mapped) // 1000 + 1)
    assert torch.equal(end(begin(ids)), mapped[ids])
    print(json.dumps({"loader": f"graphbolt, {args.by}", "epochs": epochs}))


if __name__ == "__main__":
    main()
