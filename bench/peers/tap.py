"""A Singer tap for the upstream, written as the SDK wants it: `tap.py --config <file>`, with `upstream`, `page_size` and `is_best`."""

import json
import sys

import requests
from pages import KEY, PATH, kinds, params
from singer_sdk import RESTStream, Tap
from singer_sdk import typing as th
from singer_sdk.contrib.msgspec import MsgSpecWriter
from singer_sdk.pagination import BasePageNumberPaginator

TYPES = {
    "integer": th.IntegerType,
    "number": th.NumberType,
    "boolean": th.BooleanType,
    "time": th.DateTimeType,
    "text": th.StringType,
}


class UntilEmpty(BasePageNumberPaginator):
    def has_more(self, response: requests.Response) -> bool:
        return len(response.content) > len("[]")


class Assignments(RESTStream):
    name = "assignment"
    path = f"/{PATH}"
    primary_keys = (KEY,)
    records_jsonpath = "$[*]"

    @property
    def url_base(self) -> str:
        return self.config["upstream"]

    def get_new_paginator(self) -> UntilEmpty:
        return UntilEmpty(start_value=1)

    def get_url_params(self, context, next_page_token) -> dict:
        return params(next_page_token or 1, self.config["page_size"])


class BenchTap(Tap):
    name = "tap-bench"
    config_jsonschema = th.PropertiesList(
        th.Property("upstream", th.StringType, required=True),
        th.Property("page_size", th.IntegerType, required=True),
        th.Property("is_best", th.BooleanType, default=False),
    ).to_dict()

    def discover_streams(self) -> list[Assignments]:
        url = f"{self.config['upstream']}/{PATH}"
        first = requests.get(url, params=params(1, self.config["page_size"]), timeout=60).json()
        fields = [th.Property(field, TYPES[kind]) for field, kind in kinds(first).items()]
        return [Assignments(self, schema=th.PropertiesList(*fields).to_dict())]


if __name__ == "__main__":
    with open(sys.argv[sys.argv.index("--config") + 1]) as file:
        is_best = json.load(file)["is_best"]
    # The faster of its two ways to write messages.
    if is_best:
        BenchTap.message_writer_class = MsgSpecWriter
    BenchTap.cli()
