"""Loads the upstream with dlt: `load_dlt.py <defaults|arrow|merge|parallel> <upstream> <postgres> <records> <page size>`.

`defaults` is what its documentation begins with. `arrow` makes pages Arrow tables and sends them by the fastest loader that dlt has for
Postgres (ADBC); `merge` does so too and keeps one row a key; `parallel` asks for 12 pages at once.
"""

import os
import sys

import dlt
import orjson
import pyarrow as pa
from dlt.destinations import postgres
from dlt.sources.helpers import requests
from dlt.sources.rest_api import rest_api_source
from pages import KEY, PATH, kinds, params

mode, upstream, database, records, size = sys.argv[1:]
size = int(size)
last_page = -(-int(records) // size)
TYPES = {
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "time": pa.timestamp("us", "UTC"),
    "text": pa.string(),
}


def defaults():
    paginator = {"type": "page_number", "base_page": 1, "page_param": "Page", "total_path": None}
    endpoint = {"path": PATH, "params": params(1, size), "paginator": paginator}
    return rest_api_source(
        {
            "client": {"base_url": f"{upstream}/"},
            "resources": [{"name": "assignment", "endpoint": endpoint}],
        }
    )


def read(page: int) -> list[dict]:
    return orjson.loads(requests.get(f"{upstream}/{PATH}", params=params(page, size)).content)


def to_table(page: list[dict], fields: dict[str, str]) -> pa.Table:
    as_read = {field: pa.string() if kind == "time" else TYPES[kind] for field, kind in fields.items()}
    table = pa.Table.from_pylist(page, pa.schema(as_read.items()))
    for at, (field, kind) in enumerate(fields.items()):
        if kind == "time":
            moments = table[field].cast(pa.timestamp("us")).cast(TYPES["time"])
            table = table.set_column(at, field, moments)
    return table


@dlt.defer
def read_later(page: int, fields: dict[str, str]) -> pa.Table:
    return to_table(read(page), fields)


@dlt.resource(
    name="assignment",
    write_disposition="merge" if mode == "merge" else "append",
    primary_key=KEY if mode == "merge" else None,
)
def assignments():
    first = read(1)
    fields = kinds(first)
    yield to_table(first, fields)
    for page in range(2, last_page + 1):
        yield read_later(page, fields) if mode == "parallel" else to_table(read(page), fields)


os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
os.environ["RUNTIME__LOG_LEVEL"] = "ERROR"
if mode == "parallel":
    os.environ["EXTRACT__WORKERS"] = "12"
pipeline = dlt.pipeline("bench", destination=postgres(database), dataset_name="dlt")
if mode == "defaults":
    pipeline.run(defaults())
else:
    pipeline.run(assignments(), loader_file_format="parquet")
