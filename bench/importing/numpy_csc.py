# Makes compressed sparse columns of an archive as a program with NumPy would: SOURCE OUT.
import json, resource, sys, time
import numpy as np, scipy.sparse as sp
began = time.time()
d = np.load(sys.argv[1] + "/raw/data.npz")
src, dst = d["edge_index"]
n = int(d["num_nodes_list"][0])
feat = d["node_feat"]
loaded = time.time()
m = sp.coo_matrix((np.ones(len(src), np.int8), (src, dst)), shape=(n, n)).tocsc()
m.indices.astype(np.uint32).tofile(sys.argv[2] + "/indices")
m.indptr.astype(np.int64).tofile(sys.argv[2] + "/indptr")
feat.tofile(sys.argv[2] + "/feat")
print(json.dumps({"seconds": time.time() - began, "load": loaded - began, "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
