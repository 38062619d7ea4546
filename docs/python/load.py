"""Logits of a trained run by PyTorch Geometric: load.py RUN GRAPH > LOGITS

GRAPH is JSON: {"x": a row of features per node, "edge_index": [sources, destinations]}.
LOGITS is JSON: a row per node.

For a typed graph, "x" has the rows of each node type by its name, zeros for types without features, and
"edge_index" has a pair of lists for each relation, in the order of run.json. LOGITS has the rows of the type
that was trained on.
"""

import inspect
import json
import os
import sys

import torch
from safetensors.torch import load_file
from torch.nn import BatchNorm1d, LayerNorm, Linear, ModuleList
from torch.nn.functional import dropout, elu, relu
import torch_geometric
from torch_geometric.nn import GATConv, GCNConv, HeteroConv, RGCNConv, SAGEConv
from torch_geometric.utils import degree

torch_geometric.backend.use_segment_matmul = False  # with it, RGCNConv divides by the neighbours of all relations


# Options that are words, and the words that this script knows.
WORDS = {
    "norm": ("none", "batch", "layer"),
    "activation": ("relu", "elu"),
    "aggregator": ("mean", "sum", "max"),
    "gcn_norm": ("graph", "block"),
}


class Net(torch.nn.Module):
    """The model that run.json describes under params.network."""

    def __init__(self, kind, dims, dropout, norm="none", activation="relu", residual=False,
                 input_projection=0, aggregator="mean", gcn_norm="graph", heads=1, bases=0, types=None, orders=None):
        super().__init__()  # the orders of operations say how the same numbers are computed
        self.types, self.bases = types, bases
        self.by_block = gcn_norm == "block"
        self.dropout, self.activation = dropout, elu if activation == "elu" else relu
        dims = list(dims)
        if input_projection:
            self.lin_in = Linear(dims[0], input_projection)
            dims[0] = input_projection
        widths = list(zip(dims, dims[1:]))
        self.convs = ModuleList(self.conv(kind, i, o, l == len(widths) - 1, aggregator, heads)
                                for l, (i, o) in enumerate(widths))
        if residual:
            self.lins = ModuleList(Linear(i, o) for i, o in widths)
        if norm != "none":
            self.norms = ModuleList((BatchNorm1d if norm == "batch" else LayerNorm)(o) for _, o in widths[:-1])

    def conv(self, kind, i, o, last, aggregator, heads):
        if kind == "gat":
            return GATConv(i, o if last else o // heads, heads, concat=not last)
        if kind == "gcn":
            # forward adds the self-loops, since stored ones are edges like others, and the weights by block
            return GCNConv(i, o, add_self_loops=False, normalize=not self.by_block)
        if kind == "sage":
            return SAGEConv(i, o, aggr=aggregator)
        if kind == "rgcn":
            return RGCNConv(i, o, len(self.relations()), num_bases=self.bases or None)
        if kind == "rsage":
            return HeteroConv({r: SAGEConv(i, o) for r in self.relations()})
        if kind == "rgat":
            return HeteroConv({r: GATConv(i, o if last else o // heads, heads, concat=not last, add_self_loops=False)
                               for r in self.relations()})
        raise SystemExit(f"kind {kind} is not known here")

    def relations(self):
        """The names of every relation and its ends."""
        names = self.types["node_types"]
        return [(names[r["source"]], r["name"], names[r["destination"]]) for r in self.types["relations"]]

    def relate(self, conv, x, edges):
        """A layer's rows by type, of rows by type; edges are a list by relation."""
        if not isinstance(conv, RGCNConv):  # types that no relation led to are not there
            return conv(x, {r: e for r, e in zip(self.relations(), edges) if r[0] in x})
        at, ends = {}, 0
        for name in x:
            at[name], ends = ends, ends + len(x[name])
        edge_index = torch.cat([e + torch.tensor([[at[s]], [at[d]]]) for (s, _, d), e in zip(self.relations(), edges)], 1)
        edge_type = torch.cat([torch.full((e.shape[1],), i) for i, e in enumerate(edges)])
        y = conv(torch.cat(list(x.values())), edge_index, edge_type)
        return {name: y[i:i + len(x[name])] for name, i in at.items()}

    def typed(self, x, edges):
        for l, conv in enumerate(self.convs):
            x = self.relate(conv, x, edges)
            if l < len(self.convs) - 1:
                x = {name: dropout(self.activation(h), self.dropout, self.training) for name, h in x.items()}
        return x[self.types["node_types"][self.types["seed_type"]]]

    def forward(self, x, edge_index):
        if self.types:
            return self.typed(x, edge_index)
        drop = lambda h: dropout(h, self.dropout, self.training)
        weights = {}
        if isinstance(self.convs[0], GCNConv):
            edge_index = torch.cat([edge_index, torch.arange(len(x)).expand(2, -1)], 1)
        if self.by_block:  # by the edges out of the source and into the destination
            source, destination = edge_index
            edges = degree(source, len(x))[source] * degree(destination, len(x))[destination]
            weights = {"edge_weight": edges.rsqrt()}
        if hasattr(self, "lin_in"):
            x = drop(relu(self.lin_in(x)))
        for l, conv in enumerate(self.convs):
            h = conv(x, edge_index, **weights)
            if hasattr(self, "lins"):
                h = h + self.lins[l](x)
            if l == len(self.convs) - 1:
                return h
            if hasattr(self, "norms"):
                h = self.norms[l](h)
            x = drop(self.activation(h))


def load(run):
    """The model of a run, with the weights of its best epoch."""
    with open(os.path.join(run, "run.json")) as f:
        network = json.load(f)["params"]["network"]
    unknown = network.keys() - inspect.signature(Net).parameters.keys()
    if unknown:
        raise SystemExit(f"{run}: the network has what this script does not know: {', '.join(sorted(unknown))}")
    for key in network.keys() & WORDS.keys():
        if network[key] not in WORDS[key]:
            raise SystemExit(f"{key} {network[key]} is not known here")
    model = Net(**network)
    missing, unexpected = model.load_state_dict(load_file(os.path.join(run, "weights.safetensors")), strict=False)
    wrong = unexpected + [name for name in missing if not name.endswith("num_batches_tracked")]
    if wrong:
        raise SystemExit(f"{run}: tensors that do not fit the model: {wrong}")
    return model.eval()


def main():
    run, graph = sys.argv[1:]
    model = load(run)
    with open(graph) as f:
        g = json.load(f)
    if model.types:
        x = {name: torch.tensor(g["x"][name], dtype=torch.float) for name in model.types["node_types"]}
        edges = [torch.tensor(e, dtype=torch.long) for e in g["edge_index"]]
    else:
        x, edges = torch.tensor(g["x"]), torch.tensor(g["edge_index"])
    with torch.no_grad():
        logits = model(x, edges)
    json.dump(logits.tolist(), sys.stdout)


if __name__ == "__main__":
    main()
