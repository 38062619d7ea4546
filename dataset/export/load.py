"""Loads the graph in this directory into PyTorch Geometric: load() returns a HeteroData, or a Data of a graph with
one type. Arrays are mapped: they stay in their files until they are read."""

import json
import os

import numpy as np
import torch
from torch_geometric.data import Data, HeteroData


def load(directory=os.path.dirname(os.path.abspath(__file__))):
    def array(name):
        return torch.from_numpy(np.load(os.path.join(directory, name), mmap_mode="c"))

    with open(os.path.join(directory, "graph.json")) as f:
        graph = json.load(f)
    data = HeteroData() if graph["typed"] else Data()
    for kind in graph["types"]:
        store = data[kind["name"]] if graph["typed"] else data
        store.num_nodes = kind["nodes"]
        if kind.get("features"):
            store.x = array(kind["features"])
        for key, name in kind.get("data", {}).items():
            store[key] = array(name)
    for relation in graph["relations"]:
        store = data[relation["source"], relation["name"], relation["destination"]] if graph["typed"] else data
        store.edge_index = array(relation["edges"])
    return data
