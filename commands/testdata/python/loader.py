"""Tests of diskgnn.Loader, in the directory that TestPythonLoader of package commands has made: python loader.py NAME..."""

import contextlib
import gc
import json
import multiprocessing
import os
import pickle
import random
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import types

import numpy as np

import diskgnn
from diskgnn import BatchGone, FeedError, Loader


def refused(kind, call, *says):
    try:
        call()
    except kind as e:
        assert all(s in str(e) for s in says), f"{e!r} says nothing of {says}"
        return e
    raise AssertionError(f"no {kind.__name__}")


def key(b):
    """A batch's arrays, as bytes."""
    arrays = [b.x, b.y, b.rank, b.degree] + [a for k in b.blocks for a in (k.edge_index, k.dst)]
    return [np.asarray(a).tobytes() for a in arrays] + [k.size for k in b.blocks]


def children():
    """The processes of this one, zombies among them."""
    out = []
    for p in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{p}/stat") as f:
                if int(f.read().rsplit(")", 1)[1].split()[1]) == os.getpid():
                    out.append(int(p))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return out


def held():
    """What a Loader must not leave: processes, and the number of descriptors."""
    gc.collect()
    return children(), len(os.listdir("/proc/self/fd"))


def program(loader):
    return loader._feed._process


def ended(pid_fd):
    """Waits for the end of a process, and closes its descriptor."""
    p = select.poll()
    p.register(pid_fd, select.POLLIN)
    assert p.poll(60_000), "a process does not end"
    os.close(pid_fd)


def started(*args):
    """The program without a Loader, and the other end of its socket."""
    ours, theirs = socket.socketpair()
    p = subprocess.Popen(["diskgnn", "feed", *args, "--socket", str(theirs.fileno())], pass_fds=[theirs.fileno()], stderr=subprocess.PIPE, text=True)
    theirs.close()
    return p, ours


def gone():
    with Loader("p", epochs=2) as loader:
        before = None
        for b in loader:
            assert b.number == (before.number + 1 if before else 0)
            if before:
                refused(BatchGone, lambda: before.x, f"batch {before.number} was used after")
                assert "gone" in repr(before) and "Block(" in repr(b)
            refused(ValueError, lambda: b.x.fill(1), "read-only")
            before = b
        assert before.number + 1 == len(loader) == 2 * loader.batches_per_epoch
    refused(BatchGone, lambda: before.blocks)
    for b in list(Loader("p")):
        for name in ("x", "y", "blocks", "ids", "rank", "degree"):
            refused(BatchGone, lambda: getattr(b, name))
    copies = list(Loader("p", epochs=2, copy=True))
    assert [key(b) for b in copies] == [key(b) for b in Loader("p", epochs=2)]
    copies[0].x.fill(1)  # an array of one's own
    loader = Loader("p")
    b = next(iter(loader))
    x, want = b.x, b.x.copy()
    loader.close()
    refused(BatchGone, lambda: b.x)
    assert np.array_equal(x, want)  # memory without a program that fills it
    refused(TypeError, lambda: Loader("p", shuffle=True), "shuffle_batches")
    refused(TypeError, lambda: Loader("p", batch_size=3), "fanout")
    refused(TypeError, lambda: Loader("p", num_workers=3), "its own process")
    refused(FileNotFoundError, lambda: len(Loader("p", program="/no/such")))
    assert refused(FeedError, lambda: len(Loader("no")), "no").exit_code == 3
    assert refused(FeedError, lambda: len(Loader("p", no_such=1)), "no-such").exit_code == 2


