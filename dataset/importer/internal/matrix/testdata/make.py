#!/usr/bin/env python3
"""Writes the tables in this directory: one table in Parquet and Arrow, as pyarrow 26 and pandas write it.

The values are formulas of the row, which TestLibraries has too.
"""
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

n = 120
i = np.arange(n, dtype=np.int64)
mixed = i * 2654435761 % 2**32
table = pa.table({
    "i8": pa.array(i - 60, pa.int8()),
    "u8": pa.array(i + 100, pa.uint8()),
    "i16": pa.array(i * 500 - 30000, pa.int16()),
    "u16": pa.array(i * 500, pa.uint16()),
    "i32": pa.array(mixed - 2**31, pa.int32()),
    "u32": pa.array(mixed, pa.uint32()),
    "i64": pa.array(mixed * 1000003 - 5, pa.int64()),
    "u64": pa.array(mixed * 1000003, pa.uint64()),
    "f16": pa.array((i / 4).astype(np.float16), pa.float16()),
    "f32": pa.array(mixed / 8, pa.float32()),
    "f64": pa.array(mixed / 3, pa.float64()),
    "b": pa.array(i % 3 == 0),
    "maybe": pa.array([None if k % 5 == 0 else int(k) for k in i], pa.int32()),
    "list": pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(i, 2) + np.tile([0, .5], n), pa.float32()), 2),
    "s": pa.array([None if k % 11 == 0 else f"w{k % 7}" for k in i], pa.string()),
    "ls": pa.array([f"ü{k}" for k in i], pa.large_string()),
    "d": pa.array([f"class {k % 3}" for k in i]).dictionary_encode(),
})
out = sys.argv[1] if len(sys.argv) > 1 else "."

for name, options in {
    "lz4-dict": dict(compression="lz4", use_dictionary=True),
    "lz4": dict(compression="lz4", use_dictionary=False, data_page_version="2.0"),
    "zstd": dict(compression="zstd", use_dictionary=False),
    "snappy-v2": dict(compression="snappy", data_page_version="2.0", row_group_size=50),
    "gzip": dict(compression="gzip", data_page_size=100),
    "brotli": dict(compression="brotli"),
    "encodings": dict(compression="none", use_dictionary=False, column_encoding={
        "i32": "DELTA_BINARY_PACKED", "i64": "DELTA_BINARY_PACKED", "f32": "BYTE_STREAM_SPLIT", "f64": "BYTE_STREAM_SPLIT",
        "f16": "BYTE_STREAM_SPLIT", "s": "DELTA_LENGTH_BYTE_ARRAY", "ls": "DELTA_BYTE_ARRAY", "b": "RLE"}),
}.items():
    pq.write_table(table, f"{out}/{name}.parquet", **options)

for c in ("lz4", "zstd", "uncompressed"):
    feather.write_feather(table, f"{out}/{c}.feather", compression=c, chunksize=50)
with ipc.new_stream(f"{out}/stream.arrows", table.schema) as w:
    w.write_table(table, max_chunksize=50)

few = table.select(["i64", "f32"]).to_pandas()
few.iloc[[0, 3, 4]].to_parquet(f"{out}/pandas.parquet")
pq.write_table(pa.table({"x": pa.array([1, 2], pa.decimal128(9, 2))}), f"{out}/decimal.parquet")
feather.write_feather(pa.table({"x": pa.array([1, 2], pa.decimal128(9, 2)), "l": pa.array([[1], [2, 3]])}), f"{out}/other.feather", compression="uncompressed")

# Columns of views, of which some words are too long to lie in the view; and columns between that are not read.
views = pa.table({
    "n": pa.array([None] * n, pa.null()),
    "v": pa.array([None if k % 9 == 0 else f"w{k}" * (k % 8) for k in i], pa.string_view()),
    "st": pa.array([{"a": int(k), "b": [int(k)]} for k in i]),
    "v2": pa.array([f"a word that is long, of row {k}" for k in i], pa.string_view()),
    "dec": pa.array([1] * n, pa.decimal128(9, 2)),
    "x": pa.array(i, pa.int64()),
    "dv": pa.DictionaryArray.from_arrays(pa.array(i % 2, pa.int8()), pa.array(["short", "a word that is long"], pa.string_view())),
})
with ipc.new_file(f"{out}/views.arrow", views.schema, options=ipc.IpcWriteOptions(compression="zstd")) as w:
    w.write_table(views, max_chunksize=50)
none = pa.table({"src": [1], "dst": [2]})
with pq.ParquetWriter(f"{out}/groups.parquet", none.schema) as w:  # the first row group and the last are empty
    for rows in (0, 1, 0):
        w.write_table(none.slice(0, rows))
pq.write_table(none.slice(0, 0), f"{out}/none.parquet")
pq.write_table(views.select(["x", "st"]), f"{out}/nested.parquet")
feather.write_feather(pa.table({"f": pa.array([1, None, 2.5], pa.float64()), "s": ["", "", ""]}), f"{out}/few.feather", compression="uncompressed")
