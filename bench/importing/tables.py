"""Writes the edges of a random graph as edges.csv and edges.parquet, with PyArrow and its defaults (int64, snappy,
dictionaries): tables.py DIR [EDGES [NODES]]"""

import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

out = sys.argv[1]
edges, nodes = (int(v) for v in (sys.argv[2:] + ["20000000", "2000000"][len(sys.argv) - 2:]))
rng = np.random.default_rng(1)
os.makedirs(out, exist_ok=True)
t = pa.table({name: rng.integers(nodes, size=edges) for name in ("src", "dst")})
pa.csv.write_csv(t, os.path.join(out, "edges.csv"))
pa.parquet.write_table(t, os.path.join(out, "edges.parquet"))
