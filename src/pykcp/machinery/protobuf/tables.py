"""Tables of message fields: one text per API group, one line per message.

    version v1
    DeploymentSpec replicas=1:i? selector=2:meta/v1.LabelSelector?! template=3:core/v1.PodTemplateSpec!

A field is `name=number:type`; the name `*` is a struct whose fields Go embeds.

| type | value |
|---|---|
| (none) | string |
| `i` `l` `b` `d` `y` | int32, int64, bool, double, bytes |
| `Time` `MicroTime` `Quantity` `IntOrString` `Raw` | the types of `values.py`; `Raw` is any JSON |
| `SchemaOrBool` `SchemaOrArray` `SchemaOrStrings` | the unions of CustomResourceDefinition |
| `Name`, `core/v1.Name` | a message of this version, of another one |
| `[]T` `{}T` `<>T` | a list, a map with strings as keys, a list within a message of its own |

Then come marks: `?` is a pointer in Go (unset differs from empty), `!` is printed as JSON even
if it is empty, `~` is left out if it is empty although it is a struct.
Lists of a kind (`metadata=1`, `items=2`) are not in the tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FIELD = re.compile(r"([^=]+)=(\d+)(?::((?:\[\]|\{\}|<>)*)([^?!~]*)([?!~]*))?")


@dataclass(frozen=True, slots=True)
class MessageField:
    """One field of a message."""

    name: str
    number: int
    shape: str
    """"" for a single value, otherwise `[]`, `{}`, `<>` or `{}<>`."""
    type: str
    is_pointer: bool
    is_always: bool
    omits_zero: bool


def parse_table(text: str) -> dict[str, str]:
    """The lines of a table by version and message: `v1.DeploymentSpec`."""
    found: dict[str, str] = {}
    version = ""
    for line in text.splitlines():
        head, _, rest = line.partition(" ")
        if head == "version":
            version = rest
        elif head and head != "#":
            found[f"{version}.{head}"] = rest
    return found


def parse_message(line: str) -> list[MessageField]:
    """The fields of a message, by number."""
    rows = []
    for entry in line.split():
        match = _FIELD.fullmatch(entry)
        assert match is not None, entry
        name, number, shape, type_, marks = match.groups(default="")
        rows.append(
            MessageField(name, int(number), shape, type_, "?" in marks, "!" in marks, "~" in marks)
        )
    return rows
