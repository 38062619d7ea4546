"""The names in pickles of files of torch.save, by Python's pickletools: globals.py FILE... > globals.tsv

Each line is a module, a name, and the first of the files that has it.
"""

import os
import pickletools
import sys
import zipfile

found = {}
for name in sys.argv[1:]:
    with zipfile.ZipFile(name) as z:
        text = z.read(next(n for n in z.namelist() if n.endswith("/data.pkl")))
    strings, memo, last = [], {}, None
    for op, arg, _ in pickletools.genops(text):
        if op.name in ("SHORT_BINUNICODE", "BINUNICODE"):
            strings.append(arg)
        elif op.name in ("BINPUT", "LONG_BINPUT"):
            memo[arg] = last
        elif op.name == "MEMOIZE":
            memo[len(memo)] = last
        elif op.name in ("BINGET", "LONG_BINGET"):
            strings.append(memo[arg])
        elif op.name == "GLOBAL":
            found.setdefault(tuple(arg.split(" ", 1)), os.path.basename(name))
        elif op.name == "STACK_GLOBAL":
            found.setdefault(tuple(strings[-2:]), os.path.basename(name))
        last = arg if isinstance(arg, str) else None
for (module, what), name in sorted(found.items()):
    print(module, what, name, sep="\t")