def position():
    whole = [key(b) for b in Loader("p", epochs=3)]
    saved = {}
    for at in (0, 1, 4, len(whole) - 1, len(whole)):
        loader = Loader("p", epochs=3)
        batches = iter(loader)
        for _ in range(at):
            next(batches)
        saved[at] = json.loads(json.dumps(loader.state_dict()))
        assert saved[at]["position"] == at
        fresh = Loader("p", epochs=3)
        fresh.load_state_dict(saved[at])
        assert [key(b) for b in fresh] == whole[at:], at
        assert [key(b) for b in fresh] == whole  # another iteration begins again
        fresh.load_state_dict(saved[at])
        assert len(fresh) == len(whole)
        if at < len(whole):
            batches = iter(fresh)
            next(batches)
            fresh.load_state_dict(saved[0])
            refused(RuntimeError, lambda: next(batches), "closed, or its position set")
    # Another store of the same samples goes on, with its own order of the input nodes.
    other = Loader(dataset="d", samples="s", epochs=3)
    other.load_state_dict(saved[4])
    assert [b.number for b in other] == list(range(4, len(whole)))
    others = dict(samples=dict(pack="q"), split=dict(pack="p", split="valid"), order=dict(pack="p", shuffle_batches=True))
    for name, args in others.items():
        loader = Loader(epochs=3, **args)
        loader.load_state_dict(saved[1])
        refused(ValueError, lambda: next(iter(loader)), "other batches, or of another order")
        known = Loader(epochs=3, **args)
        len(known)
        refused(ValueError, lambda: known.load_state_dict(saved[4]), "other batches")
    a, b = (Loader("p", epochs=3, shuffle_batches=True, seed=seed) for seed in (1, 2))
    b.load_state_dict(a.state_dict())
    refused(ValueError, lambda: next(iter(b)), "another order")
    refused(ValueError, lambda: a.load_state_dict(dict(a.state_dict(), position=len(whole) + 1)), "more epochs")
    c = Loader("p", epochs=1)
    c.load_state_dict(saved[len(whole)])
    assert refused(FeedError, lambda: next(iter(c)), "--from").exit_code == 2
    good = saved[1]
    for bad in ({}, dict(good, version=2), dict(good, position=-1), dict(good, position="1"), dict(good, position=True), dict(good, position=None), dict(good, fingerprint=None), dict(good, store="text")):
        refused(ValueError, lambda: Loader("p").load_state_dict(bad))


def caches():
    """Every store goes on from a state as if it had not been interrupted: the same batches, with as many bytes read for each."""
    sampled = dict(dataset="d", samples="s")
    rows = dict(sampled, store="rows", ram_cache="10%")
    stateful = [dict(rows, cache_policy=policy) for policy in ("s3fifo", "lru", "clock", "sieve")] + [dict(rows, fanout="3,4", batch_size=40, samples=None)]
    stateful += [dict(rows, store="gnndrive"), dict(sampled, store="gids", ram_cache="50%"), dict(sampled, store="gids", ram_cache="50%", cache_policy="script")]
    others = [sampled, dict(rows, store="ginex"), dict(rows, store="hyperion"), dict(sampled, store="agnes", ram_cache="95%"), dict(pack="p", ram_cache="5%"), dict(pack="min"), dict(dataset="d", samples="so", store="marius")]
    for args in stateful + others:
        def seen(loader):
            return [(key(b), b.bytes_read) for b in loader]

        whole = seen(Loader(epochs=3, **args))
        reads = [read for _, read in whole]
        for at in (1, 7, len(whole) - 3):
            loader = Loader(epochs=3, **args)
            batches = iter(loader)
            for _ in range(at):
                next(batches)
            state = pickle.loads(pickle.dumps(loader.state_dict()))
            assert ("store" in state) == (args in stateful) and state["position"] == at, (args, state)
            rest = seen(batches)
            assert rest == whole[at:]  # asking changes nothing
            fresh = Loader(epochs=3, **args)
            fresh.load_state_dict(state)
            assert fresh.state_dict().keys() == state.keys()
            got = seen(fresh)
            assert got == whole[at:], (args, at, reads[at:], [read for _, read in got])
            if args in stateful and at == 7:
                cold = Loader(epochs=3, **args)
                cold.load_state_dict({k: v for k, v in state.items() if k != "store"})
                colder = seen(cold)
                assert [k for k, _ in colder] == [k for k, _ in whole[at:]]
                print(args, len(state["store"]), sum(reads[at:]), sum(read for _, read in colder))
                other = Loader(epochs=3, **dict(args, ram_cache="40%"))
                other.load_state_dict(state)
                assert [k for k, _ in seen(other)] == [k for k, _ in colder]
                broken = Loader(epochs=3, **args)
                broken.load_state_dict(dict(state, store=state["store"][:-1]))
                assert refused(FeedError, lambda: next(iter(broken)), "state of the store").exit_code == 3
        loader = Loader(epochs=1, **args)
        assert seen(loader) and "store" not in loader.state_dict()


