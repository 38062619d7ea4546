"""One matrix in SciPy's and Matrix Market's forms: sparse.py DIR

graph.txt has a line per edge, "source destination", of the adjacency in a_*.npz and graph*.mtx, sorted;
rows.txt a row of x_*.npz and x.mtx per line. The committed files were made by SciPy 1.17.1 with
NumPy 2.4.6.
"""

import gzip
import os
import sys

import numpy as np
import scipy.io
import scipy.sparse as sp

path = lambda name: os.path.join(sys.argv[1], name)
rng = np.random.default_rng(3)
n = 9
a = (rng.random((n, n)) < 0.25).astype(np.float64)
a[:, 4] = a[4] = 0
x = np.where(rng.random((n, 4)) < 0.5, rng.integers(-3, 9, (n, 4)), 0).astype(np.float32)
x[2] = 0
lines = lambda name, rows: open(path(name), "w").writelines(" ".join(format(v, ".9g") for v in r) + "\n" for r in rows)
lines("graph.txt", np.argwhere(a))
lines("rows.txt", x)

sp.save_npz(path("a_csr.npz"), sp.csr_matrix(a))
sp.save_npz(path("a_csc.npz"), sp.csc_array(a.astype(bool)))
sp.save_npz(path("a_coo.npz"), sp.coo_array(a.astype(np.int8)), compressed=False)
sp.save_npz(path("a_old_coo.npz"), sp.coo_matrix(a * 2))
sp.save_npz(path("a_dia.npz"), sp.dia_matrix(a))
sp.save_npz(path("x_csr.npz"), sp.csr_array(x))
sp.save_npz(path("x_coo.npz"), sp.csr_array(x).astype(np.int16).tocoo())
sp.save_npz(path("x_csc.npz"), sp.csc_array(x))
scipy.io.mmwrite(path("graph.mtx"), sp.coo_array(a), field="pattern", symmetry="general")
scipy.io.mmwrite(path("graph_real.mtx"), sp.csr_array(a), field="real", symmetry="general")
scipy.io.mmwrite(path("x.mtx"), sp.csr_array(x), symmetry="general")
u = np.triu(a)
lines("undirected.txt", np.argwhere(u + u.T))
scipy.io.mmwrite(path("undirected.mtx"), sp.coo_array(u + u.T).astype(bool).astype(int), field="integer", symmetry="symmetric")
with open(path("undirected.mtx"), "rb") as f:
    gzip.GzipFile(path("undirected.mtx.gz"), "wb", mtime=0).write(f.read())
os.remove(path("undirected.mtx"))
scipy.io.mmwrite(path("column.mtx"), x[:, :1])
scipy.io.mmwrite(path("dense.mtx"), x)
