"""Logits of a trained run by PyTorch Geometric: load.py WEIGHTS GRAPH > LOGITS

GRAPH is JSON: {"x": a row of features per node, "edge_index": [sources, destinations]}.
LOGITS is JSON: a row per node.
"""

import json
import sys

import torch
from safetensors.torch import load_file
from torch_geometric.nn import SAGEConv


class SAGE(torch.nn.Module):
    """The model of a run; its depth and widths are those of the weights."""

    def __init__(self, weights, dropout=0.5):
        super().__init__()
        layers = 1 + max(int(name.split(".")[1]) for name in weights)
        shapes = [weights[f"convs.{i}.lin_l.weight"].shape for i in range(layers)]
        self.convs = torch.nn.ModuleList(SAGEConv(fan_in, fan_out, aggr="mean") for fan_out, fan_in in shapes)
        self.dropout = dropout
        self.load_state_dict(weights)  # strict: every name and shape must match

    def forward(self, x, edge_index):
        for conv in self.convs[:-1]:
            x = torch.relu(conv(x, edge_index))
            x = torch.nn.functional.dropout(x, self.dropout, self.training)
        return self.convs[-1](x, edge_index)


def main():
    weights, graph = sys.argv[1:]
    model = SAGE(load_file(weights)).eval()
    with open(graph) as f:
        g = json.load(f)
    with torch.no_grad():
        logits = model(torch.tensor(g["x"]), torch.tensor(g["edge_index"]))
    json.dump(logits.tolist(), sys.stdout)


if __name__ == "__main__":
    main()
