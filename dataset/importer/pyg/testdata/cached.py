"""Files of graphs as PyTorch Geometric saves them after a look at their attributes: cached.py DIR

node_attrs(), edge_attrs() and transforms such as ToUndirected leave _cached_attr in a graph's store: a
defaultdict of sets of names by AttrType. This adds it, and values of other builtin types as attributes, to
what the library wrote as object.pt, and pickles it by the protocol and with the opcodes of torch.save. It
needs neither torch nor the library: their classes have stand-ins of the same names.
"""

import collections
import enum
import io
import os
import pickle
import sys
import types
import zipfile


def stand_in(module, name, *bases, **more):
    """Makes a class that is pickled by the name of another."""
    path = module.split(".")
    for i in range(len(path)):
        sys.modules.setdefault(".".join(path[: i + 1]), types.ModuleType(".".join(path[: i + 1])))
    where = sys.modules[module]
    if not hasattr(where, name):
        setattr(where, name, type(name, bases or (object,), {"__module__": module, "__qualname__": name, **more}))
    return getattr(where, name)


class Called:
    """What a function of torch would have returned: pickled as that call."""

    def __init__(self, function, args):
        self.function, self.args = function, args

    def __reduce__(self):
        return self.function, self.args


class Kept:
    """A storage outside the pickle."""

    def __init__(self, id):
        self.id = id


class Reader(pickle.Unpickler):
    def persistent_load(self, id):
        return Kept(id)

    def find_class(self, module, name):
        if module == "torch._utils":
            stand_in(module, name)
            function = types.FunctionType((lambda *args: None).__code__, {}, name)
            function.__module__, function.__qualname__ = module, name
            setattr(sys.modules[module], name, function)
            return lambda *args: Called(function, args)
        if module.startswith("torch"):
            return stand_in(module, name)
        return super().find_class(module, name)


class Writer(pickle._Pickler):
    def persistent_id(self, v):
        return v.id if isinstance(v, Kept) else None


class AttrType(enum.Enum):
    NODE = "NODE"
    EDGE = "EDGE"


stand_in("torch_geometric.data.storage", "AttrType")
AttrType.__module__ = "torch_geometric.data.storage"
sys.modules["torch_geometric.data.storage"].AttrType = AttrType


def cache(store):
    cached = collections.defaultdict(set)
    cached[AttrType.NODE].update(["x", "y", "train_mask"])
    cached[AttrType.EDGE].add("edge_index")
    store.__dict__["_cached_attr"] = cached


def builtins(store):
    cache(store)
    store.__dict__["_mapping"].update(part=slice(1, 5), scale=1 + 2j, kinds=frozenset(["a"]), steps=range(3), seen={1})


def save(name, change, protocol):
    source = zipfile.ZipFile(os.path.join(os.path.dirname(__file__), "object.pt"))
    (text,) = (n for n in source.namelist() if n.endswith("/data.pkl"))
    data = Reader(io.BytesIO(source.read(text))).load()
    change(data.__dict__["_store"])
    pickled = io.BytesIO()
    Writer(pickled, protocol).dump(data)
    with zipfile.ZipFile(os.path.join(sys.argv[1], name), "w") as made:
        for n in source.namelist():
            made.writestr(zipfile.ZipInfo(n), pickled.getvalue() if n == text else source.read(n))


save("cached.pt", cache, 2)
save("builtins.pt", builtins, 2)
save("builtins3.pt", builtins, 3)
save("builtins4.pt", builtins, 4)
