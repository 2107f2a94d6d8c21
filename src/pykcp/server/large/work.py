"""The steps of large writes, sent to worker processes (`large_jobs` is the other end)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pykcp.registry.clock import random_uid
from pykcp.registry.context import RequestContext
from pykcp.registry.conversion.review import ConversionCallFailed, endpoint_of
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.changes import Recipe, ViewRecipe
from pykcp.registry.verbs.deletion import DeleteOptions
from pykcp.registry.verbs.large_work import (
    Assigned,
    Doomed,
    Made,
    Mutated,
    ObjectShape,
    Patched,
    ValidatedObject,
    ValidatedView,
    ViewedObject,
)
from pykcp.server.large.conversions import ConversionAnswer, ConversionAnswers, ConversionAsked
from pykcp.server.large.refs import Asker, KindRef
from pykcp.server.large.worker_calls import compute
from pykcp.types import Object
from pykcp.workers.pool import WorkerPool

_JOBS = "pykcp.server.large.jobs:"
_PAGE = 200
"""Objects that one job reads."""


class WorkerWork:
    """`registry.large.LargeWork` by a pool of processes."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool

    async def check(self, resource: Resource, ctx: RequestContext, recipe: Recipe) -> None:
        await self._run("check", resource, ctx, recipe)

    async def new_object(
        self,
        resource: Resource,
        ctx: RequestContext,
        namespace: str,
        recipe: Recipe,
        missing: str,
    ) -> Made:
        made: Made = await self._run("new_object", resource, ctx, namespace, recipe, missing)
        return made

    async def judged_new(
        self, resource: Resource, ctx: RequestContext, text: bytes, assigned: Assigned
    ) -> ValidatedObject:
        judged: ValidatedObject = await self._run("judged_new", resource, ctx, text, assigned)
        return judged

    async def changed_object(
        self,
        resource: Resource,
        ctx: RequestContext,
        name: str,
        recipe: Recipe,
        live: bytes,
        subresource: str,
    ) -> Made:
        made: Made = await self._run(
            "changed_object", resource, ctx, name, recipe, live, subresource
        )
        return made

    async def judged_change(
        self,
        resource: Resource,
        ctx: RequestContext,
        name: str,
        text: bytes,
        live: bytes,
        subresource: str,
    ) -> ValidatedObject:
        judged: ValidatedObject = await self._run(
            "judged_change", resource, ctx, name, text, live, subresource
        )
        return judged

    async def viewed_change(
        self,
        resource: Resource,
        ctx: RequestContext,
        name: str,
        recipe: ViewRecipe,
        live: bytes,
    ) -> ViewedObject:
        made: ViewedObject = await self._run("viewed_change", resource, ctx, name, recipe, live)
        return made

    async def judged_view(
        self,
        resource: Resource,
        ctx: RequestContext,
        name: str,
        recipe: ViewRecipe,
        made: ViewedObject,
        live: bytes,
    ) -> ValidatedView:
        judged: ValidatedView = await self._run(
            "judged_view", resource, ctx, name, recipe, made, live
        )
        return judged

    async def shown_scale(self, resource: Resource, ctx: RequestContext, value: bytes) -> Object:
        shown: Object = await self._run("shown_scale", resource, ctx, value)
        return shown

    async def deletion(
        self, resource: Resource, ctx: RequestContext, value: bytes, options: DeleteOptions
    ) -> Doomed:
        doomed: Doomed = await self._run("deletion", resource, ctx, value, options)
        return doomed

    async def patched(
        self, resource: Resource, ctx: RequestContext, text: bytes, patch: bytes
    ) -> Patched:
        patched: Patched = await self._run("patched", resource, ctx, text, patch)
        return patched

    async def mutated(self, resource: Resource, tenant: str, policy: bytes, seen: Any) -> Mutated:
        made: Mutated = await self._of_kind("mutated", tenant, resource, policy, seen)
        return made

    async def read_values(self, resource: Resource, values: Sequence[bytes]) -> list[bytes]:
        read: list[bytes] = []
        for start in range(0, len(values), _PAGE):
            page = list(values[start : start + _PAGE])
            tenant = resource.definition.origin
            read += await self._of_kind("read_values", tenant, resource, page)
        return read

    async def shown(
        self, resource: Resource, tenant: str, shape: ObjectShape, values: Sequence[bytes]
    ) -> list[bytes]:
        made: list[bytes] = await self._of_kind("shown", tenant, resource, shape, list(values))
        return made

    async def read_patched(
        self, resource: Resource, tenant: str, text: bytes, strict: bool
    ) -> bytes:
        made: bytes = await self._of_kind("read_patched", tenant, resource, text, strict)
        return made

    async def compute(self, tenant: str, function: str, *args: Any) -> Any:
        return await compute(self._pool, function, *args, tenant=tenant)

    async def reform(
        self, tenant: str, media_type: str, is_pretty: bool, body: bytes
    ) -> bytes | None:
        made: bytes | None = await self._submit("reform", tenant, media_type, is_pretty, body)
        return made

    async def stored_form(self, resource: Resource, text: bytes) -> bytes:
        tenant = resource.definition.origin
        stored: bytes = await self._of_kind("stored_form", tenant, resource, text)
        return stored

    async def _run(self, job: str, resource: Resource, ctx: RequestContext, *args: Any) -> Any:
        user = ctx.user
        asker = Asker(
            ctx.cluster,
            user.name,
            user.uid,
            user.groups,
            dict(user.extra),
            ctx.manager,
            ctx.dry_run,
            ctx.field_validation,
        )
        return await self._of_kind(job, ctx.cluster, resource, asker, *args)

    async def _of_kind(self, job: str, tenant: str, resource: Resource, *args: Any) -> Any:
        webhook, call = resource.definition.webhook, resource.services.call_converter
        if webhook is None or call is None:
            return await self._submit(job, tenant, _ref(resource), *args)
        endpoint, given = endpoint_of(webhook), ConversionAnswers(random_uid())
        while True:
            try:
                return await self._submit("with_answers", tenant, job, given, _ref(resource), *args)
            except ConversionAsked as asked:
                body, cluster = asked.body, asked.cluster
            try:
                answer = ConversionAnswer(await call(endpoint, body, cluster))
            except ConversionCallFailed as error:
                answer = ConversionAnswer(b"", str(error))
            given = given._replace(answers=(*given.answers, answer))

    async def _submit(self, job: str, tenant: str, *args: Any) -> Any:
        return await compute(self._pool, _JOBS + job, *args, tenant=tenant)


def _ref(resource: Resource) -> KindRef:
    assert resource.source is not None
    return KindRef(
        resource.group,
        resource.plural,
        resource.version,
        resource.source(),
        resource.definition.stored_versions,
        resource.since,
    )
