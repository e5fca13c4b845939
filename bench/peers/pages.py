"""The pages of the upstream of the bench, and what kinds of values their fields have."""

import re

PATH = "assignment/api/Assignment/neworchanged/0"
KEY = "assignmentId"
SORTS = "sysRowVersion"

LOOKS_LIKE_A_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d")


def params(page: int, size: int) -> dict:
    return {"Page": page, "PageSize": size, "Sorts": SORTS}


def kinds(records: list[dict]) -> dict[str, str]:
    """Of each field: integer, number, boolean, time or text, as whoever knows the upstream would write down."""
    return {
        field: kind([record[field] for record in records if record[field] is not None]) for field in records[0]
    }


def kind(values: list) -> str:
    types = {type(value) for value in values}
    if types == {bool}:
        return "boolean"
    if types == {int}:
        return "integer"
    if types and types <= {int, float}:
        return "number"
    if types == {str} and all(LOOKS_LIKE_A_TIME.match(value) for value in values):
        return "time"
    return "text"
