"""Negotiates the types of the clusters of each workspace, and lets the workspace serve the result.

One key is one type of one workspace; everything about it is computed anew from its imports.
Nothing that users stored is lost: a type that no cluster has any longer stays while objects of it
exist, and a published type is narrowed only if its objects fit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
import orjson

from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.conditions import conditions_of
from pykcp.machinery.kcp.condition_marks import mark_false, mark_true
from pykcp.machinery.kcp.conditions import INFO
from pykcp.machinery.negotiation.findings import SchemaFinding
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    CUSTOM_RESOURCE_DEFINITIONS,
    GroupVersionResource,
)
from pykcp.machinery.status import (
    AlreadyExists,
    BadRequest,
    Forbidden,
    Invalid,
    NotFound,
    RequestEntityTooLarge,
)
from pykcp.multicluster.clusters import report
from pykcp.multicluster.computing import Compute, compute_here
from pykcp.multicluster.importing import jobs, publishing
from pykcp.multicluster.importing.jobs import NegotiationQuestion
from pykcp.multicluster.importing.negotiation import NegotiationOutcome, summary
from pykcp.multicluster.importing.objects import (
    AVAILABLE,
    COMPATIBLE,
    ENFORCED,
    PUBLISHED,
    SUBMITTED,
    negotiated_object,
    resource_of,
)
from pykcp.multicluster.importing.stored import has_objects, misfits
from pykcp.multicluster.importing.table import ImportSummary, ImportTable
from pykcp.multicluster.names import IMPORTS, NEGOTIATED, negotiated_name
from pykcp.types import Object

NAME = "kcp-api-negotiation"
NOT_COMPARED = "NotCompared"
_MOST_FINDINGS = 50
_MOST_PROBLEM = 1000
_LOOK_AGAIN = 30.0
"""Seconds until stored objects that keep a type from being narrowed are looked at again."""
_LARGE = 64 * 1024
"""Bytes of schemas that are not compared on the event loop."""
_SETTLE_SECONDS = 0.3
"""Imports of several clusters often come together."""


class _Names(msgspec.Struct):
    plural: str = ""


class _Version(msgspec.Struct):
    name: str = ""


class _DefinitionSpec(msgspec.Struct):
    group: str = ""
    names: _Names = msgspec.field(default_factory=_Names)
    versions: list[_Version] = []


class _Definition(msgspec.Struct):
    """What is read of a CRD: definitions of all tenants come by here, and schemas are large."""

    spec: _DefinitionSpec


_decode_definition = msgspec.json.Decoder(_Definition).decode


@dataclass(slots=True)
class _Served:
    """How the workspace serves a type at present."""

    crd: Object | None
    binding: str
    """Name of the APIBinding that brings the type, or ""."""
    version: str
    problem: str = ""
    """Why the definition was not accepted."""

    @property
    def is_fixed(self) -> bool:
        return bool(self.binding) or (
            self.crd is not None and not publishing.is_negotiated(self.crd)
        )

    @property
    def is_published(self) -> bool:
        if self.binding:
            return True
        return self.crd is not None and publishing.is_served(self.crd, self.version)


class Negotiator:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        table: ImportTable,
        *,
        publishes: bool = True,
        compute: Compute = compute_here,
        metrics: ControllerMetrics | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`publishes`: whether new types are served at once."""
        self._compute = compute
        self._lister, self._client, self._table = lister, client, table
        self._publishes, self._clock = publishes, clock
        self.controller = Controller(NAME, self.reconcile, metrics=metrics)
        table.listen(self._on_import)

    def follow(self, feed: Feed) -> None:
        feed.on(NEGOTIATED, self._on_negotiated)
        feed.on(CUSTOM_RESOURCE_DEFINITIONS, self._on_crd)

    def _on_import(self, key: ObjectKey, state: ImportSummary, is_other: bool) -> None:
        """Reports are this controller's own: only types count."""
        if not is_other:
            return
        self.controller.add_after(ObjectKey(key.cluster, "", state.negotiated), _SETTLE_SECONDS)

    def _on_negotiated(self, change: Change) -> None:
        self.controller.add(change.key)

    def _on_crd(self, change: Change) -> None:
        spec = _decode_definition(change.value).spec
        plural, group = spec.names.plural, spec.group
        for version in spec.versions:
            name = negotiated_name(plural, version.name, group)
            if self._table.of_type(change.cluster, name) or self._lister.has(
                change.cluster, NEGOTIATED, name
            ):
                self.controller.add(ObjectKey(change.cluster, "", name))

    # --- one type

    async def reconcile(self, key: ObjectKey) -> float | None:
        negotiated = await self._client.get(key.cluster, NEGOTIATED, key.name)
        imports = await self._imports(key)
        if negotiated is None and not imports:
            return None
        spec = negotiated["spec"] if negotiated is not None else imports[0]["spec"]
        served = await self._served(key.cluster, spec)
        is_left = negotiated is not None and not imports and not served.is_fixed
        if negotiated is not None and is_left:
            if not await self._is_used(key.cluster, spec, served):
                await self._remove(key, negotiated, served)
            return None
        outcome = await self._negotiate(key.cluster, negotiated, imports, served)
        if outcome.spec is None:
            return None
        negotiated = await self._write(key, negotiated, outcome)
        if negotiated["spec"].get("publish") and not served.is_fixed:
            try:
                served.crd = await self._publish(key.cluster, negotiated, served.crd)
            except (Invalid, BadRequest, Forbidden, RequestEntityTooLarge) as error:
                served.problem = error.message
        await self._report(key.cluster, negotiated, outcome, served)
        for one in imports:
            await self._report_import(key.cluster, one, outcome, served)
        return _LOOK_AGAIN if outcome.refusal or served.problem else None

    async def _imports(self, key: ObjectKey) -> list[Object]:
        found = []
        for name in self._table.of_type(key.cluster, key.name):
            one = await self._client.get(key.cluster, IMPORTS, name)
            if one is not None and not meta.is_deleting(one):
                found.append(one)
        return found

    async def _served(self, cluster: str, spec: Object) -> _Served:
        resource = resource_of(spec)
        name = publishing.crd_name(resource.plural, resource.group)
        crd = await self._client.get(cluster, CUSTOM_RESOURCE_DEFINITIONS, name)
        binding = ""
        if crd is None:
            binding = await self._binding_of(cluster, resource.group, resource.plural)
        return _Served(crd, binding, resource.version)

    async def _binding_of(self, cluster: str, group: str, plural: str) -> str:
        for binding in await self._client.list(cluster, API_BINDINGS):
            for bound in (binding.get("status") or {}).get("boundResources") or ():
                if ((bound.get("group") or ""), bound.get("resource")) == (group, plural):
                    return meta.name(binding)
        return ""

    async def _is_used(self, cluster: str, spec: Object, served: _Served) -> bool:
        if not served.is_published:
            return False
        return await has_objects(self._client, cluster, _kind_of(spec))

    async def _remove(self, key: ObjectKey, negotiated: Object, served: _Served) -> None:
        """No cluster has the type, and the workspace has no objects of it."""
        crd = served.crd
        if crd is not None and publishing.is_negotiated(crd):
            others = await self._published(key.cluster, negotiated["spec"])
            others = [one for one in others if meta.name(one) != key.name]
            if others:
                await self._put_crd(key.cluster, publishing.definition(others), crd)
            else:
                await self._client.delete(
                    key.cluster, CUSTOM_RESOURCE_DEFINITIONS, meta.name(crd), uid=meta.uid(crd)
                )
        await self._client.delete(key.cluster, NEGOTIATED, key.name, uid=meta.uid(negotiated))

    async def _negotiate(
        self, cluster: str, negotiated: Object | None, imports: list[Object], served: _Served
    ) -> NegotiationOutcome:
        base = negotiated["spec"] if negotiated is not None else None
        if served.crd is not None and (served.is_fixed or base is None):
            base = publishing.spec_of_crd(served.crd, served.version, base or imports[0]["spec"])
        if served.binding:  # the schema of another workspace: it is not compared
            nothing: dict[str, list[SchemaFinding]] = {meta.name(one): [] for one in imports}
            return NegotiationOutcome(base or imports[0]["spec"], nothing)
        types = [
            (meta.name(one), one["spec"], one["spec"].get("schemaUpdateStrategy") or "")
            for one in imports
        ]
        question = NegotiationQuestion(
            orjson.dumps(types),
            None if base is None else orjson.dumps(base),
            served.is_fixed,
            served.is_published,
        )
        outcome, is_narrower = await self._ask(cluster, question)
        if base is None or not served.is_published or served.is_fixed or outcome.spec is None:
            return outcome
        if not is_narrower:
            return outcome
        why = await self._why_not(cluster, base, outcome.spec["openAPIV3Schema"])
        if not why:
            return outcome
        question = replace(question, is_fixed=False, is_published=True, refusal=why)
        return (await self._ask(cluster, question))[0]

    async def _ask(
        self, cluster: str, question: NegotiationQuestion
    ) -> tuple[NegotiationOutcome, bool]:
        """The outcome, and whether it is narrower than what was negotiated before."""
        is_long = question.size > _LARGE or question.has_rules
        compute = self._compute if is_long else compute_here
        outcome, spec, is_narrower = await compute(jobs.NEGOTIATED, question, tenant=cluster)
        outcome.spec = None if spec is None else orjson.loads(spec)
        return outcome, is_narrower

    async def _why_not(self, cluster: str, base: Object, schema: Object) -> str:
        """Why a published type cannot be narrowed to a schema; "" if it can."""
        exporter = await self._exporter(cluster, base)
        if exporter:
            return f"APIExport {exporter} exports the type, and objects of consumers may not fit"
        count, names = await misfits(self._client, cluster, _kind_of(base), schema, self._compute)
        more = ", …" if count > len(names) else ""
        return f"{count} stored objects do not fit: {', '.join(names)}{more}" if count else ""

    async def _exporter(self, cluster: str, spec: Object) -> str:
        """An APIExport by which other workspaces may have the type."""
        resource = resource_of(spec)
        for export in await self._client.list(cluster, API_EXPORTS):
            for one in (export.get("spec") or {}).get("resources") or ():
                if (one.get("group") or "", one["name"]) == (resource.group, resource.plural):
                    return meta.name(export)
        return ""

    async def _write(
        self, key: ObjectKey, negotiated: Object | None, outcome: NegotiationOutcome
    ) -> Object:
        assert outcome.spec is not None
        if negotiated is None:
            wanted = negotiated_object(_negotiated_spec(outcome.spec), publish=self._publishes)
            try:
                return await self._client.create(key.cluster, NEGOTIATED, wanted)
            except AlreadyExists:
                found = await self._client.get(key.cluster, NEGOTIATED, key.name)
                if found is None:
                    raise
                negotiated = found
        spec = {
            **_negotiated_spec(outcome.spec),
            "publish": negotiated["spec"].get("publish", False),
        }
        if spec == negotiated["spec"]:
            return negotiated
        return await self._client.update(key.cluster, NEGOTIATED, {**negotiated, "spec": spec})

    # --- the CRD

    async def _published(self, cluster: str, spec: Object) -> list[Object]:
        """All versions of a type that are to be served."""
        resource = resource_of(spec)
        found = []
        for key in self._lister.keys(NEGOTIATED, cluster):
            plural, _, rest = key.name.partition(".")
            if plural != resource.plural or rest.partition(".")[2] != (resource.group or "core"):
                continue
            one = await self._client.get(cluster, NEGOTIATED, key.name)
            if one is not None and one["spec"].get("publish"):
                found.append(one)
        return found

    async def _publish(self, cluster: str, negotiated: Object, crd: Object | None) -> Object:
        versions = await self._published(cluster, negotiated["spec"])
        own = meta.name(negotiated)
        versions = [*(one for one in versions if meta.name(one) != own), negotiated]
        return await self._put_crd(cluster, publishing.definition(versions), crd)

    async def _put_crd(self, cluster: str, wanted: Object, live: Object | None) -> Object:
        if live is None:
            return await self._client.create(cluster, CUSTOM_RESOURCE_DEFINITIONS, wanted)
        changed = publishing.updated(live, wanted)
        if changed is None:
            return live
        return await self._client.update(cluster, CUSTOM_RESOURCE_DEFINITIONS, changed)

    # --- conditions

    async def _report(
        self, cluster: str, negotiated: Object, outcome: NegotiationOutcome, served: _Served
    ) -> None:
        after = {**negotiated, "status": dict(negotiated.get("status") or {})}
        now = meta.now_rfc3339(self._clock())
        if served.is_fixed:
            mark_true(after, ENFORCED, now)
        else:
            mark_false(after, ENFORCED, "Negotiated", "", now, severity=INFO)
        if served.problem:
            mark_false(after, SUBMITTED, "Rejected", served.problem[:_MOST_PROBLEM], now)
        elif served.crd is not None and not served.is_fixed:
            mark_true(after, SUBMITTED, now)
        else:
            mark_false(after, SUBMITTED, "NotSubmitted", "", now, severity=INFO)
        if served.is_published:
            mark_true(after, PUBLISHED, now)
        else:
            mark_false(after, PUBLISHED, *_unpublished(negotiated, served), now, severity=INFO)
        findings = [one for found in outcome.findings.values() for one in found]
        after["status"]["findings"] = _written(findings)
        after["status"]["schemaHash"] = await self._hash(cluster, after["spec"])
        await self._put_status(cluster, NEGOTIATED, negotiated, after)

    async def _report_import(
        self, cluster: str, one: Object, outcome: NegotiationOutcome, served: _Served
    ) -> None:
        after = {**one, "status": dict(one.get("status") or {})}
        now = meta.now_rfc3339(self._clock())
        findings = outcome.findings.get(meta.name(one), [])
        if served.binding:
            text = f"not compared: APIBinding {served.binding} brings the type"
            mark = report.unknown(COMPATIBLE, NOT_COMPARED, text)
            after["status"]["conditions"] = report.with_marks(conditions_of(after), [mark], now)
        elif meta.name(one) in outcome.incompatible:
            mark_false(after, COMPATIBLE, "IncompatibleSchema", summary(findings), now)
        else:
            mark_true(after, COMPATIBLE, now)
        if served.is_published:
            mark_true(after, AVAILABLE, now)
        else:
            mark_false(after, AVAILABLE, "NotPublished", "", now, severity=INFO)
        after["status"]["findings"] = _written(findings)
        after["status"]["schemaHash"] = await self._hash(cluster, one["spec"])
        await self._put_status(cluster, IMPORTS, one, after)

    async def _hash(self, cluster: str, spec: Object) -> str:
        text = orjson.dumps(spec)
        compute = self._compute if len(text) > _LARGE else compute_here
        found: str = await compute(jobs.HASHED, text, tenant=cluster)
        return found

    async def _put_status(
        self, cluster: str, kind: GroupVersionResource, before: Object, after: Object
    ) -> None:
        if after["status"] == (before.get("status") or {}):
            return
        try:
            await self._client.update(cluster, kind, after, "status")
        except NotFound:
            return  # it was deleted meanwhile


def _kind_of(spec: Object) -> GroupVersionResource:
    resource = resource_of(spec)
    return GroupVersionResource(resource.group, resource.version, resource.plural)


def _negotiated_spec(spec: Object) -> Object:
    """Without what only imports have."""
    return {
        name: value
        for name, value in spec.items()
        if name not in ("location", "schemaUpdateStrategy", "publish")
    }


def _unpublished(negotiated: Object, served: _Served) -> tuple[str, str]:
    if served.crd is not None:
        return "NotEstablished", "the definition is not served yet"
    if negotiated["spec"].get("publish"):
        return "NotSubmitted", ""
    return "PublishNotRequested", "set spec.publish to serve the type"


def _written(findings: list[SchemaFinding]) -> list[Object]:
    return [
        {"path": one.path, "severity": str(one.severity), "text": one.text}
        for one in findings[:_MOST_FINDINGS]
    ]
