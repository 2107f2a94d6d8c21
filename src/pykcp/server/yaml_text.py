"""YAML bodies: read as JSON values, with Go's words for what is wrong with them."""

from __future__ import annotations

import re
from typing import Any

_loader: Any = None


class BadYAML(ValueError):
    """A text that is not YAML, or says what JSON cannot; the message is Go's."""


def parse(body: bytes) -> Any:
    """The values of a text; sorting out what YAML knows and JSON does not."""
    import yaml

    try:
        return _json_value(_first_document(yaml, body))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise BadYAML(_go_words(error)) from error


def _first_document(yaml: Any, body: bytes) -> Any:
    """Like Go's decoder, only the first document is read."""
    loader = _safe_loader(yaml)(body)
    try:
        return loader.get_data() if loader.check_data() else None
    finally:
        loader.dispose()


def _go_words(error: Exception) -> str:
    problem = getattr(error, "problem", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    line = f"line {mark.line + 1}: " if mark is not None and mark.line else ""
    return f"yaml: {line}{problem}"


def _safe_loader(yaml: Any) -> Any:
    """The C loader, in which a timestamp is a string: JSON has no other way to say it."""
    global _loader  # noqa: PLW0603  # made once, on the first YAML body
    if _loader is None:

        class Loader(yaml.CSafeLoader):  # type: ignore[misc]
            pass

        Loader.add_constructor(
            "tag:yaml.org,2002:timestamp", Loader.yaml_constructors["tag:yaml.org,2002:str"]
        )
        # Go reads the single letters as booleans, too.
        Loader.add_implicit_resolver(
            "tag:yaml.org,2002:bool", re.compile(r"^(?:y|Y|n|N)$"), list("yYnN")
        )
        Loader.bool_values = {**yaml.CSafeLoader.bool_values, "y": True, "n": False}
        _loader = Loader
    return _loader


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {_json_key(k): _json_value(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_json_value(v) for v in value]
    if isinstance(value, (set, bytes)):
        raise ValueError("value has no form in JSON")  # noqa: TRY004
    return value


def _json_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None:
        return "null"
    return str(key)


def duplicates(body: bytes) -> list[str]:
    """`line 7: key "kind" already set in map` for each repeated key."""
    import yaml

    found: list[str] = []
    root = yaml.compose(body, Loader=yaml.CSafeLoader)
    pending = [root] if root is not None else []
    while pending:
        node = pending.pop()
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in seen:
                        found.append(
                            f'line {key.start_mark.line + 1}: key "{key.value}" already set in map'
                        )
                    seen.add(key.value)
                pending.append(value)
        elif isinstance(node, yaml.SequenceNode):
            pending += node.value
    return found
