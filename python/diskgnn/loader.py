"""Batches that the diskgnn program loads, for a model of any framework."""

from __future__ import annotations

import array
import contextlib
import json
import mmap
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import weakref
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from .device import Device, Host
from .share import Share

PROTOCOL, TYPED_PROTOCOL = 3, 4
_MOST_LINE = 1 << 24


class FeedError(RuntimeError):
    """The program could not load a batch. exit_code is the program's: see `diskgnn --help`."""

    def __init__(self, message: str, exit_code: Optional[int] = None) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class BatchGone(RuntimeError):
    """A batch was used after the next one was asked for, after its Loader was closed, or in a fork: its memory may hold
    another batch."""


class Block:
    """A bipartite layer. edge_index has positions: of sources among the block's sources, of destinations among its
    destinations. Destination i is source dst[i]. size is the number of sources and of destinations.

    In the outermost block of a pack, destinations are not the first sources: give a layer `(x, x[block.dst])`. A layer of
    PyTorch Geometric that adds self-loops takes destination i for source i: give it add_self_loops=False, and edges from
    dst[i] to i.
    """

    __slots__ = ("edge_index", "dst", "size", "by_relation", "dst_ends")

    def __init__(self, edge_index: Any, dst: Any, size: Tuple[int, int], by_relation: Optional[List[int]] = None, dst_ends: Optional[List[int]] = None) -> None:
        self.edge_index, self.dst, self.size = edge_index, dst, size
        # Of a typed graph: the number of edges of each relation, in whose order the edges are; the end of each type's destinations.
        self.by_relation, self.dst_ends = by_relation, dst_ends

    def __repr__(self) -> str:
        return f"Block({self.size[0]} -> {self.size[1]}, {self.edge_index.shape[1]} edges)"


Relation = Tuple[str, str, str]  # names of the source type, the relation and the destination type


class HeteroBlock:
    """A layer of a typed graph. edge_index_dict has, for each relation, positions within the types of its ends: of sources among
    the sources of a type, of destinations among the destinations. dst_dict has, for each type, the positions of its
    destinations among its sources."""

    __slots__ = ("edge_index_dict", "dst_dict")

    def __init__(self, edge_index_dict: Dict[Relation, Any], dst_dict: Dict[str, Any]) -> None:
        self.edge_index_dict, self.dst_dict = edge_index_dict, dst_dict

    def pairs(self, x_dict: Dict[str, Any]) -> Dict[Relation, Tuple[Any, Any]]:
        """For each relation the rows of its sources and of its destinations, as HeteroConv of PyTorch Geometric takes them:
        conv(block.pairs(x), block.edge_index_dict). Relations with an end that x_dict lacks are left out."""
        return {r: (x_dict[r[0]], x_dict[r[2]][self.dst_dict[r[2]]]) for r in self.edge_index_dict if r[0] in x_dict and r[2] in x_dict}


def classes(bits: np.ndarray, n: Optional[int]) -> np.ndarray:
    """A row of ones and zeros for each row of bits, class c in bit c mod 8 of byte c/8."""
    return np.unpackbits(bits, axis=1, bitorder="little")[:, :n]


