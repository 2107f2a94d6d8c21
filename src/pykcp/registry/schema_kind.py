"""Kinds that are defined by a schema: kcp's own, CRDs and bound ones."""

from __future__ import annotations

from pykcp.apis.catalog import ResourceDefinition
from pykcp.apis.kube.validation.custom import custom_rules
from pykcp.apis.kube.validation.rules import Facts, before_create, before_update
from pykcp.registry.codec import strip_cluster
from pykcp.registry.kinds import Verdict
from pykcp.registry.ownership import Ownership
from pykcp.types import Object


class SchemaKind:
    create_on_update = False
    unconditional_update = False

    def __init__(self, definition: ResourceDefinition, version: str) -> None:
        self._definition = definition
        self._version = version
        subresources = {s.name for s in definition.subresources_of(version)}
        self._rules = custom_rules(
            definition.namespaced,
            has_status="status" in subresources,
            scale=definition.version(version).scale,
        )
        self._ownership = Ownership(definition, version, self._converted)
        self.selectable = self._rules.selectable

    def decode(self, obj: Object, problems: list[str], raw: bytes | None = None) -> Object:
        strip_cluster(obj)
        return obj

    def before_create(self, obj: Object, facts: Facts) -> Verdict:
        return before_create(self._rules, obj, facts)

    def before_update(self, new: Object, old: Object, subresource: str, facts: Facts) -> Verdict:
        rules = self._rules.subresources[subresource] if subresource else self._rules
        return before_update(rules, new, old, facts)

    def manage_update(
        self, live: Object | None, new: Object, manager: str, subresource: str, now: str
    ) -> None:
        self._ownership.after_update(live, new, manager, subresource, now)

    def manage_apply(
        self,
        live: Object | None,
        applied: Object,
        manager: str,
        subresource: str,
        now: str,
        *,
        force: bool,
    ) -> Object:
        fields = self._ownership.manager(subresource)
        return fields.on_apply(live, applied, manager, now, force=force)

    def _converted(self, obj: Object, api_version: str) -> Object:
        return {**obj, "apiVersion": api_version}
