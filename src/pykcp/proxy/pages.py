"""What the front-proxy answers itself: health, metrics and what it tells administrators."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authz.attributes import forbidden, path_attributes
from pykcp.auth.user import User
from pykcp.clients.remote.client import RemoteClient
from pykcp.machinery.kcp.clusters import ROOT
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import StatusError
from pykcp.observe.metrics import Registry
from pykcp.server.call import Call, Pending
from pykcp.server.health import Health
from pykcp.server.media.answers import PageNotFound, send_status, send_text
from pykcp.server.request_info import RequestInfo, parse_query
from pykcp.wire.exchange import Exchange

_HEALTH = frozenset(("healthz", "livez", "readyz"))
_METRICS = "/metrics"
_REVIEWS = GroupVersionResource("authorization.k8s.io", "v1", "subjectaccessreviews")


class OwnPages:
    def __init__(
        self,
        health: Health,
        metrics: Registry,
        authentication: Authentication,
        root: RemoteClient,
        debug: Mapping[str, Callable[[], str]],
    ) -> None:
        """`root`: where it is decided who may read metrics and debug pages."""
        self._health = health
        self._authentication, self._root = authentication, root
        self._reports = {_METRICS: metrics.exposition, **debug}

    def has(self, path: str) -> bool:
        return path in self._reports or path[1:].partition("/")[0] in _HEALTH

    def handle(self, exchange: Exchange) -> Pending:
        request = exchange.request
        call = Call(exchange, RequestInfo(request.method, request.path, verb="get"))
        call.info.query = parse_query(request.query)
        if request.path in self._reports:
            return self._answer_report(call, request.path)
        try:
            self._health.handle(call)
        except PageNotFound as error:
            send_status(call, error)
        return None

    async def _answer_report(self, call: Call, path: str) -> None:
        try:
            user = (await self._authentication.authenticate(call.exchange.request)).user
            if not await self.may_read(user, path):
                raise forbidden(path_attributes(user, "get", path))
        except StatusError as error:
            send_status(call, error)
            return
        send_text(call, self._reports[path]())

    async def may_read(self, user: User, path: str) -> bool:
        """As on the shards: by the roles of `root`. Raises StatusError."""
        spec = {
            "nonResourceAttributes": {"path": path, "verb": "get"},
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
        }
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        made = await self._root.create(ROOT, _REVIEWS, {**kind, "spec": spec})
        return bool((made.get("status") or {}).get("allowed"))
