"""One request on its way through the server: what handlers are given."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pykcp.aio.slices import in_slices
from pykcp.auth.user import User
from pykcp.machinery.status import BadRequest, go_quote
from pykcp.registry.context import RequestContext
from pykcp.registry.resource import Resource
from pykcp.registry.watch.selection import Selection, is_large
from pykcp.server.media import negotiation
from pykcp.server.numbers import BadNumber, int64
from pykcp.server.request_info import TOO_MANY_PARAMETERS, RequestInfo, name_in_field_selector
from pykcp.wire.exchange import Exchange, Stream

if TYPE_CHECKING:
    from pykcp.server.filters.audit import AuditRecord
    from pykcp.server.filters.flow_cost import CostAccount

DEFAULT_MANAGER = "unknown"
_AGENT_MAX = 512
"""Characters of a user agent in which its name is looked for."""


class Call:
    """A request with its meaning, its user and, for resource requests, its resource."""

    __slots__ = (
        "_context",
        "accepted",
        "audit",
        "caller",
        "cluster",
        "cluster_payer",
        "exchange",
        "has_trusted_user",
        "hops",
        "info",
        "is_authorized",
        "is_plain",
        "is_seated",
        "payer",
        "resource",
        "selection",
        "started",
        "stream",
        "user",
        "was_delayed",
    )

    def __init__(self, exchange: Exchange, info: RequestInfo, started: float = 0.0) -> None:
        """`started`: when it came, by `time.perf_counter`, if that was before now."""
        self.exchange = exchange
        self.info = info
        self.cluster = info.cluster
        """The logical cluster's name, once its path is resolved."""
        self.user: User = UNIDENTIFIED
        self.caller: User | None = None
        """The authenticated user, if a virtual workspace lets them act as another one."""
        self.has_trusted_user = False
        """Another server of this process has set the user: impersonation headers are ignored."""
        self.hops = 0
        """How often it was handed over to another server of this process."""
        self.is_seated = False
        """It is part of another request, which has a seat already."""
        self.payer: CostAccount | None = None
        """The account that is charged for it, once the user is known; see `filters.flow_meter`."""
        self.cluster_payer: CostAccount | None = None
        """The account of the cluster, which is charged too once the user is authorized."""
        self.is_authorized = False
        self.is_plain = False
        """Objects are shown as kube-apiserver shows them; see `shown`."""
        self.was_delayed = False
        """It has waited because its user or its cluster had used more than their share."""
        self.resource: Resource = None  # type: ignore[assignment]  # set before handlers run
        self.selection: Selection | None = None
        """What long selectors mean, once they are parsed; see `select`."""
        self.accepted: negotiation.Accepted = _JSON
        self.started = started or time.perf_counter()
        self.stream: Stream | None = None
        """Of a watch, once it is open."""
        self._context: RequestContext | None = None
        self.audit: AuditRecord | None = None
        """What the audit log records of this request; None if there is no audit log."""

    @property
    def shown(self) -> Resource:
        """The resource as objects are shown to the client."""
        return self.resource.plain() if self.is_plain else self.resource

    @property
    def context(self) -> RequestContext:
        """The registry's view of this request, made when first needed."""
        context = self._context
        if context is None:
            context = self._context = self._make_context()
        elif context.user is not self.user or context.cluster is not self.cluster:
            context.user, context.cluster = self.user, self.cluster  # it was needed early
        return context

    def _make_context(self) -> RequestContext:
        info = self.info
        if not info.query:
            return RequestContext(self.cluster, self.user, self._manager())
        return RequestContext(
            self.cluster,
            self.user,
            self._manager(),
            dry_run=self._dry_run(),
            field_validation=info.param("fieldValidation") or "Warn",
            query=info.query,
        )

    def as_if(self, verb: str, user: User) -> Call:
        """The same request with another verb, of a user who is authenticated; it is not audited."""
        other = copy.copy(self)
        other.info = replace(self.info, verb=verb)
        other.user, other.has_trusted_user = user, True
        other.audit = other._context = None
        return other

    def release(self) -> None:
        """Let go of what leads back here: a body must not wait for the garbage collector."""
        if self._context is not None:
            self._context.authorize_create = None

    def _manager(self) -> str:
        asked = self.info.query.get("fieldManager") if self.info.query else None
        if asked and asked[0]:
            return asked[0]
        agent = self.exchange.request.header("user-agent") or ""
        return manager_of_agent(agent[:_AGENT_MAX])

    def _dry_run(self) -> bool:
        values = [v for v in self.info.query.get("dryRun", ()) if v]
        return "All" in values

    def has_long_selectors(self) -> bool:
        info = self.info
        return is_large(info.param("labelSelector"), info.param("fieldSelector"))

    async def parse_selectors(self) -> None:
        """Parse long selectors in slices, before `select` is asked for them."""
        info = self.info
        steps = self.resource.select_in_steps(
            info.param("labelSelector"), info.param("fieldSelector")
        )
        self.selection = await in_slices(steps, self.cluster)

    def select(self) -> Selection:
        """The objects that the selectors of the query mean."""
        if self.selection is not None:
            return self.selection
        info = self.info
        fields = info.param("fieldSelector")
        if info.verb == "watch" and len(info.parts) > 1:
            fields = _of_one_object(info.parts[1], fields)
        return self.resource.select(info.param("labelSelector"), fields)

    def negotiate(
        self,
        served: tuple[str, ...] = (negotiation.JSON, negotiation.YAML),
        *,
        takes_any: bool = False,
        transforms: frozenset[str] = negotiation.TRANSFORMS,
        has_streams: bool = False,
    ) -> None:
        """Settle the answer's form. `takes_any`: `application/*` is understood, too."""
        header = self.exchange.request.header("accept") or ""
        self.accepted = negotiation.choose(
            header, served, transforms, takes_any=takes_any, has_streams=has_streams
        )


