"""What a common schema may not keep of those that it was made of, so that a server accepts it.

Defaults and rules speak of other parts of the schema: a property that one cluster lacks is removed,
and what named it is wrong then.
"""

from __future__ import annotations

import copy
from typing import Any

from pykcp.machinery.cel.rules.rule_checks import check_rules
from pykcp.machinery.cel.rules.schema_rules import SchemaRules
from pykcp.machinery.negotiation.findings import Findings, text_of
from pykcp.machinery.schema.openapi_json import from_json
from pykcp.machinery.schema.pruning import compile_pruner
from pykcp.machinery.schema.violations import schema_errors
from pykcp.types import Object

RULES = "x-kubernetes-validations"
_MOST_ERRORS = 20


def settled(schema: Object, at: Findings) -> Object:
    """The schema without defaults that do not fit, which are warnings. A rule that cannot be used
    with it is a conflict: without the rule, a cluster would reject what the workspace accepts.
    """
    found = _with_fitting_defaults(schema, at)
    if _has_rules(found):
        for error in check_rules(from_json(found), at.path)[:_MOST_ERRORS]:
            place = Findings(error.path, at.found)
            place.conflict(f"the validation rule cannot be used: {error.message}")
    return found


def _with_fitting_defaults(node: Object, at: Findings) -> Object:
    out = dict(node)
    properties = out.get("properties")
    if isinstance(properties, dict):
        out["properties"] = {
            name: _with_fitting_defaults(child, at.below("properties", name))
            for name, child in properties.items()
        }
    for name in ("items", "additionalProperties"):
        if isinstance(out.get(name), dict):
            out[name] = _with_fitting_defaults(out[name], at.at(name))
    if out.get("default") is not None and not _fits(out):
        at.at("default").warn(f"the default {text_of(out['default'])} has been removed")
        del out["default"]
    return out


def _fits(node: Object) -> bool:
    """Whether the default of a node is a value that the node accepts and keeps."""
    value = node["default"]
    schema = from_json({name: part for name, part in node.items() if name != "default"})
    whole = from_json({"type": "object", "properties": {"value": {**node, "default": None}}})
    document: dict[str, Any] = {"value": copy.deepcopy(value)}
    dropped: list[str] = []
    compile_pruner(whole)(document, None, dropped)
    if dropped or schema_errors(schema, value):
        return False
    return not SchemaRules(schema, root=schema.embedded_resource).validate(value)


def _has_rules(node: Any) -> bool:
    if isinstance(node, list):
        return any(_has_rules(one) for one in node)
    if not isinstance(node, dict):
        return False
    return bool(node.get(RULES)) or any(_has_rules(one) for one in node.values())
