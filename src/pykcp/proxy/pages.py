"""What the front-proxy answers itself: health and metrics."""

from __future__ import annotations

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
    ) -> None:
        """`root`: where it is decided who may read the metrics."""
        self._health, self._metrics = health, metrics
        self._authentication, self._root = authentication, root

    def has(self, path: str) -> bool:
        return path == _METRICS or path[1:].partition("/")[0] in _HEALTH

    def handle(self, exchange: Exchange) -> Pending:
        request = exchange.request
        call = Call(exchange, RequestInfo(request.method, request.path, verb="get"))
        call.info.query = parse_query(request.query)
        if request.path == _METRICS:
            return self._answer_metrics(call)
        try:
            self._health.handle(call)
        except PageNotFound as error:
            send_status(call, error)
        return None

    async def _answer_metrics(self, call: Call) -> None:
        try:
            user = (await self._authentication.authenticate(call.exchange.request)).user
            if not await self._may_read(user):
                raise forbidden(path_attributes(user, "get", _METRICS))
        except StatusError as error:
            send_status(call, error)
            return
        send_text(call, self._metrics.exposition())

    async def _may_read(self, user: User) -> bool:
        """As on the shards: by the roles of `root`. Raises StatusError."""
        spec = {
            "nonResourceAttributes": {"path": _METRICS, "verb": "get"},
            "user": user.name,
            "uid": user.uid,
            "groups": list(user.groups),
            "extra": {key: list(values) for key, values in user.extra.items()},
        }
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        made = await self._root.create(ROOT, _REVIEWS, {**kind, "spec": spec})
        return bool((made.get("status") or {}).get("allowed"))