def _of_one_object(name: str, selector: str) -> str:
    """The field selector of a watch whose path names an object."""
    if not selector:
        return f"metadata.name={name}"
    if name_in_field_selector(selector) != name:
        raise BadRequest("fieldSelector metadata.name doesn't match requested name")
    return selector


@lru_cache(maxsize=1024)
def manager_of_agent(agent: str) -> str:
    """The field manager that a user agent stands for: what comes before the first slash."""
    name = agent.split("/", 1)[0]
    return "".join(c for c in name if c.isprintable())[:128] or DEFAULT_MANAGER


_JSON = negotiation.Accepted()
UNIDENTIFIED = User("system:anonymous", groups=("system:unauthenticated",))
"""The user of a call until its sender is authenticated; compared by identity."""
Pending = Coroutine[Any, Any, None] | None
"""What is left to do of a call; None: it is answered."""
Handler = Callable[[Call], Pending]
"""Answers a call, at once or in a coroutine."""


def integer(call: Call, name: str) -> int:
    """An integer of the query; 400 in Go's words if it is none."""
    values = call.info.query.get(name)
    if not values:
        return 0
    try:
        return int64(values[0])
    except BadNumber as error:
        raise BadRequest(str(error)) from error


_PART = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)([^\d.]*)", re.ASCII)
_UNITS = frozenset(("ns", "us", "µs", "μs", "ms", "s", "m", "h"))


def check_query(call: Call) -> None:
    """What must hold of a query, whatever the verb makes of it: its numbers are understood, and
    there are not too many parameters."""
    if call.info.query is TOO_MANY_PARAMETERS:
        raise BadRequest("number of URL query parameters exceeded limit")
    check_timeout(call)
    if call.info.verb in ("list", "watch", "deletecollection"):
        integer(call, "timeoutSeconds")
        integer(call, "limit")


def check_timeout(call: Call) -> None:
    """How long a client wants to wait, as Go reads it; watches have a parameter of their own."""
    timeout = call.info.param("timeout")
    if timeout and call.info.verb != "watch":
        error = _duration_error(timeout)
        if error:
            raise BadRequest(f"invalid timeout specified in the request URL - time: {error}")


def _duration_error(text: str) -> str:
    rest = text.removeprefix("-") if text[0] == "-" else text.removeprefix("+")
    if rest == "0":
        return ""
    position, quoted = 0, go_quote(text)
    while position < len(rest) or not rest:
        part = _PART.match(rest, position)
        if part is None:
            return f"invalid duration {quoted}"
        if not part[1]:
            return f"missing unit in duration {quoted}"
        if part[1] not in _UNITS:
            return f"unknown unit {go_quote(part[1])} in duration {quoted}"
        position = part.end()
    return ""