def dtypes():
    """Rows of the type that is asked for are the rows of float32, rounded; all else is the same, for every store."""
    def bfloat16(x):
        bits = x.view("<u4")
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")

    rows = dict(dataset="d", samples="s", ram_cache="10%")
    for args in (dict(pack="p", ram_cache="5%"), dict(pack="min"), dict(pack="z"), dict(pack="q6"), dict(pack="bf", ram_cache="5%"), dict(pack="bf", split="valid"), dict(pack="half"), dict(dataset="d", samples="s"), dict(rows, store="rows"), dict(rows, store="ginex"), dict(rows, store="gnndrive"), dict(rows, store="hyperion"),
                 dict(rows, store="mmap"), dict(rows, store="gids", ram_cache="50%"), dict(rows, store="agnes", ram_cache="95%"), dict(dataset="d", samples="so", store="marius"), dict(pack="p", split="valid")):
        whole = [(b.x.copy(), key(b)[1:]) for b in Loader(epochs=2, **args)]
        for name, convert in (("bfloat16", bfloat16), ("float16", lambda x: x.astype("<f2"))):
            loader = Loader(epochs=2, dtype=name, **args)
            assert loader.dtype == name
            n = 0
            for b, (x, rest) in zip(loader, whole):
                assert b.x.dtype == convert(x).dtype and np.array_equal(b.x, convert(x)) and key(b)[1:] == rest, (args, name, b.number)
                n += 1
            assert n == len(whole)
    assert refused(FeedError, lambda: len(Loader("p", dtype="int8")), "float32, float16 or bfloat16").exit_code == 2


def loops():
    whole = [key(b) for b in Loader("p", epochs=2)]
    loader, seen = Loader("p", epochs=2), []
    for b in loader:
        seen.append(key(b))
        if len(seen) == 2:
            break
    pid = program(loader).pid
    assert key(b) == seen[-1]  # it is valid still
    for b in loader:
        seen.append(key(b))
        second = iter(loader)
        refused(RuntimeError, lambda: next(second), "one iteration at a time")
        if len(seen) == 4:
            break

    def fails():
        for b in loader:
            seen.append(key(b))
            raise ZeroDivisionError

    refused(ZeroDivisionError, fails)
    assert program(loader).pid == pid and loader.state_dict()["position"] == 5
    seen += [key(b) for b in loader]
    assert seen == whole and loader._feed is None
    assert [key(b) for b in loader] == whole
    closed = iter(loader)
    next(closed)
    loader.close()
    refused(RuntimeError, lambda: next(closed), "closed")
    assert [key(b) for b in loader] == whole[1:]


def left():
    before = held()
    with Loader("p") as loader:
        next(iter(loader))
        assert len(children()) == 1
    assert held() == before
    loader = Loader("p")
    next(iter(loader))
    process = program(loader)
    del loader
    gc.collect()
    assert process.returncode == 0
    del process
    assert held() == before
    refused(ZeroDivisionError, lambda: [1 / 0 for b in Loader("p")])
    refused(FeedError, lambda: len(Loader("no")))
    assert held() == before


def fork():
    loader = Loader("p", epochs=2)
    batches = iter(loader)
    b = next(batches)
    want = key(b)

    def child():
        refused(RuntimeError, lambda: next(batches), "fork")
        refused(RuntimeError, lambda: next(iter(loader)), "fork")
        refused(BatchGone, lambda: b.x)
        loader.close()
        with Loader("p") as own:
            assert len(list(own)) == len(own)

    def forked(last=os._exit):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                child()
                code = 0
            finally:
                last(code)
        return pid

    assert os.waitpid(forked(), 0)[1] == 0
    p = multiprocessing.get_context("fork").Process(target=child)
    p.start()
    p.join()
    assert p.exitcode == 0 and key(b) == want
    assert [b.number for b in batches] == list(range(1, len(loader)))
    # A child that lives on holds no end of the socket.
    loader = Loader("p", epochs=2)
    next(iter(loader))
    process = program(loader)
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(w)
        os.read(r, 1)
        os._exit(0)
    loader.close()
    assert process.returncode == 0
    os.close(w)
    os.waitpid(pid, 0)


