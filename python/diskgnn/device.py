"""Arrays of batches where a model wants them: in the shared memory, in memory of their own, or on a device of PyTorch."""

from __future__ import annotations

import contextlib
import warnings
import weakref
from math import prod
from typing import Any, Callable, ContextManager, Dict, List

import numpy as np


class Host:
    """Makes arrays in RAM: copies of arrays in the shared memory, or these themselves; tensors or NumPy arrays."""

    def __init__(self, tensors: bool, copy: bool) -> None:
        self._tensors, self._copy = tensors, copy

    def array(self, a: np.ndarray) -> Any:
        a = a.copy() if self._copy else a
        return _tensor(a) if self._tensors else a

    def numbers(self, memory: np.ndarray, first: int, end: int) -> Callable[..., Any]:
        """A function of a place between first and end, and of a shape: the int64 there."""
        return lambda place, *shape: self.array(memory[place:][: 8 * prod(shape)].view("<i8").reshape(shape))

    def range(self, n: int) -> Any:
        """The numbers from 0 to n - 1."""
        return self.array(np.arange(n))

    def rows(self, x: np.ndarray, rank: Any, held: List[Dict[str, int]]) -> Any:
        """The matrix x. A host holds no rows."""
        return _features(x.copy() if self._copy else x) if self._tensors else self.array(x)


class Device:
    """Makes tensors on a device. On CUDA, copies run on a stream of their own, from memory that CUDA has registered."""

    def __init__(self, name: Any) -> None:
        import torch

        self._torch: Any = torch
        self._device = torch.device(name)
        self._stream = self._torch.cuda.Stream(self._device) if self._device.type == "cuda" else None
        self._made: List[Any] = []  # tensors of the present batch
        self._pinned: List[np.ndarray] = []
        self._unpin = weakref.finalize(self, _unpin, torch, self._pinned)
        self._table: Any = None

    def pin(self, memory: np.ndarray) -> None:
        """Registers memory with CUDA until close, so that copies from it do not wait for a CPU."""
        if self._stream is None or not memory.nbytes:
            return
        failed = int(self._torch.cuda.cudart().cudaHostRegister(memory.ctypes.data, memory.nbytes, 0))
        if failed:
            raise RuntimeError(f"CUDA cannot register the {memory.nbytes} bytes of a batch's memory: its error {failed}")
        self._pinned.append(memory)

    def copying(self) -> ContextManager[Any]:
        """In this context array, numbers, range, rows and hold submit their work; finished waits for it."""
        self._made = []
        return contextlib.nullcontext() if self._stream is None else self._torch.cuda.stream(self._stream)

    def array(self, a: np.ndarray) -> Any:
        return self._new(_tensor(a).to(self._device, non_blocking=True, copy=True))

    def numbers(self, memory: np.ndarray, first: int, end: int) -> Callable[..., Any]:
        """As Host's. One copy takes all that lies there: the tensors share its memory."""
        copied = self.array(memory[first:end])
        return lambda place, *shape: copied[place - first :][: 8 * prod(shape)].view(self._torch.int64).view(shape)

    def range(self, n: int) -> Any:
        return self._new(self._torch.arange(n, device=self._device))

    def rows(self, x: np.ndarray, rank: Any, held: List[Dict[str, int]]) -> Any:
        """The matrix x. The rows of the ranges held come from the table, by their ranks."""
        out, at = self._new(self._torch.empty(x.shape, dtype=_features(x[:0]).dtype, device=self._device)), 0
        for r in held + [{"first": len(x), "rows": 0}]:
            first, end = r["first"], r["first"] + r["rows"]
            if at < first:
                out[at:first].copy_(_features(x[at:first]), non_blocking=True)
            if first < end:
                self._torch.index_select(self._table, 0, rank[first:end], out=out[first:end])
            at = end
        return out

    def hold(self, first: int, x: np.ndarray, rows: int) -> None:
        """Puts rows into the table, from row first on. The table has the given number of rows."""
        if self._table is None:
            self._table = self._torch.empty((rows, x.shape[1]), dtype=_features(x[:0]).dtype, device=self._device)
        self._table[first : first + len(x)].copy_(_features(x), non_blocking=True)

    def _new(self, tensor: Any) -> Any:
        self._made.append(tensor)
        return tensor

    def finished(self) -> List[Any]:
        """Waits for the copies, and returns the tensors that were made."""
        if self._stream is not None:
            self._stream.synchronize()
        return self._made

    def hand(self, made: List[Any]) -> None:
        """Hands tensors to the present stream of the model: their memory is used again after its work on them."""
        if self._stream is not None:
            for t in made:
                t.record_stream(self._torch.cuda.current_stream(self._device))

    def close(self) -> None:
        if self._stream is not None:
            self._stream.synchronize()
        self._unpin()
        self._made, self._table = [], None


def _unpin(torch: Any, pinned: List[np.ndarray]) -> None:
    for memory in pinned:
        torch.cuda.cudart().cudaHostUnregister(memory.ctypes.data)
    pinned.clear()


def _features(x: np.ndarray) -> Any:
    """A tensor over the memory of rows. Rows of uint16 are bfloat16."""
    import torch

    return _tensor(x.view("<i2")).view(torch.bfloat16) if x.dtype == np.uint16 else _tensor(x)


def _tensor(a: np.ndarray) -> Any:
    """A tensor over the memory of a. It must not be written to."""
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(a)