class Batch:
    """Arrays of a batch: x (a row for each input node, of the Loader's dtype), blocks (the input side first), y (the class of
    each seed node, -1 without one; in a multi-label graph a row of ones and zeros), ids, rank and degree of the
    input nodes (a pack has no ids; a typed graph has types, and no degrees: see to_hetero). number counts the batches of the loader from 0, over all epochs; bytes_read counts the bytes that were read
    from disk for the rows of x.

    The arrays lie in memory that the program fills again: they are valid until the next batch is asked for. Then their
    use raises BatchGone, but for arrays that were taken out before; `copy=True` gives arrays of their own. Without it
    do not write to them: NumPy refuses it, but a write to a tensor ends the process (SIGSEGV).
    """

    __slots__ = ("number", "bytes_read", "_arrays", "__weakref__")

    def __init__(self, number: int, bytes_read: int, arrays: Dict[str, Any]) -> None:
        self.number, self.bytes_read = number, bytes_read
        self._arrays: Optional[Dict[str, Any]] = arrays

    def _array(self, name: str) -> Any:
        if self._arrays is None:
            raise BatchGone(f"batch {self.number} was used after the next one was asked for, or its Loader closed: use it before, or give the Loader copy=True")
        return self._arrays[name]

    @property
    def x(self) -> Any:
        return self._array("x")

    @property
    def y(self) -> Any:
        return self._array("y")

    @property
    def blocks(self) -> List[Block]:
        return self._array("blocks")

    @property
    def rank(self) -> Any:
        return self._array("rank")

    @property
    def ids(self) -> Any:
        ids = self._array("ids")
        if ids is None:
            raise ValueError("a pack has no ids of nodes: Samples(…).by_rank[batch.rank] are the ids of a training batch, with the samples of the pack")
        return ids

    @property
    def degree(self) -> Any:
        return self._array("degree")

    @property
    def types(self) -> Any:
        """The type of each input node, as a place in the Loader's node_types; None if the graph has no types."""
        return self._array("types")

    def to_hetero(self) -> Tuple[Dict[str, Any], List[HeteroBlock]]:
        """The rows of x and the blocks by node type and relation, as torch's tensors of their own. All nodes of a type without
        features share one row of zeros."""
        import torch

        hello = self._array("hello")
        if "types" not in hello:
            raise ValueError("the graph has no node types")
        names = [t["name"] for t in hello["types"]["node_types"]]
        relations = hello["types"]["relations"]
        x, types = torch.as_tensor(self.x), torch.as_tensor(self.types)
        x_dict = {name: x[types == t] for t, name in enumerate(names)}
        blocks = []
        for b in self.blocks:
            place = torch.empty_like(types)  # of a source within its type
            for t in range(len(names)):
                of = (types == t).nonzero().view(-1)
                place[of] = torch.arange(len(of), device=x.device)
            dst, ends = torch.as_tensor(b.dst), b.dst_ends
            begins = [0] + ends[:-1]
            edges, at = {}, 0
            edge_index = torch.as_tensor(b.edge_index)
            for r, n in zip(relations, b.by_relation):
                e = edge_index[:, at : at + n]
                edges[names[r["source"]], r["name"], names[r["destination"]]] = torch.stack([place[e[0]], e[1] - begins[r["destination"]]])
                at += n
            blocks.append(HeteroBlock(edges, {name: place[dst[lo:hi]] for name, lo, hi in zip(names, begins, ends)}))
            types = torch.repeat_interleave(torch.arange(len(names), device=x.device), torch.tensor([hi - lo for lo, hi in zip(begins, ends)], device=x.device))
        return x_dict, blocks

    def to_dgl(self) -> Tuple[Any, List[Any]]:
        """x and the blocks for DGL, with destinations first among the sources: the rows of x are permuted, by one copy.
        The blocks and x are valid as long as the batch."""
        import dgl
        import torch

        x, blocks = (torch.as_tensor(self.x), [(torch.as_tensor(b.edge_index), torch.as_tensor(b.dst), b.size) for b in self.blocks])
        edges, dst, (sources, _) = blocks[0]
        rest = torch.ones(sources, dtype=torch.bool, device=x.device)
        rest[dst] = False
        order = torch.cat([dst, rest.nonzero().view(-1)])
        place = torch.empty_like(order)
        place[order] = torch.arange(sources, device=x.device)
        blocks[0] = torch.stack([place[edges[0]], edges[1]]), dst, blocks[0][2]
        return x[order], [dgl.create_block((e[0], e[1]), *size) for e, _, size in blocks]

    def __repr__(self) -> str:
        if self._arrays is None:
            return f"Batch({self.number}, gone)"
        return f"Batch({self.number}, x {tuple(self.x.shape)}, {self.blocks})"


def _program(name: Optional[str]) -> str:
    """The path of the program: name, $DISKGNN, the one beside this package, or the one in PATH."""
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "diskgnn")
    for p in (name, os.environ.get("DISKGNN"), beside if os.access(beside, os.X_OK) else None, shutil.which("diskgnn")):
        if p:
            return p
    raise FileNotFoundError("there is no program diskgnn: install it, put it in PATH, or name it: Loader(program=…)")


