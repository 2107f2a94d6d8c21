"""`kubectl kcp crd snapshot`: CRDs in a file, APIResourceSchemas on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from pykcp.cli.plugins.apis.crd_schema import aggregate, convert
from pykcp.cli.plugins.apis.crd_types import BadField
from pykcp.cli.plugins.errors import PluginError, Prefixed
from pykcp.cli.plugins.go_text import quote
from pykcp.cli.plugins.go_yaml import dump
from pykcp.cli.plugins.shell.command import CommandInvocation
from pykcp.server.media.yaml_text import BadYAML, parse

Object = dict[str, Any]
_API_VERSION = "apiextensions.k8s.io/v1"
_SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'  # part of a message that scripts may know


def snapshot(invocation: CommandInvocation) -> None:
    _check(invocation)
    is_json = invocation["output"] == "json"
    for text in documents(read_file(invocation["filename"])):
        definition = decode(text)
        try:
            schema = convert(definition, invocation["prefix"])
        except BadField as error:
            raise PluginError(str(error)) from None
        except PluginError as error:
            raise Prefixed("error converting CRD", error) from None
        print(to_json(schema) if is_json else dump(schema))
        print("---")


def _check(invocation: CommandInvocation) -> None:
    problems = [f"--{name} is required" for name in ("filename", "prefix") if not invocation[name]]
    output = invocation["output"]
    if output not in ("json", "yaml"):
        problems.append(f"invalid value {quote(output)} for --output; valid values are json, yaml")
    if problems:
        raise PluginError(aggregate(problems))


def read_file(name: str) -> bytes:
    if name == "-":
        return sys.stdin.buffer.read()
    try:
        with open(name, "rb") as file:
            return file.read()
    except OSError as error:
        reason = f"open {name}: {(error.strerror or str(error)).lower()}"
        raise PluginError(f"error opening {name}: {reason}") from None


def documents(data: bytes) -> Iterator[bytes]:
    """The parts of a text between lines of dashes, without those that are empty."""
    part: list[bytes] = []
    for line in [*data.splitlines(keepends=True), b"---"]:
        if line.startswith(b"---") and not line[3:].strip():
            text = b"".join(part)
            if text.strip():
                yield text
            part = []
        else:
            part.append(line)


def decode(text: bytes) -> Object:
    """A CRD of the one version there is."""
    try:
        definition = parse(text)
    except BadYAML as error:
        raise PluginError(str(error)) from None
    kind = definition.get("kind") if isinstance(definition, dict) else None
    if not kind:
        raise PluginError(f"Object 'Kind' is missing in '{text.decode(errors='replace')}'")
    version = definition.get("apiVersion") or ""
    if (kind, version) == ("CustomResourceDefinition", _API_VERSION):
        found: Object = definition
        return found
    if version.startswith("apis.kcp.io/"):
        raise PluginError(
            f"{version.partition('/')[2]}.{kind} is not suitable for converting to "
            f'["{_API_VERSION}"] {_SCHEME}'
        )
    raise PluginError(f"no kind {quote(kind)} is registered for version {quote(version)} {_SCHEME}")


def to_json(value: Object) -> str:
    """JSON on one line, with the characters escaped that browsers would mind."""
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        line = line.replace(character, f"\\u{ord(character):04x}")
    return line + "\n"