def worker():
    sys.modules["torch.utils.data"] = types.SimpleNamespace(get_worker_info=lambda: "a worker")
    refused(RuntimeError, lambda: next(iter(Loader("p"))), "DataLoader", "num_workers=0")


def ranks():
    """Two processes have every batch of an epoch between them, as many each; the shorter one goes on with the first batch."""
    for args in (dict(pack="p"), dict(pack="p", shuffle_batches=True), dict(dataset="d", samples="s"), dict(pack="p", shuffle_batches=True, seed=3)):
        epochs, whole = 3, [key(b) for b in Loader(epochs=3, **args)]
        per = len(whole) // epochs
        for world in (1, 2, 3, per - 1, 2 * per + 1):
            each = -(-per // world)
            for rank in sorted({0, 1 % world, world - 1}):
                loader = Loader(epochs=epochs, rank=rank, world=world, **args)
                assert (len(loader), loader.batches_per_epoch) == (epochs * each, each)
                want = [whole[e * per + (k * world + rank) % per] for e in range(epochs) for k in range(each)]
                assert [key(b) for b in loader] == want, (args, rank, world)
    loader, other = (Loader("p", epochs=3, rank=rank, world=2) for rank in (0, 1))
    want = [key(b) for b in other]
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    other.load_state_dict(loader.state_dict())  # positions are the same on all ranks
    assert [key(b) for b in other] == want[4:]
    refused(ValueError, lambda: _load_first(Loader("p"), loader.state_dict()), "other batches")
    for args, says in ((dict(pack="p", rank=0, world=2, split="valid"), "training batches"), (dict(pack="min", rank=0, world=2), "in order"),
                       (dict(pack="p", rank=2, world=2), "no rank"), (dict(pack="p", rank=-1, world=2), "no rank")):
        assert refused(FeedError, lambda: len(Loader(**args)), says).exit_code == 2


def _rank(rank, world, of, share, out, acts):
    """A process that sends the keys and the reads of its batches, then what ended them. acts is called with each batch."""
    seen = []
    try:
        loader = Loader(rank=rank, world=world, share=share, **of)
        assert loader.batches_per_epoch * of["epochs"] == len(loader)
        for b in loader:
            seen.append((key(b), b.bytes_read))
            acts(rank, loader, b)
        out.send((seen, None))
    except (FeedError, ValueError, OSError) as e:
        out.send((seen, f"{type(e).__name__}: {e}"))


def _ranks(world, of, acts=lambda rank, loader, b: None):
    """The results of a process for each rank; None of a process that died. of is a dict, or a function of the rank."""
    context = multiprocessing.get_context("fork")
    pipes, processes = [], []
    for rank in reversed(range(world)):  # rank 0 comes last
        ours, theirs = context.Pipe(duplex=False)
        process = context.Process(target=_rank, args=(rank, world, of(rank) if callable(of) else of, f"test-{os.getpid()}", theirs, acts))
        process.start()
        theirs.close()
        pipes.insert(0, ours)
        processes.append(process)
    results = []
    for p in pipes:
        try:
            results.append(p.recv())
        except EOFError:
            results.append(None)
    for p in processes:
        p.join()
    return results


def shared():
    """Ranks of a host have one program: all batches of an epoch between them, with the reads of one Loader, whatever the store."""
    rows = dict(dataset="d", samples="s", ram_cache="10%")
    for args in (dict(pack="p"), dict(pack="min"), dict(pack="p", shuffle_batches=True), dict(rows, store="rows", cache_policy="lru"), dict(rows, store="ginex"), dict(rows, store="gids", ram_cache="50%"), dict(dataset="d", fanout="3,4", batch_size=40)):
        epochs = 2
        whole = [(key(b), b.bytes_read) for b in Loader(epochs=epochs, **args)]
        per = len(whole) // epochs
        for world in (2, 3):
            each = -(-per // world)
            for rank, (seen, error) in enumerate(_ranks(world, dict(args, epochs=epochs))):
                firsts = [(e * per, k * world) for e in range(epochs) for k in range(each)]
                want = [whole[e + k + (rank if k + rank < per else rank % (per - k))] for e, k in firsts]
                assert error is None and seen == want, (args, rank, world, error)

    def dies(rank, loader, b):
        if rank == 1 and b.number == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    for rank, result in enumerate(_ranks(3, dict(pack="p", epochs=50), dies)):
        assert result is None if rank == 1 else result[1] == "FeedError: rank 1 of 3: the consumer has closed the socket", result

    def ends(rank, loader, b):
        if rank == 0 and b.number == 1:
            program(loader).kill()

    for rank, result in enumerate(_ranks(2, dict(pack="p", epochs=50), ends)):
        assert ("SIGKILL" if rank == 0 else "rank 0 has started") in result[1], result
    for result in _ranks(2, dict(pack="no", epochs=1)):
        assert result[0] == [] and "no" in result[1] and result[1].startswith("FeedError"), result
    for rank, result in enumerate(_ranks(2, lambda rank: dict(pack="p", epochs=1 + rank))):
        assert "rank 1 has other arguments or another position" in result[1] and result[1].startswith(("ValueError", "FeedError")[rank]), result
    with flipped("p/cold-00000.bin", os.path.getsize("p/cold-00000.bin") // 3):
        for result in _ranks(2, dict(pack="p", epochs=2)):
            assert "cold-00000.bin: bytes" in result[1], result

    def saves(rank, loader, b):
        if b.number == 2:
            with open(f"state-{rank}", "wb") as f:
                pickle.dump(loader.state_dict(), f)

    of = dict(rows, epochs=3, store="rows", cache_policy="lru")
    before = _ranks(2, of, saves)

    def resumed(rank, world, of, share, out, acts):
        loader = Loader(rank=rank, world=world, share=share, **of)
        with open(f"state-{rank}", "rb") as f:
            loader.load_state_dict(pickle.load(f))
        out.send(([(key(b), b.bytes_read) for b in loader], None))

    global _rank
    _rank, plain = resumed, _rank
    try:
        after = _ranks(2, of)
    finally:
        _rank = plain
    assert [seen for seen, _ in after] == [seen[3:] for seen, _ in before]
    refused(ValueError, lambda: Loader("p", rank=2, world=2, share="a"), "rank 2 of 2")
    assert [key(b) for b in Loader("p", share="a")] == [key(b) for b in Loader("p")]


def _load_first(loader, state):
    loader.load_state_dict(state)
    next(iter(loader))


def killed():
    whole = [key(b) for b in Loader("p", epochs=2)]
    before = held()
    loader = Loader("p", epochs=2)
    seen = []
    for blow, code, says in ((signal.SIGKILL, -9, "signal 9 (SIGKILL)"), (signal.SIGTERM, 5, "interrupted"), (None, None, "")):

        def rest():
            for i, b in enumerate(loader):
                seen.append(key(b))
                if blow and i == 1:
                    program(loader).send_signal(blow)
                    if blow == signal.SIGTERM:
                        process = program(loader)
                        ended(os.pidfd_open(process.pid))

        if blow:
            assert refused(FeedError, rest, says).exit_code == code
            assert len(children()) == len(before[0])
        else:
            rest()
    assert seen == whole
    del loader
    assert held() == before


def interrupted():
    """The interrupt while the loop waits for a batch."""
    before = held()
    loader = Loader("p", epochs=2)
    batches = iter(loader)
    next(batches)
    process = program(loader)
    process.send_signal(signal.SIGSTOP)

    main = f"/proc/self/task/{threading.get_native_id()}/syscall"

    def interrupt():
        while open(main).read().split()[0] not in ("47", "212"):  # recvmsg
            pass
        os.kill(os.getpid(), signal.SIGINT)
        process.send_signal(signal.SIGCONT)

    def waits():
        thread = threading.Thread(target=interrupt)
        thread.start()
        for _ in batches:
            pass
        thread.join()

    refused(KeyboardInterrupt, waits)
    at = loader.state_dict()["position"]
    assert [b.number for b in loader] == list(range(at, len(loader)))
    del batches, process, loader
    assert held() == before


def group():
    """TestPythonLoader sends the interrupt to the process group."""
    loader = Loader("p", epochs=2)
    try:
        for b in loader:
            print(program(loader).pid, flush=True)
            signal.pause()
    except KeyboardInterrupt:
        loader.close()
        assert not children()
        print("interrupted", flush=True)


def murdered():
    """TestPythonLoader kills this process."""
    loader = Loader("p", epochs=2)
    for b in loader:
        print(program(loader).pid, flush=True)
        signal.pause()


def closes():
    """A consumer that goes while the program starts, fills its cache, or has sent its first messages."""
    for when in range(6):
        p, ours = started("--pack", "p", "--quiet")
        if when % 3 == 1:
            ours.recv(1)
        elif when % 3 == 2:
            ours.sendall(b"nnnnnnnn")
            ours.recv(1)
        ours.close()
        assert p.wait() == 0, p.stderr.read()
    p, ours = started("--pack", "p", "--memory", "40MiB")
    ours.recv(1)
    ours.close()
    said = p.communicate()[1]
    assert p.returncode == 0 and "another process takes the batches from the slots, by shared memory" in said, said


def wrong():
    """A wrong byte is an error in its batch's place: the batches before it are seen, however far the program was ahead."""
    packed, rows = dict(pack="p", epochs=2), dict(dataset="d", samples="s", epochs=2)
    cases = [(packed, "p/cold-00000.bin"), (packed, "p/graph-00000.bin"), (packed, "p/hot.bin"), (packed, "p/index.bin"),
             (rows, "s/batches-00000.bin"), (rows, "d/features.bin"), (dict(rows, store="rows", ram_cache="10%"), "d/features.bin"), (dict(rows, store="gids", ram_cache="50%"), "d/features.bin"),
             (dict(rows, store="ginex", ram_cache="10%"), "s/batches-00000.bin")]
    for args, name in cases:
        whole = [key(b) for b in Loader(**args)]
        for at in (100, os.path.getsize(name) // 3):
            counts = set()
            with flipped(name, at):
                for slots in (1, 2, None):
                    seen = []
                    e = refused(FeedError, lambda: [seen.append(key(b)) for b in Loader(slots=slots, **args)])
                    assert e.exit_code == 3 and seen == whole[: len(seen)] and len(seen) < len(whole), (args, name, at, e, e.exit_code, len(seen))
                    ranged(e, name, at)
                    counts.add(len(seen))
            assert len(counts) == 1, (args, name, at, counts)
            print(name, at, counts, e)
    assert [key(b) for b in Loader(**packed)]


@contextlib.contextmanager
def flipped(name, at):
    """A file with a wrong byte."""
    def flip():
        with open(name, "r+b") as f:
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 1]))

    flip()
    try:
        yield
    finally:
        flip()


def ranged(e, name, at):
    """The error names the file, and a range with the byte."""
    found = re.search(rf"{re.escape(os.path.basename(name))}: bytes (\d+) to (\d+)", str(e))
    assert found and int(found[1]) <= at < int(found[2]), (name, at, e)


def flips():
    """A wrong byte in any file of a dataset, of samples or of a pack is an error with the file, and a range that has the byte."""
    drawn, sampled = dict(dataset="d", fanout="3,4", batch_size=40), dict(dataset="d", samples="s")
    of = {"d": [drawn, dict(sampled, store="rows", ram_cache="10%")], "s": [dict(sampled, epochs=2)], "c": [dict(dataset="c", fanout="3,4", batch_size=40)]}
    for pack in ("p", "min", "z", "q6"):
        of[pack] = [dict(pack=pack, epochs=2), dict(pack=pack, split="valid")]
    for directory, loaders in of.items():
        for name in sorted(os.listdir(directory)):
            path = os.path.join(directory, name)
            size = os.path.getsize(path)
            # The rows of eval-cold.bin are held in memory; a store makes a wrong features.bin.pages anew.
            if name in ("run.json", "eval-cold.bin", "features.bin.pages") or not size:
                continue
            errors = 0
            for at in sorted({0, size // 2, size - 1}):
                with flipped(path, at):
                    for args in loaders:
                        try:
                            assert list(Loader(**args))
                        except FeedError as e:  # otherwise nobody reads the byte
                            assert e.exit_code == 3, e
                            ranged(e, name, at)
                            errors += 1
                            break
            print(path, errors)
            assert errors, path


def kills():
    """Kills of either side, DISKGNN_KILLS in all, leave no process and no descriptor."""
    before = held()
    for i in range(int(os.environ.get("DISKGNN_KILLS", "10"))):
        blow = random.random() * 8
        if i % 2:
            loader = Loader("p", epochs=1000)

            def rest():
                for b in loader:
                    if b.number >= blow:
                        program(loader).kill()

            refused(FeedError, rest, "SIGKILL")
            del loader
        else:
            r, w = os.pipe()
            pid = os.fork()
            if pid == 0:
                loader = Loader("p", epochs=1000)
                for b in loader:
                    if b.number >= blow:
                        os.write(w, f"{program(loader).pid}\n".encode())
                        signal.pause()
            os.close(w)
            with os.fdopen(r) as f:
                fd = os.pidfd_open(int(f.readline()))
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            ended(fd)
        assert held() == before, (i, before, held())


def memory():
    """The program's anonymous and shared memory stays below --memory."""
    limit = 48 << 20
    with Loader("large", epochs=3, memory=f"{limit}B") as loader:
        most = 0
        for b in loader:
            with open(f"/proc/{program(loader).pid}/status") as f:
                most = max(most, sum(int(line.split()[1]) << 10 for line in f if line.startswith(("RssAnon", "RssShmem"))))
        shared = sum(loader._hello["slots"])
        print(f"{most} bytes of {limit}, {shared} in {len(loader._hello['slots'])} slots")
        assert 4 << 20 < shared < most < limit, (shared, most)


def every():
    """Inference over all nodes, by ranges of them: each node once, with the result of the whole graph; the plan has the
    input nodes that a search finds."""
    d = diskgnn.Dataset("d")
    n, size, (sources, destinations) = d.facts["nodes"], 64, d.edge_index()
    weights = [np.random.default_rng(l).normal(size=(2, 24, 24)).astype("f4") for l in range(2)]

    def layer(w, x, own, edges):
        sums = np.zeros_like(own)
        np.add.at(sums, edges[1], x[edges[0]])
        return np.tanh(own @ w[0] + sums @ w[1] / 8)

    want = d.features[:]
    for w in weights:
        want = layer(w, want, want, (sources, destinations))
    inputs = edges = 0
    for at in range(0, n, size):
        near = np.arange(n) // size == at // size
        for _ in weights:
            edges += int(near[destinations].sum())
            near[sources[near[destinations]]] = True
        inputs += int(near.sum())
    for flags in {}, {"store": "gids", "ram_cache": "90%"}, {"store": "rows", "ram_cache": "5%"}:
        got, y, rows = [], [], 0
        for b in Loader(dataset="d", fanout=["all", "all"], split="all", batch_size=size, **flags):
            x, rows = b.x, rows + len(b.x)
            for w, k in zip(weights, b.blocks):
                x = layer(w, x, x[k.dst], k.edge_index)
            got.append(x)
            y.append(b.y.copy())
        assert np.allclose(np.concatenate(got), want, 0, 1e-4) and np.array_equal(np.concatenate(y), d.labels)
        command = ["diskgnn", "feed", "--plan", "--json", "--dataset", "d", "--fanout", "all,all", "--split", "all", "--batch-size", str(size)]
        flags = [w for k, v in flags.items() for w in ("--" + k.replace("_", "-"), v)]
        plan = json.loads(subprocess.run(command + flags, check=True, stdout=subprocess.PIPE).stdout)
        assert plan["drawn"] == {"drawn_batches": len(got), "seed_nodes": n, "input_nodes": inputs, "edges": edges, "amplification": inputs / n, "feature_bytes": inputs * 96}
        assert rows == inputs > 2 * n and plan["disk_bytes"] == 0 and plan["epochs"] == 1 and plan["batches_per_epoch"] == len(got), plan


def of(tests=sys.argv[1:]):
    for name in tests:
        globals()[name]()


if __name__ == "__main__":
    of()