class Loader:
    """Iterates over the batches of a pack, of samples, or drawn ones, for all epochs, in the order in which `diskgnn train`
    would train on them.

        for batch in Loader("pack", epochs=10, memory="8GiB"):
            out = model(batch.x, batch.blocks)
            loss = F.cross_entropy(out, batch.y)

    The program loads them in another process, in parallel to the model. pack names a pack; instead of it, give
    dataset, and samples or fanout. split is train, valid or test, or with fanout all: all nodes, in ascending order. copy makes each batch an array of its own. torch is True for tensors,
    False for NumPy arrays; the default is tensors if torch was imported before. Other keyword arguments are flags of
    `diskgnn feed`, with underscores: memory="8GiB", ram_cache="10%", store="gids", shuffle_batches=True.

    dtype is the type of batch.x: "float32", "float16" or "bfloat16", or torch's. NumPy has no bfloat16: there x is uint16, and
    Loader.dtype says bfloat16.

    With device, a torch device, batches are tensors there, to keep and to write to. The next batch is copied while the
    model computes on this one. With gpu_cache="10%" or "8GiB" as well, the rows of the hottest nodes are copied there once,
    and batches take them from there: the program neither holds nor loads them.

    With rank and world, of torch.distributed say, it has the training batches of one rank: batch rank of an epoch and every
    world-th after it. All ranks get equally many: those that end early go on with the first batches of the epoch. Each
    rank has a program with a cache of its own: divide the host's memory among them by memory=.

    With share as well, a name of the training, the ranks are processes of one host and one user, and rank 0 starts one
    program with one cache for all. The first use of a Loader waits for the other ranks, which must have the same arguments
    and the same position. All batches pass through one store in order, so any store serves. Ranks that end early get batches
    of the epoch's last step once more. If a rank closes its Loader, or its process ends, the others raise FeedError.

    An iteration goes from the present position to the end. state_dict and load_state_dict save and restore the position,
    which counts the batches that the iteration has yielded. A loader has one iteration at a time, in one thread, of the
    process that began it. A break, or an exception in the loop's body, leaves the program and the batch as they are, and
    another loop goes on. After a FeedError, or an exception while the loop waits for a batch, the program has ended;
    another loop starts it again at the same position.
    """

    def __init__(self, pack: Optional[str] = None, *, dataset: Optional[str] = None, samples: Optional[str] = None,
                 fanout: Union[None, str, Sequence[int]] = None, epochs: int = 1, split: str = "train", rank: int = 0, world: int = 1, share: Optional[str] = None, copy: bool = False,
                 torch: Optional[bool] = None, dtype: Any = "float32", device: Any = None, program: Optional[str] = None, **flags: Any) -> None:
        for name, why in (("shuffle", "batches come as they were sampled: shuffle_batches=True visits them in another order in each epoch"),
                          ("batch_size", "only with fanout=… batches are drawn here"),
                          ("num_workers", "the program loads batches in its own process"), ("drop_last", "leave out short batches by their y")):
            if name in flags and not (name == "batch_size" and fanout is not None):
                raise TypeError(f"Loader takes no {name}: {why}")
        if device is None and "gpu_cache" in flags:
            raise TypeError("Loader takes gpu_cache with a device alone: rows of the hottest nodes are kept there")
        if not sys.platform.startswith("linux"):
            raise OSError("Loader needs Linux: batches lie in memory that two processes share")
        self._command = [_program(program), "feed", "--quiet", "--epochs", str(epochs), "--split", split]
        dtype = str(dtype).replace("torch.", "")
        if dtype != "float32":
            self._command += ["--dtype", dtype]
        self._share = Share(share, rank, world) if share is not None and (rank, world) != (0, 1) else None
        if self._share is None and (rank, world) != (0, 1):
            self._command += ["--rank", f"{rank}/{world}"]
        if fanout is not None and not isinstance(fanout, str):
            fanout = ",".join(map(str, fanout))
        for name, value in dict(flags, pack=pack, dataset=dataset, samples=samples, fanout=fanout).items():
            if value is None or value is False:
                continue
            self._command.append("--" + name.replace("_", "-"))
            if value is not True:
                self._command.append(str(value))
        self._copy, self._torch, self._device = copy, torch, device
        self._position, self._ended = 0, False
        self._feed: Optional[_Feed] = None
        self._hello: Dict[str, Any] = {}
        self._expected: Optional[str] = None  # the fingerprint in the state that was loaded
        self._store: Tuple[int, Optional[bytes]] = (0, None)  # a position, and the state of the store there

    def __len__(self) -> int:
        """The number of batches of all epochs."""
        return self._about("batches") + self._about("from")

    @property
    def batches_per_epoch(self) -> int:
        return self._about("per_epoch")

    @property
    def num_features(self) -> int:
        return self._about("dim")

    @property
    def dtype(self) -> str:
        """The type of batch.x: float32, float16 or bfloat16."""
        return str(self._about("dtype"))

    @property
    def num_classes(self) -> int:
        return self._about("classes")

    def _about(self, key: str) -> Any:
        return (self._hello or self._started().hello)[key]

    def _started(self) -> "_Feed":
        if self._feed is None:
            utils = sys.modules.get("torch.utils.data")
            if utils is not None and utils.get_worker_info() is not None:
                raise RuntimeError("a Loader in a worker of a DataLoader: iterate over the Loader itself, which loads in another process (or give num_workers=0)")
            feed = _Feed(self._command + ["--from", str(self._position)], self._stored(), self._share, self._torch, self._copy, self._device)
            if self._expected not in (None, feed.hello["fingerprint"]):
                feed.close()
                raise ValueError("the state is of other batches, or of another order: load it with the pack and the flags with which it was saved")
            self._feed, self._hello = feed, feed.hello
        self._feed.check_process()
        return self._feed

    def __iter__(self) -> Iterator[Batch]:
        if self._ended:
            self.close()
            self._position, self._ended = 0, False
        feed = self._started()
        if feed.iterating:
            raise RuntimeError("a Loader has one iteration at a time: make another Loader")
        feed.iterating = True
        try:
            while True:
                batch = feed.next()
                self._ended = batch is None
                if batch is None:
                    return
                self._position = batch.number + 1
                yield batch
        finally:
            feed.iterating = False
            if feed.over and self._feed is feed:
                self.close()

    def _stored(self) -> Optional[bytes]:
        return self._store[1] if self._store[0] == self._position else None

    def state_dict(self) -> Dict[str, Any]:
        """The position, as a plain dict: it counts the batches that were yielded. fingerprint is a hash of the batches and
        of their order. With the stores rows, gnndrive and gids, which batches change, store has the state of the
        cache, as bytes: up to 14 bytes for each row that the cache can hold. Other stores find theirs from the position."""
        state = {"version": 1, "position": self._position, "fingerprint": self._about("fingerprint")}
        store = self._stored() if self._feed is None else self._feed.state()
        if store:
            state["store"] = store
        return state

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Restores a position: the next iteration begins with the batch after it. The state of other batches, or of another
        order, is a ValueError, here if the program was started before, else when it starts. With the state of its cache,
        the store reads from there on as in a loader that was not interrupted; another store, or another size of the cache,
        begins without it. The batches are the same."""
        version, position, fingerprint, store = (state.get(k) for k in ("version", "position", "fingerprint", "store"))
        if version != 1:
            raise ValueError(f"a state of version {version}: this package reads version 1")
        if type(position) is not int or position < 0 or not isinstance(fingerprint, str) or not isinstance(store, (bytes, type(None))):
            raise ValueError(f"a state with position {position!r} and fingerprint {fingerprint!r}: give one that state_dict returned")
        if self._hello and (fingerprint != self._hello["fingerprint"] or position > len(self)):
            raise ValueError(f"a state at position {position} of other batches, of another order, or of more epochs: load it with the pack and the flags with which it was saved")
        self.close()
        self._position, self._ended, self._expected, self._store = position, False, fingerprint, (position, store)

    def close(self) -> None:
        """Ends the program. The present batch is gone. The next iteration starts it again."""
        if self._feed is not None:
            self._feed.close()
            self._feed = None

    def __enter__(self) -> "Loader":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class _Feed:
    """A running program, and the memory of its slots."""

    def __init__(self, command: List[str], state: Optional[bytes], share: Optional[Share], torch: Optional[bool], copy: bool, device: Any) -> None:
        self.over = self.iterating = False
        self._device = None if device is None else Device(device)
        self._host = Host(torch if torch is not None else "torch" in sys.modules, copy)
        self._ahead: List[Union[None, Batch, FeedError]] = []  # with a device: its next batch, None after the last one
        self._pid, self._copy = os.getpid(), copy
        self._errors = tempfile.TemporaryFile()
        self._process: Optional[subprocess.Popen[bytes]] = None  # of another rank's Loader
        try:
            ours = share.join(command[1:]) if share and share.rank > 0 else self._program(command, state, share)
        except BaseException:
            self._errors.close()
            raise
        self._socket, self._pending, self._fds = ours, bytearray(), array.array("i")
        self._early: List[Dict[str, Any]] = []  # messages that came before a state
        self._batch: Optional[Batch] = None
        self._end = weakref.finalize(self, _stop, ours, self._process, self._pid)
        _feeds.add(self)
        self._slots: List[Any] = []
        self.hello: Dict[str, Any] = {}
        try:
            self.hello = self._message()
            if self.hello.get("protocol") != (TYPED_PROTOCOL if "types" in self.hello else PROTOCOL):
                raise FeedError(f"{command[0]} speaks version {self.hello.get('protocol')} of the feed's protocol, this package version {PROTOCOL}: install both of one release")
            if len(self._fds) != len(self.hello["slots"]):
                raise FeedError(f"the program sent {len(self._fds)} descriptors for {len(self.hello['slots'])} slots")
            access = mmap.PROT_READ | (mmap.PROT_WRITE if self._device else 0)  # CUDA registers memory that can be written to
            for fd, size in zip(self._fds, self.hello["slots"]):
                self._slots.append(mmap.mmap(fd, size, mmap.MAP_SHARED, access) if size else b"")
                if self._device:
                    self._device.pin(np.frombuffer(self._slots[-1], "u1"))
            if self._device:
                self._hold(self._device)
        except BaseException:
            self.close()
            raise
        finally:
            for fd in self._fds:
                os.close(fd)

    def _program(self, command: List[str], state: Optional[bytes], share: Optional[Share]) -> socket.socket:
        """Starts the program, with a socket for each rank, and returns the other end of the first one."""
        with contextlib.ExitStack() as closing:
            sockets = [closing.enter_context(c) for c in (share.gather(command[1:]) if share else [])]
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
            fds = [closing.enter_context(c).fileno() for c in [theirs] + sockets]
            command = command + ["--socket", ",".join(map(str, fds))]
            if state:
                stored = closing.enter_context(tempfile.TemporaryFile())
                stored.write(state)
                stored.seek(0)
                fds.append(stored.fileno())
                command += ["--state", str(stored.fileno())]
            try:
                # A session of its own: the interrupt of the terminal is for the model; the program ends with the socket.
                self._process = subprocess.Popen(command, pass_fds=fds, stdin=subprocess.DEVNULL,
                                                 stdout=subprocess.DEVNULL, stderr=self._errors, start_new_session=True)
            except BaseException:
                ours.close()
                raise
        return ours

    def _message(self) -> Dict[str, Any]:
        """The next message. The first one brings descriptors."""
        message = self._early.pop(0) if self._early else self._line()
        if message is None or message.get("error"):
            raise self._died((message or {}).get("error", ""))
        return message

    def state(self) -> bytes:
        """The state of the store before the batch after the present one; empty without one, or if the program is ending."""
        try:
            self._socket.send(b"s", socket.MSG_NOSIGNAL)
        except OSError:
            return b""
        while True:
            message = self._line()
            if message is None:
                return b""
            if "state" in message:
                break
            self._early.append(message)
            if message.get("end"):
                return b""
        while len(self._pending) < message["state"]:
            if not self._more():
                return b""
        state, self._pending = self._pending[: message["state"]], self._pending[message["state"] :]
        return bytes(state)

    def _line(self) -> Optional[Dict[str, Any]]:
        """A message from the socket, None at its end."""
        while b"\n" not in self._pending:
            if len(self._pending) > _MOST_LINE:
                raise FeedError("the program sent a message without an end")
            if not self._more():
                return None
        line, self._pending = self._pending.split(b"\n", 1)
        message: Dict[str, Any] = json.loads(line)
        return message

    def _more(self) -> bool:
        """Reads from the socket. False at its end."""
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(1 << 16, 0 if self.hello else socket.CMSG_SPACE(253 * 4), socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            data, ancillary, flags = b"", [], 0
        for level, kind, fds in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._fds.frombytes(fds[: len(fds) - len(fds) % self._fds.itemsize])
        if flags & socket.MSG_CTRUNC:
            raise FeedError("the program's descriptors did not arrive: raise the limit of open files (ulimit -n)")
        self._pending += data
        return bool(data)

    def _died(self, why: str) -> FeedError:
        """The error of a program that has ended, or is about to."""
        self._end()
        if self._process is None:
            return FeedError(why or "the program, which rank 0 has started, has ended: rank 0 says why")
        code = self._process.returncode
        if not why:
            self._errors.seek(0)
            said = self._errors.read().decode(errors="replace").strip()
            why = said.splitlines()[-1] if said else f"the program ended with status {code} and no message"
            if code < 0:
                why = f"the program was ended by signal {-code} ({signal.Signals(-code).name})" + (f": {why}" if said else "")
        return FeedError(why, code)

    def check_process(self) -> None:
        if os.getpid() != self._pid:
            raise RuntimeError("this process is a fork of the one that started the Loader: make a Loader here")

    def next(self) -> Optional[Batch]:
        """The next batch; None after the last one. After that, and after any exception, the feed is over."""
        self.check_process()
        if self.over or not (self._end.alive or self._ahead):
            raise RuntimeError("the Loader was closed, or its position set, during the iteration: begin another one")
        self.over = True
        if self._device:
            batch = self._from(self._device)
        else:
            self._return()
            batch = self._batch = self._receive(self._host)
        self.over = batch is None
        return batch

    def _receive(self, to: Union[Host, Device]) -> Optional[Batch]:
        m = self._message()
        return None if m.get("end") else Batch(self.hello["from"] + m["item"], m["read"], self._arrays(m, to))

    def _from(self, device: Device) -> Optional[Batch]:
        """The next batch, once the copies of the one after it have begun. An error of that one waits for its turn."""
        if not self._ahead:
            self._copy_next(device)
        batch = self._ahead.pop()
        if isinstance(batch, FeedError):
            raise batch
        if batch is not None:
            tensors = device.finished()
            self._give_back()
            self._copy_next(device)
            device.hand(tensors)
        return batch

    def _copy_next(self, device: Device) -> None:
        try:
            with device.copying():
                self._ahead.append(self._receive(device))
        except FeedError as e:
            self._ahead.append(e)

    def _hold(self, device: Device) -> None:
        """Takes the rows that the device holds, piece by piece."""
        first = 0
        while first < self.hello["held"]:
            m = self._message()
            with device.copying():
                device.hold(first, self._matrix(m), self.hello["held"])
            device.finished()
            self._give_back()
            first += m["rows"]

    def _return(self) -> None:
        """Gives the present batch's slot back."""
        if self._batch is not None:
            self.drop()
            self._give_back()

    def _give_back(self) -> None:
        try:
            self._socket.send(b"n", socket.MSG_NOSIGNAL)
        except OSError:
            pass  # the next message tells why

    def drop(self) -> None:
        """Makes the present batch gone, unless it is a copy."""
        if self._batch is not None and not self._copy:
            self._batch._arrays = None
        self._batch = None

    def forked(self) -> None:
        """Leaves the program to the parent: a socket that stays open here would outlive it there."""
        self.drop()
        self._socket.close()

    def _shared(self, m: Dict[str, Any], dtype: str, place: int, *shape: int) -> np.ndarray:
        """An array in the memory of the message's slot."""
        n = int(np.prod(shape))
        a = np.frombuffer(self._slots[m["slot"]], dtype, n, place) if n else np.zeros(0, dtype)
        return a.reshape(shape)

    def _matrix(self, m: Dict[str, Any]) -> np.ndarray:
        return self._shared(m, {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}[self.hello["dtype"]], 0, m["rows"], self.hello["dim"])

    def _arrays(self, m: Dict[str, Any], to: Union[Host, Device]) -> Dict[str, Any]:
        take = to.numbers(np.frombuffer(self._slots[m["slot"]], "u1"), *m["arrays"])
        blocks = []
        for b in m["blocks"]:
            dst = to.range(b["dst"]) if b["dst_pos"] < 0 else take(b["dst_pos"], b["dst"])
            blocks.append(Block(take(b["edge_index"], 2, b["edges"]), dst, (b["src"], b["dst"]), b.get("by_relation"), b.get("dst_ends")))
        if self.hello["target_bytes"]:
            bits = self._shared(m, "u1", m["targets"], m["seeds"], self.hello["target_bytes"])
            y = to.array(classes(bits, self.hello["classes"]))
        else:
            y = take(m["labels"], m["seeds"])
        rank = take(m["rank"], m["rows"])
        ids = take(m["ids"], m["rows"]) if m["ids"] >= 0 else None
        typed = "types" in self.hello
        return {"x": to.rows(self._matrix(m), rank, m["held"]), "ids": ids, "y": y, "blocks": blocks, "rank": rank, "hello": self.hello,
                "degree": None if typed else take(m["degree"], m["rows"]), "types": take(m["types"], m["rows"]) if typed else None}

    def close(self) -> None:
        self.drop()
        self._ahead.clear()
        if self._device is not None:
            self._device.close()
        self._slots = []  # arrays that are in use keep their memory
        self._end()
        self._errors.close()


_feeds: "weakref.WeakSet[_Feed]" = weakref.WeakSet()


def _forked() -> None:
    for feed in list(_feeds):
        feed.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _stop(connection: socket.socket, process: "Optional[subprocess.Popen[bytes]]", pid: int) -> None:
    """Closes the connection, by which the program ends. A fork leaves it to its parent, a rank to rank 0."""
    connection.close()
    if process is None or os.getpid() != pid:
        return
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
