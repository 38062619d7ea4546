"""One program for the ranks of a host: rank 0 starts it, and hands it a socket of each rank."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from typing import Dict, List

_SECONDS = 300  # in which all ranks must come
_MOST = 1 << 20


class Share:
    """The place where the ranks of a host meet: a name in the abstract namespace of Unix sockets, for processes of one user."""

    def __init__(self, name: str, rank: int, world: int) -> None:
        if not 0 <= rank < world:
            raise ValueError(f"rank {rank} of {world} ranks")
        self.name, self.rank, self.world = name, rank, world
        self._address = f"\0diskgnn-{os.getuid()}-{name}"

    def gather(self, command: List[str]) -> List[socket.socket]:
        """The connections of the ranks 1 and above, which ask for the same command. Any other raises ValueError, there as well."""
        deadline, found = time.monotonic() + _SECONDS, {}  # type: float, Dict[int, socket.socket]
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            try:
                listener.bind(self._address)
            except OSError as e:
                raise OSError(e.errno, f"share={self.name!r} is the name of another Loader: {e.strerror}") from None
            listener.listen(self.world)
            why = ""
            try:
                while len(found) < self.world - 1 and not why:
                    listener.settimeout(max(0.0, deadline - time.monotonic()))
                    try:
                        c, _ = listener.accept()
                    except (socket.timeout, BlockingIOError):
                        raise TimeoutError(f"share={self.name!r}: {len(found) + 1} of {self.world} ranks came in {_SECONDS} seconds") from None
                    if not _ours(c):
                        c.close()
                        continue
                    c.settimeout(max(0.001, deadline - time.monotonic()))
                    its = _line(c)
                    c.settimeout(None)
                    rank = its.get("rank")
                    if its.get("world") != self.world or not isinstance(rank, int) or not 0 < rank < self.world or rank in found:
                        why = f"share={self.name!r}: rank {rank} of {its.get('world')} came, where there are {self.world}, or came twice"
                    elif its.get("command") != command:
                        why = f"share={self.name!r}: rank {rank} has other arguments or another position than rank 0"
                    found[rank if isinstance(rank, int) and not why else -1] = c
                if why:
                    for c in found.values():
                        _send(c, {"end": True, "error": why})
                    raise ValueError(why)
            except BaseException:
                for c in found.values():
                    c.close()
                raise
        return [found[rank] for rank in range(1, self.world)]

    def join(self, command: List[str]) -> socket.socket:
        """The connection of this rank to rank 0, which hands it to the program. Waits for rank 0."""
        deadline = time.monotonic() + _SECONDS
        while True:
            c = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                c.connect(self._address)
                break
            except ConnectionRefusedError:
                c.close()
                if time.monotonic() > deadline:
                    raise TimeoutError(f"share={self.name!r}: rank 0 did not come in {_SECONDS} seconds") from None
                time.sleep(0.02)
            except BaseException:
                c.close()
                raise
        if not _ours(c):
            c.close()
            raise PermissionError(f"share={self.name!r} is a name of another user")
        _send(c, {"rank": self.rank, "world": self.world, "command": command})
        return c


def _ours(c: socket.socket) -> bool:
    """Whether the process at the other end is of this user."""
    _, uid, _ = struct.unpack("3i", c.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return bool(uid == os.getuid())


def _send(c: socket.socket, message: Dict[str, object]) -> None:
    try:
        c.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        pass  # the reader tells why


def _line(c: socket.socket) -> Dict[str, object]:
    """A message; an empty one if the process at the other end goes, or is none of ours."""
    text = b""
    try:
        while not text.endswith(b"\n"):
            data = c.recv(1)  # what follows is for the program
            if not data or len(text) > _MOST:
                return {}
            text += data
        message = json.loads(text)
        return message if isinstance(message, dict) else {}
    except (OSError, ValueError):
        return {}
