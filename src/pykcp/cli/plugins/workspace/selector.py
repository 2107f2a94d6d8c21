"""Label selectors as text, turned into the form that objects hold."""

from __future__ import annotations

from typing import Any

from pykcp.cli.plugins.go_text import quote

Object = dict[str, Any]
_OPERATORS = {"in": "In", "notin": "NotIn", "exists": "Exists", "!": "DoesNotExist"}


def parse_selector(text: str) -> Object | None:
    """`a=b,c in (d,e)` as a LabelSelector; ValueError says what is wrong with it."""
    if not text:
        return None
    from pykcp.machinery.labels import SelectorError, parse

    try:
        requirements = parse(text).requirements
    except SelectorError as error:
        raise ValueError(f'couldn\'t parse the selector string "{text}": {error}') from None
    labels: Object = {}
    expressions: list[Object] = []
    for requirement in requirements:
        if requirement.operator in ("=", "=="):
            labels[requirement.key] = requirement.values[0]
        elif requirement.operator in ("gt", "lt"):
            raise ValueError(f"{quote(requirement.operator)} isn't supported in label selectors")
        elif requirement.operator not in _OPERATORS:
            raise ValueError(
                f"{quote(requirement.operator)} is not a valid label selector operator"
            )
        else:
            expression: Object = {
                "key": requirement.key,
                "operator": _OPERATORS[requirement.operator],
            }
            if requirement.values:
                expression["values"] = sorted(requirement.values)
            expressions.append(expression)
    both = {"matchLabels": labels, "matchExpressions": expressions}
    return {name: part for name, part in both.items() if part}
