"""Makes typed graphs of the sets coauthor-physics.npz and fb100.npz: arrays of NumPy, and the NAME.yaml that diskgnn imports.

    python bench/typed/graphs.py physics DATA tables && bin/diskgnn import --typed --format typed --out graph tables/physics.yaml

DATA is a directory with NAME.npz and NAME_split.npz in the form gnn-benchmark. Every relation has its reverse. No array
holds data of a label:

physics   Authors and words. The 500 most frequent words are nodes without features: a word is in the keywords of an author,
          and an author uses a word. The next 512 words are the authors' features, 1 if the author uses the word. So no
          word is both. Labels are fields of authors.
fb100     Students and attributes. Every column of the set is an attribute, a node without features. Neither columns nor
          labels have names, but no column repeats the label: of the columns of more than 200 students, the best one
          tells the label of 88 % of its students, the median one of 24 %. Without features a student would be known by
          a degree alone: the features are a projection of the student's own attributes to 64 columns, by a matrix of
          random signs.

Sets are drawn from the sets of the split, so that an epoch takes seconds: --train, --valid, --test nodes.
"""

import argparse
import json
import os

import numpy as np

p = argparse.ArgumentParser()
p.add_argument("graph", choices=("physics", "fb100"))
p.add_argument("data")
p.add_argument("out")
p.add_argument("--train", type=int, default=2000)
p.add_argument("--valid", type=int, default=2000)
p.add_argument("--test", type=int, default=6000)
p.add_argument("--seed", type=int, default=0)
a = p.parse_args()

source = os.path.join(a.data, {"physics": "coauthor-physics", "fb100": "fb100"}[a.graph])
rng = np.random.default_rng(a.seed)
os.makedirs(a.out, exist_ok=True)


def save(name, array):
    name = f"{a.graph}-{name}.npy"
    np.save(os.path.join(a.out, name), array)
    return name


def pairs(z, prefix):
    """The row and the column of every entry of a CSR matrix."""
    return np.repeat(np.arange(len(z[prefix + "_indptr"]) - 1, dtype="i4"), np.diff(z[prefix + "_indptr"])), z[prefix + "_indices"]


with np.load(source + ".npz") as z:
    z = dict(z)
with np.load(source + "_split.npz") as split:
    sets = {k: np.sort(rng.permutation(split[k])[: getattr(a, k)]) for k in ("train", "valid", "test")}
labels, width = z["labels"], int(z["attr_shape"][1])
owner, attribute = pairs(z, "attr")
ends = np.stack(pairs(z, "adj"))
ends = ends[:, ends[0] != ends[1]]
if a.graph == "fb100":  # the set has one direction of every edge
    ends = np.concatenate([ends, ends[::-1]], 1)

if a.graph == "physics":
    order = np.argsort(-np.bincount(attribute, minlength=width), kind="stable")
    rank = np.empty(width, "i4")
    rank[order] = np.arange(width)
    rank = rank[attribute]
    features = np.zeros((len(labels), 512), "f4")
    of_features = (rank >= 500) & (rank < 1012)
    features[owner[of_features], rank[of_features] - 500] = 1
    person, thing, nodes = "author", "word", 500
    between = np.stack([owner, rank])[:, rank < 500]
    names = {"each": "coauthor", "to": "uses", "from": "in"}
else:
    signs = rng.choice(np.array([-0.5, 0.5], "f4"), (width, 64))
    features = np.zeros((len(labels), 64), "f4")
    np.add.at(features, owner, signs[attribute])
    person, thing, nodes = "student", "attribute", width
    between = np.stack([owner, attribute])
    names = {"each": "friend", "to": "has", "from": "of"}

description = {
    "types": [
        {"name": person, "features": save("features", features), "labels": save("labels", labels)}
        | {k: save(k, v) for k, v in sets.items()},
        {"name": thing, "nodes": nodes},
    ],
    "relations": [
        {"source": person, "name": names["each"], "destination": person, "edges": save("each", ends)},
        {"source": thing, "name": names["from"], "destination": person, "edges": save("from", between[::-1])},
        {"source": person, "name": names["to"], "destination": thing, "edges": save("to", between)},
    ],
}
with open(os.path.join(a.out, a.graph + ".yaml"), "w") as f:
    json.dump(description, f, indent=1)  # which is YAML
