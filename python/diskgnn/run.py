"""Runs of `diskgnn train`."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, List

import numpy as np
import numpy.typing as npt


class Run:
    """A directory that train writes. info is its run.json: params.network is the model, result the end, if it has ended.
    epochs has the lines of metrics.jsonl, a dict for each epoch.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with open(os.path.join(path, "run.json"), encoding="utf-8") as f:
            self.info: Dict[str, Any] = json.load(f)
        if self.info["format"]["name"] != "diskgnn.run":
            raise ValueError(f"{path} is {self.info['format']['name']}: this reads diskgnn.run")

    @property
    def epochs(self) -> List[Dict[str, Any]]:
        try:
            with open(os.path.join(self.path, "metrics.jsonl"), encoding="utf-8") as f:
                return [json.loads(line) for line in f if line.endswith("\n")]  # train may be writing the last one
        except FileNotFoundError:
            return []

    def weights(self, name: str = "weights") -> Dict[str, npt.NDArray[np.float32]]:
        """Arrays by their names in PyTorch: weights of the epoch with the best validation, final of the last epoch. They
        are read-only. A file that differs from its checksum raises ValueError."""
        path = os.path.join(self.path, name + ".safetensors")
        with open(path, "rb") as f:
            data = f.read()
        n = int.from_bytes(data[:8], "little")
        try:
            header = json.loads(data[8:8 + n])
        except ValueError as e:
            raise ValueError(f"{path} is damaged: {e}") from None
        digits = header.pop("__metadata__", {}).get("diskgnn.sha256")
        if digits is None:
            good = self.info["format"]["version"] < 3  # which had no checksums
        else:
            good = hashlib.sha256(data.replace(digits.encode(), b"0" * 64, 1)).hexdigest() == digits
        if not good:
            raise ValueError(f"{path} differs from its checksum")
        out = {}
        for key, tensor in header.items():
            if tensor["dtype"] != "F32":
                raise ValueError(f"{path}: {key} is {tensor['dtype']}: this reads F32")
            begin, end = tensor["data_offsets"]
            out[key] = np.frombuffer(data, "<f4", (end - begin) // 4, 8 + n + begin).reshape(tensor["shape"])
        return out
