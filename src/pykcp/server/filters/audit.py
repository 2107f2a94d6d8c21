"""The audit filter: records requests in the audit log.

The filter attaches a record to the call and wraps its exchange, to observe the response. A second
filter notifies the record when the user is known (`received`), authorization adds its decision
(`decided`). Every request ends in exactly one of ResponseComplete, Panic, or (failed
authentication) ResponseStarted.

With a blocking backend the response is held back until the event is delivered; the events of
streams, which cannot be held back, are delivered afterwards.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import orjson

from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION
from pykcp.auth.authz.attributes import Decision
from pykcp.auth.user import User
from pykcp.caching import BoundedCache
from pykcp.machinery.status import InternalError
from pykcp.observe.audit.lines import MicrosecondTimestamps
from pykcp.observe.audit.policy import (
    COMPLETE,
    PANIC,
    RECEIVED,
    STARTED,
    AuditedRequest,
    AuditLevel,
    AuditOutcome,
)
from pykcp.observe.audit.trail import AuditTrail
from pykcp.registry.keys import WILDCARD
from pykcp.server.call import Call, Handler, Pending
from pykcp.server.filters import audit_content as content
from pykcp.wire.answer_ids import UniqueIds, given_id
from pykcp.wire.exchange import BodySink, Exchange, Header, Stream, Tunnel, WebSocket
from pykcp.wire.wrapping import WrappedExchange

Body = bytes | Sequence[bytes]

AUDIT_ID = "audit-id"
DECISION, REASON = "authorization.k8s.io/decision", "authorization.k8s.io/reason"
REQUEST_DOMAIN, REVIEW_DOMAIN = "request.auth.kcp.io", "sar.auth.kcp.io"
_NOT_YET = AuditOutcome(AuditLevel.NONE, frozenset(), omit_managed_fields=False)
_MANY = 4096


class AuditFilter:
    """Attends to every request of a server."""

    def __init__(
        self,
        trail: AuditTrail,
        path_of: Callable[[str], str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.trail = trail
        self.path_of = path_of
        """The canonical path of a logical cluster, "" if it is not known."""
        self.clock = clock
        self.stamps = MicrosecondTimestamps()
        self.new_id = UniqueIds().new
        self._users: BoundedCache[User, bytes] = BoundedCache("audit-users", _MANY)
        self._annotations: BoundedCache[tuple[str, str, int], tuple[Decision | None, bytes]] = (
            BoundedCache("audit-annotations", _MANY)
        )
        self.received = UserReceived()
        """The part of the chain that comes behind authentication."""

    def around(self, inner: Handler) -> Handler:
        def audit(call: Call) -> Pending:
            record = call.audit = AuditRecord(self, call)
            call.exchange = record.exchange
            try:
                pending = inner(call)
            except Exception as error:
                record.panicked(error)
                raise
            if pending is not None:
                return self._follow(record, pending)
            return record.settle() if record.exchange.is_held else None

        return audit

    async def _follow(self, record: AuditRecord, pending: Coroutine[Any, Any, None]) -> None:
        try:
            await pending
        finally:
            record.left()
        if record.exchange.is_held:
            await record.settle()

    def user_json(self, user: User) -> bytes:
        known = self._users.get(user)
        if known is None:
            known = self._users.put(user, orjson.dumps(user.to_json()))
        return known

    def annotations(self, cluster: str, decision: Decision | None) -> bytes:
        """What the cluster and the decision say, as JSON; decisions are few and remembered."""
        path = self.path_of(cluster) if cluster else ""
        key = (cluster, path, id(decision))
        known = self._annotations.get(key)
        if known is not None and known[0] is decision:
            return known[1]
        text = _annotations_json(annotations_of(cluster, path, decision))
        return self._annotations.put(key, (decision, text))[1]


class UserReceived:
    """Records that a request has come in, once its user is known; the event may be waited for."""

    def around(self, inner: Handler) -> Handler:
        def receive(call: Call) -> Pending:
            assert call.audit is not None
            waiting = call.audit.received()
            return inner(call) if waiting is None else wait(call, waiting)

        async def wait(call: Call, waiting: Coroutine[Any, Any, None]) -> None:
            await waiting
            pending = inner(call)
            if pending is not None:
                await pending

        return receive


class AuditedExchange(WrappedExchange):
    """Stands in front of the real exchange: gives the answer its id and takes note of it."""

    __slots__ = ("_held", "_record", "responded")

    def __init__(self, inner: Exchange, record: AuditRecord) -> None:
        super().__init__(inner)
        self._record = record
        self.responded = False  # its own: an answer may be held back
        self._held: tuple[int, Sequence[Header], Body] | None = None

    @property
    def is_held(self) -> bool:
        return self._held is not None

    def respond(self, status: int, headers: Sequence[Header], body: Body = b"") -> None:
        record = self._record
        self.responded = True
        headers = [*headers, (AUDIT_ID, record.id)]
        if not record.answered(status, headers, body):
            self._held = (status, headers, body)
            return
        self._inner.respond(status, headers, body)

    def release(self) -> None:
        """The events are taken: the answer may go."""
        if self._held is not None:
            status, headers, body = self._held
            self._held = None
            if not self._inner.responded:
                self._inner.respond(status, headers, body)

    def start(self, status: int, headers: Sequence[Header]) -> Stream:
        self.responded = True
        stream = self._inner.start(status, [*headers, (AUDIT_ID, self._record.id)])
        self._record.streaming(status, stream)
        return stream

    def websocket(self, subprotocol: str = "", headers: Sequence[Header] = ()) -> WebSocket:
        self.responded = True
        socket = self._inner.websocket(subprotocol, [*headers, (AUDIT_ID, self._record.id)])
        self._record.streaming(101, socket)
        return socket

    def tunnel(self, headers: Sequence[Header], sink: BodySink) -> Tunnel:
        self.responded = True
        tunnel = self._inner.tunnel([*headers, (AUDIT_ID, self._record.id)], sink)
        self._record.streaming(101, tunnel)
        return tunnel


class AuditRecord:
    """One request in the trail. Most of it never leaves its default, so those are the class's."""

    constraint = ""
    """The mode of constrained impersonation that let the user act as another."""
    _outcome = _NOT_YET
    _is_judged = False
    """Whether the policy was asked: once the user is known, or the request failed before."""
    _is_done = False
    _streams = False
    _user: User | None = None
    _decision: Decision | None = None
    _head = b""
    _common = b""
    _status = b""
    """`"responseStatus":…,` once there is one."""
    _pending: asyncio.Task[bool] | None = None

    def __init__(self, owner: AuditFilter, call: Call) -> None:
        self._filter = owner
        self._call = call
        self._received_text = owner.stamps.text(owner.clock())
        self.id = given_id(call.exchange.request, AUDIT_ID) or owner.new_id()
        self.exchange = AuditedExchange(call.exchange, self)

    # -- what the server tells -----------------------------------------------------------------

    def received(self) -> Coroutine[Any, Any, None] | None:
        """The user is known. Raises InternalError if the request must not go on."""
        self._user = self._call.user
        self._judge()
        outcome = self._outcome
        if outcome.level is AuditLevel.NONE or RECEIVED in outcome.omit_stages:
            return None
        answer = self._filter.trail.process(self._line(RECEIVED))
        if not isinstance(answer, bool):
            return self._await_received(answer)
        if not answer:
            raise self._rejected()
        return None

    async def _await_received(self, answer: asyncio.Task[bool]) -> None:
        if not await asyncio.shield(answer):
            raise self._rejected()

    def _rejected(self) -> InternalError:
        self._filter.trail.rejected.add()
        self._is_done = True  # upstream does not record what becomes of it
        return InternalError("failed to store audit event")

    def decided(self, decision: Decision) -> None:
        self._decision = decision

    def panicked(self, error: BaseException) -> None:
        """The handler failed with an unexpected exception."""
        self._status = _status_json(
            {
                "metadata": {},
                "status": "Failure",
                "message": f"APIServer panic'd: {type(error).__name__}",
                "reason": "InternalError",
                "code": 500,
            }
        )
        self._finish(PANIC)

    def left(self) -> None:
        """The handler is through; without an answer, the client is gone."""
        if self._streams or self._is_done or self.exchange.responded:
            return
        said = {"metadata": {}, "status": "Success", "message": "Connection closed early"}
        self._status = _status_json({**said, "code": 200})
        self._finish(COMPLETE)

    async def settle(self) -> None:
        """Wait until the events are taken, then let the answer go."""
        if self._pending is not None:
            await asyncio.shield(self._pending)
        self.exchange.release()

    # -- what the exchange sees ----------------------------------------------------------------

    def answered(self, status: int, headers: Sequence[Header], body: Body) -> bool:
        """An answer goes by; False: hold it back until the event is taken."""
        if self._is_done:
            return True
        if not self._is_judged:
            self._judge()
        level = self._outcome.level
        if level is AuditLevel.NONE:
            self._is_done = True
            return True
        bodies = b""
        if status >= 400 or level is AuditLevel.REQUEST_RESPONSE or content.is_status(body):
            shown, bodies = self._read_answer(status, headers, body)
            self._status = _status_json(shown)
        else:
            self._status = b'"responseStatus":{"metadata":{},"code":%d},' % status
        # As in upstream, a failed authentication has only the stage ResponseStarted.
        stage = STARTED if self._user is None and status == 401 else COMPLETE
        self._is_done = True
        if stage in self._outcome.omit_stages:
            return True
        if level >= AuditLevel.REQUEST:
            bodies = content.request_part(self._call, self._outcome) + bodies
        answer = self._filter.trail.process(self._line(stage, bodies))
        if isinstance(answer, bool):
            return True
        self._pending = answer
        return False

    def _read_answer(
        self, status: int, headers: Sequence[Header], body: Body
    ) -> tuple[dict[str, Any], bytes]:
        """`responseStatus`, and the answer itself if the policy wants it."""
        plain = content.plain_body(headers, body)
        shown = content.status_of(status, headers, plain)
        if self._outcome.level is not AuditLevel.REQUEST_RESPONSE:
            return shown, b""
        return shown, content.response_part(self._call, self._outcome, headers, plain)

    def streaming(self, status: int, stream: Stream) -> None:
        """An answer that goes on begins; its end is another event."""
        self._streams = True
        if self._outcome.level is AuditLevel.NONE:
            return
        self._status = b'"responseStatus":{"metadata":{},"code":%d},' % status
        if STARTED not in self._outcome.omit_stages:
            self._filter.trail.process(self._line(STARTED))
        stream.on_close(lambda: self._finish(COMPLETE))

    def _finish(self, stage: str) -> None:
        if self._is_done:
            return
        if not self._is_judged:
            self._judge()
        self._is_done = True
        if self._outcome.level is not AuditLevel.NONE and stage not in self._outcome.omit_stages:
            self._filter.trail.process(self._line(stage))

    # -- the event -----------------------------------------------------------------------------

    def _judge(self) -> None:
        self._is_judged = True
        info, user = self._call.info, self._user
        name, groups = (user.name, user.groups) if user is not None else ("", ())
        if info.is_resource:
            question = AuditedRequest(
                name, groups, info.verb, True, "", info.group, info.resource,
                info.subresource, info.namespace, info.name,
            )  # fmt: skip
        else:
            question = AuditedRequest(name, groups, info.verb, False, info.path)
        trail = self._filter.trail
        self._outcome = trail.policy.evaluate(question)
        trail.count_level(self._outcome)

    def _line(self, stage: str, bodies: bytes = b"") -> bytes:
        """The event at one stage, as a line of JSON."""
        owner, received = self._filter, self._received_text
        if not self._head:
            self._head = (
                b'{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"%b","auditID":%b,"stage":"'
            ) % (_LEVELS[self._outcome.level], orjson.dumps(self.id))
        is_first = stage is RECEIVED
        if not self._common or (not is_first and self._has_news()):
            self._common = self._about(is_first=is_first)
        now = received if is_first else owner.stamps.text(owner.clock())
        times = f'"requestReceivedTimestamp":"{received}","stageTimestamp":"{now}"'.encode()
        return b"".join((
            self._head, stage.encode(), b'",', self._common, self._status, bodies, times,
            self._annotations(), b"}",
        ))  # fmt: skip

    def _about(self, *, is_first: bool) -> bytes:
        """What does not change between the stages, but for what is only known at the end."""
        call, owner, user = self._call, self._filter, self._user
        request = self.exchange.request
        reference = b""
        if call.info.is_resource:
            referred = content.reference(call, with_body=not is_first)
            reference = b'"objectRef":%b,' % orjson.dumps(referred)
        out = b'"requestURI":%b,"verb":%b,"user":%b,%b%b' % (
            orjson.dumps(content.request_uri(request)),
            orjson.dumps(call.info.verb),
            owner.user_json(user) if user is not None else b"{}",
            content.origin(request),
            reference,
        )
        if user is not None and call.user is not user:
            out += b'"impersonatedUser":%b,' % owner.user_json(call.user)
            if self.constraint:
                metadata = {"impersonationConstraint": self.constraint}
                out += b'"authenticationMetadata":%b,' % orjson.dumps(metadata)
        return out

    def _has_news(self) -> bool:
        """Whether the end knows more than the beginning: another user, the object's name."""
        call = self._call
        return call.user is not self._user or call.info.verb in content.VERBS_WITH_OBJECT

    def _annotations(self) -> bytes:
        call = self._call
        cluster = "" if call.cluster == WILDCARD else call.cluster
        context = call._context
        own = {} if context is None else context.audit
        if (
            context is not None
            and context.audit_bodies
            and self._outcome.level >= AuditLevel.REQUEST
        ):
            # what webhooks changed may hold secrets
            own = {**own, **{name: text() for name, text in context.audit_bodies.items()}}
        if not own:
            return self._filter.annotations(cluster, self._decision)
        path = self._filter.path_of(cluster) if cluster else ""
        return _annotations_json({**annotations_of(cluster, path, self._decision), **own})


def annotations_of(cluster: str, path: str, decision: Decision | None) -> dict[str, str]:
    """kcp's three (without a cluster there are none), and what authorization found."""
    out: dict[str, str] = {}
    if cluster:
        out["kcp.io/cluster"] = cluster
        out[PATH_ANNOTATION] = path
        out["tenancy.kcp.io/workspace"] = cluster
    if decision is not None:
        out[DECISION] = "allow" if decision.allowed else "forbid"
        out[REASON] = decision.reason
        out.update(decision.audit_annotations(REQUEST_DOMAIN))
    return out


def _annotations_json(annotations: dict[str, str]) -> bytes:
    if not annotations:
        return b""
    return b',"annotations":' + orjson.dumps(annotations, option=orjson.OPT_SORT_KEYS)


def _status_json(status: dict[str, Any]) -> bytes:
    return b'"responseStatus":%b,' % orjson.dumps(status)


_LEVELS = tuple(level.word.encode() for level in AuditLevel)
