"""Checks of a CRD's schemas and CEL rules when it is written."""

from __future__ import annotations

from typing import Any

from pykcp.machinery.cel.rules.rule_checks import check_rules
from pykcp.machinery.cel.rules.schema_rules import SchemaRules
from pykcp.machinery.schema.openapi_json import from_json
from pykcp.machinery.schema.violations import schema_errors
from pykcp.machinery.status import FieldError
from pykcp.types import Object

_FORMAL = (".message", ".reason", ".fieldPath")


class CustomSchemaChecks:
    """Defaults against their own schema, and the rules of a schema as a whole."""

    def value(self, schema: Object, value: Any, path: str) -> list[FieldError]:
        """Whether a default is a valid value of its schema: types, limits, CEL rules."""
        node = from_json({name: part for name, part in schema.items() if name != "default"})
        errors = schema_errors(node, value, path=path)
        if errors:
            return errors
        return SchemaRules(node, root=node.embedded_resource).validate(value, path=path)

    def rules(
        self, schema: Object, path: str, *, stored: frozenset[str], unchanged: bool
    ) -> list[FieldError]:
        """Whether the CEL rules of a structural schema compile and are cheap enough.

        A schema that did not change was judged when it came in.
        """
        if unchanged:
            return []
        return [e for e in check_rules(from_json(schema), path) if not _is_formal(e)]


def _is_formal(error: FieldError) -> bool:
    """Whether it is about a rule's form, which the schema's own rules judge already."""
    return error.reason == "FieldValueRequired" or error.path.endswith(_FORMAL)


SCHEMA_CHECKS = CustomSchemaChecks()
