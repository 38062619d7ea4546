"""Files of torch.save, and what torch loads from them: make.py DIR

For each file NAME.pt, NAME.txt has a line per tensor, or array of NumPy: its key, type, shape, and
elements in row-major order. The files that are committed were written by the two versions of torch in their names.
"""

import collections
import os
import sys

import numpy as np
import torch

out = sys.argv[1]
version = torch.__version__.split("+")[0]


def save(name, tensors, **options):
    torch.save(tensors, os.path.join(out, f"{name}.pt"), **options)
    with open(os.path.join(out, f"{name}.txt"), "w") as f:
        for key, t in tensors.items():
            if not isinstance(t, (torch.Tensor, np.ndarray)):
                continue
            values = (t.double() if isinstance(t, torch.Tensor) else t.astype(np.float64)).reshape(-1).tolist()
            print(key, str(t.dtype).removeprefix("torch."), ",".join(map(str, t.shape)) or "-",
                  *(format(v, "g") for v in values), file=f)


base = torch.arange(12).reshape(3, 4)
tensors = {
    "int64": base,
    "int32": torch.tensor([1, -2, 3], dtype=torch.int32),
    "int16": torch.tensor([[-5, 6]], dtype=torch.int16),
    "int8": torch.tensor([-128, 127], dtype=torch.int8),
    "uint8": torch.tensor([0, 255], dtype=torch.uint8),
    "bool": torch.tensor([True, False, True]),
    "float64": torch.tensor([[0.5, -1.25], [3, 4]], dtype=torch.float64),
    "float32": torch.tensor([1.5, 2.5]),
    "float16": torch.tensor([0.5, 1024.0], dtype=torch.float16),
    "bfloat16": torch.tensor([0.5, -3.0], dtype=torch.bfloat16),
    "transposed": base.t(),            # the other views share int64's storage
    "rows": base[1:],
    "columns": base[:, 1:3],
    "repeated": base[:1].expand(3, 4),
    "empty": torch.empty(0, 5),
    "scalar": torch.tensor(7),
    "vector": torch.arange(5)[:, None],
    "cube": torch.arange(8).reshape(2, 2, 2),
}
save(f"tensors-{version}", tensors)
save(f"protocol4-{version}", collections.OrderedDict(a=base, b=base.float()), pickle_protocol=4)
save(f"protocol3-{version}", {"size": base.shape, "a": base}, pickle_protocol=3)
save(f"arrays-{version}", {
    "default": collections.defaultdict(dict, {"a": [1]}), "array": np.arange(3), "number": np.float32(2),
    "text": "name", "large": 1 << 40, "none": None, "a": base.float(),
})
numbers = np.arange(12).reshape(3, 4) * 37
arrays = {
    "int64": numbers,                  # bytes of all values, which latin1 writes as one letter or two
    "int32": np.array([1, -2, 3], np.int32),
    "int16": np.array([[-5, 6]], np.int16),
    "int8": np.array([-128, 127], np.int8),
    "uint8": np.arange(256, dtype=np.uint8),
    "bool": np.array([True, False, True]),
    "float64": np.array([[0.5, -1.25], [3, 4]]),
    "float32": np.array([1.5, 2.5], np.float32),
    "float16": np.array([0.5, 1024], np.float16),
    "columns": np.asfortranarray(numbers),
    "view": numbers[1:, ::2],
    "empty": np.empty((0, 5), np.float32),
    "scalar": np.array(7),
    "a number": np.int32(-7), "another": np.uint64(1 << 40), "a tensor": base,
}
for protocol in 2, 3, 4:
    save(f"numpy{protocol}-{version}", arrays, pickle_protocol=protocol)
torch.save(base, os.path.join(out, f"one-{version}.pt"))
if version.startswith("2.2"):
    torch.save(base, os.path.join(out, "old.pt"), _use_new_zipfile_serialization=False)
