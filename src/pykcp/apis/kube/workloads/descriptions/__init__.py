"""Descriptions of Kubernetes' kinds for workloads and of their fields, as `kubectl explain` shows them.

They are no part of the definitions, which every server with these kinds stores and compiles:
they are added to OpenAPI documents while those are made, and are not kept in memory.

There is a file for every API group, and several for `core`:

    version v1
    PodCondition = meta/v1.Condition | One thing that is known about a pod.
      lastProbeTime                  | When the condition was last checked.

A line without indentation is a message, the lines below it are its fields. What a message does not
say of its fields is taken from the one behind `=`; a field without a text has that of its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pykcp.apis.kube.workloads import is_plain, reference_to
from pykcp.apis.protobuf import has_protobuf, message_table
from pykcp.machinery.protobuf.tables import parse_message
from pykcp.machinery.schema.definition import ResourceDefinition
from pykcp.types import Object

_FOLDER = Path(__file__).parent


class MessageTexts(NamedTuple):
    """What a file says of a message."""

    base: str
    """The message whose texts it shares; "" for none."""
    text: str
    fields: dict[str, str]


class FieldText(NamedTuple):
    """What is said of a field."""

    text: str
    type: str
    """The message that the field holds one or more of; "" for plain values."""


def describe(components: Object, definitions: Sequence[ResourceDefinition]) -> None:
    """Add descriptions, in place, to the components of an OpenAPI document."""
    texts = Descriptions()
    for definition in definitions:
        if not definition.is_kubernetes or not has_protobuf(definition.group):
            continue
        for version in definition.versions:
            json = components.get(definition.schema(version).ref)
            if json is not None:
                name = f"{definition.group or 'core'}/{version}.{definition.kind}"
                texts.describe(json, name)


class Descriptions:
    """Texts by message and field. A file is read when a message of its group is first looked up."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, MessageTexts]] = {}
        self._fields: dict[str, dict[str, FieldText]] = {}

    def describe(self, json: Object, name: str) -> None:
        """Add to a schema, in place, what it does not say itself of this message."""
        _add(json, self._message(name).text)
        properties = json.get("properties")
        if not properties:
            return
        fields = self.fields_of(name)
        for key, child in properties.items():
            field = fields.get(key)
            if field is not None:
                self._describe_field(child, field)

    def _describe_field(self, json: Object, field: FieldText) -> None:
        _add(json, field.text)
        if field.type:
            self.describe(_innermost(json), field.type)

    def _message(self, name: str) -> MessageTexts:
        group, _, rest = name.partition("/")
        if group not in self._groups:
            self._groups[group] = read_group(group)
        return self._groups[group].get(rest, MessageTexts("", "", {}))

    def fields_of(self, name: str) -> dict[str, FieldText]:
        """The fields of a message, those of the structs that Go embeds among them."""
        if name not in self._fields:
            self._fields[name] = self._find_fields(name)
        return self._fields[name]

    def _find_fields(self, name: str) -> dict[str, FieldText]:
        group, _, rest = name.partition("/")
        api = name.rpartition(".")[0]
        texts, found = self._texts(name), {}
        for field in parse_message(message_table(group).get(rest, "")):
            type_ = "" if is_plain(field.type) else reference_to(field.type, api)
            if field.name == "*":
                found.update(self.fields_of(type_))
            else:
                found[field.name] = FieldText(self._message(type_).text if type_ else "", type_)
        return {
            key: field._replace(text=texts.get(key, field.text)) for key, field in found.items()
        }

    def _texts(self, name: str) -> dict[str, str]:
        message = self._message(name)
        if not message.base:
            return message.fields
        return {
            **self._texts(reference_to(message.base, name.rpartition(".")[0])),
            **message.fields,
        }


def groups() -> frozenset[str]:
    """The API groups that there are files for."""
    names = (path.stem.partition("-")[0] for path in _FOLDER.glob("*.descriptions"))
    return frozenset(names)


def read_group(group: str) -> dict[str, MessageTexts]:
    """The messages of an API group (`core` and `meta` among them) by version and name."""
    found: dict[str, MessageTexts] = {}
    for path in sorted(_FOLDER.glob(f"{group}[.-]*descriptions")):
        _read(path.read_text(encoding="utf-8"), found)
    return found


def _read(text: str, found: dict[str, MessageTexts]) -> None:
    version, fields = "", dict[str, str]()
    for line in text.splitlines():
        head, _, words = line.partition(" | ")
        if not line or line[0] == "#":
            continue
        if line.startswith("version "):
            version = line.split()[1]
        elif line[0] == " ":
            fields[head.strip()] = words
        else:
            name, _, base = head.partition("=")
            fields = {}
            found[f"{version}.{name.strip()}"] = MessageTexts(base.strip(), words, fields)


def _innermost(json: Object) -> Object:
    """What a list or a map consists of."""
    for part in ("items", "additionalProperties"):
        inner = json.get(part)
        if isinstance(inner, dict):
            return _innermost(inner)
    return json


def _add(json: Object, text: str) -> None:
    if text and not json.get("description") and "$ref" not in json:
        json["description"] = text
