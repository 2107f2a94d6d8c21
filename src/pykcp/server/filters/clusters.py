"""Resolves `/clusters/<path>` to the name of a logical cluster, like kcp's local proxy.

Names are used as they are; paths are resolved. Errors for missing, unavailable or inactive
workspaces have kcp's messages, but only users who may see the workspace get them
(`HiddenDenial`); others get the response for a workspace that they may not enter. Public paths
(health) have the same response whether the workspace exists or not. Requests to a mounted
workspace are forwarded from here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from pykcp.auth.authn.bearer import bearer_token
from pykcp.auth.tokens import unverified_claims
from pykcp.clients.where import MISDIRECTED, NOT_HERE, ROUTED
from pykcp.machinery.kcp import clusters
from pykcp.machinery.status import (
    BadRequest,
    Forbidden,
    NotFound,
    ServiceUnavailable,
    StatusError,
)
from pykcp.registry.paths import ResolvedStep
from pykcp.server.call import Call, Handler, Pending
from pykcp.server.filters.authentication import SignIn
from pykcp.server.filters.authorization import CallAuthorization
from pykcp.server.media.answers import PlainError
from pykcp.wire.exchange import IncomingRequest

_WHEN_INACTIVE = ("/openapi", "/apis/core.kcp.io/v1alpha1/logicalclusters")
"""What is served of an inactive logical cluster: how it can be put to use again."""
_BOUND_CLAIM, _SECRET_CLAIM = "kubernetes.io", "kubernetes.io/serviceaccount/clusterName"
_SHARD_PATHS = frozenset(("/metrics",))
_SHARDED = "x-kubernetes-sharded-request"


class ClusterIndex(Protocol):
    shard_name: str

    @property
    def known(self) -> Mapping[str, bool]:
        """Names that were seen to exist, and whether they are inactive."""

    @property
    def walks(self) -> Mapping[str, ResolvedStep]:
        """Valid paths of which it is known where they lead."""

    def inactive(self, name: str) -> bool | None:
        """Whether it is inactive; None if it does not exist here."""

    def walk(self, path: str) -> ResolvedStep | None:
        """Where a path of several segments leads, if it is known here."""

    def nearest(self, path: str) -> tuple[str, str]:
        """The last logical cluster on the way to a path, and the Workspace that is next in it."""

    @property
    def moves(self) -> MoveIndex: ...


class MoveIndex(Protocol):
    """Logical clusters that have moved to another shard, or are on their way to this one."""

    def __bool__(self) -> bool:
        """Whether there are any."""

    def shard_of(self, name: str) -> str:
        """The shard that a logical cluster has moved to; "" if it has not."""

    def is_arriving(self, name: str) -> bool: ...

    def origin_of(self, name: str) -> str:
        """The shard that still serves a logical cluster which arrives here; "" if none does."""

    async def arrived(self, name: str) -> None:
        """Return when it has arrived, or after some seconds."""


class ArrivingCluster(Exception):
    """A logical cluster that is about to be served here."""

    def __init__(self, moves: MoveIndex, name: str) -> None:
        super().__init__(name)
        self.moves, self.name = moves, name


_CLUSTERS = "/clusters/"


class MountLookup(Protocol):
    async def forward(self, call: Call, target: str) -> None:
        """Answer a request with what the mount at this address says."""


class WorkspaceUnavailable(PlainError):
    """The workspace is there, but not what is behind it."""

    code = 503

    def __init__(self) -> None:
        super().__init__("Not available.")


class OnAnotherShard(PlainError):
    """Clients that come back shortly meet a proxy that knows better."""

    code = 429

    def __init__(self) -> None:
        super().__init__("Not found on this shard", retry_after=1)


class HiddenDenial(Exception):
    """A denial that discloses what exists: only for users who may know it."""

    def __init__(self, denial: StatusError, check: Callable[[Call], Awaitable[None]]) -> None:
        """`check` raises for other users what it raises for something they may not enter."""
        super().__init__(str(denial))
        self.denial, self.check = denial, check


class Clusters(Protocol):
    def resolve(self, call: Call) -> Pending:
        """Set the call's cluster, or raise if its path leads to none.

        A coroutine answers the call: the cluster is served by another server.
        """

    def is_forwarded(self, path: str) -> bool:
        """Whether another server answers requests for a (percent-encoded) path."""


class ClusterPresence(Protocol):
    def __call__(self, call: Call) -> None:
        """Raises Forbidden if the call's cluster does not exist and the call does not create it."""


class FindCluster:
    """Finds the logical cluster that a path means; forwards requests to mounted workspaces."""

    def __init__(self, clusters: Clusters, sign_in: SignIn) -> None:
        self._clusters, self._sign_in = clusters, sign_in

    def around(self, inner: Handler) -> Handler:
        resolve = self._clusters.resolve

        def find_cluster(call: Call) -> Pending:
            try:
                forwarded = resolve(call)
            except HiddenDenial as hidden:
                return self._disclose(call, hidden)
            except ArrivingCluster as arriving:
                return self._after_arrival(call, arriving, inner)
            return inner(call) if forwarded is None else forwarded

        return find_cluster

    async def _after_arrival(self, call: Call, arriving: ArrivingCluster, inner: Handler) -> None:
        """A front-proxy sends requests as soon as the other shard has given the cluster away."""
        await arriving.moves.arrived(arriving.name)
        try:
            pending = self._clusters.resolve(call) or inner(call)
        except ArrivingCluster as still:
            # Authorization would deny it: nothing of the logical cluster is known here yet.
            raise ServiceUnavailable("logical cluster is being migrated", retry_after=1) from still
        if pending is not None:
            await pending

    async def _disclose(self, call: Call, hidden: HiddenDenial) -> None:
        """Deny the call in words that depend on what its user may know."""
        if not call.has_trusted_user:
            found = await self._sign_in.authenticate(call)
            call.user = found.user
            waiting = call.audit.received() if call.audit is not None else None
            if waiting is not None:
                await waiting
        await hidden.check(call)
        try:
            raise hidden.denial
        finally:
            del hidden  # the denial knows this frame: both, and the call, would await a collection


class ExistingCluster:
    """Refuses calls for logical clusters that do not exist."""

    def __init__(self, presence: ClusterPresence) -> None:
        self._presence = presence

    def around(self, inner: Handler) -> Handler:
        presence = self._presence

        def check_presence(call: Call) -> Pending:
            presence(call)
            return inner(call)

        return check_presence


class ClusterResolver:
    def __init__(
        self,
        index: ClusterIndex,
        authorization: CallAuthorization,
        mounts: MountLookup | None = None,
        is_proxied: Callable[[IncomingRequest], bool] = lambda _: False,
    ) -> None:
        """`is_proxied`: whether a trusted front-proxy sent a request."""
        self._index, self._authorization, self._mounts = index, authorization, mounts
        self._is_proxied = is_proxied

    def is_forwarded(self, path: str) -> bool:
        if self._mounts is None or not path.startswith(_CLUSTERS):
            return False
        cluster = path[len(_CLUSTERS) :].partition("/")[0]
        if ":" not in cluster:
            return False
        step = self._index.walks.get(cluster)
        if step is None:
            step = self._index.walk(cluster) if clusters.is_valid_path(cluster) else None
        return step is not None and step.is_available and bool(step.mount_url)

    def resolve(self, call: Call) -> Pending:
        """Set the call's cluster, or answer it otherwise. Raises HiddenDenial."""
        info = call.info
        path = info.cluster
        if not path:
            path = self._home_of_account(call)
            if not path:
                return None
        elif info.path.startswith("/clusters/"):
            raise NotFound.path()
        if self._index.moves and ":" not in path:
            misdirected = self._check_moves(call, path)
            if misdirected is not None:
                return misdirected
        inactive = self._index.known.get(path)
        if inactive is None:
            if path in self._index.walks:
                return self._follow(call, path)
            if path == clusters.WILDCARD or clusters.is_system(path):
                return None
            if not clusters.is_valid_path(path):
                raise BadRequest(f'invalid cluster: "{path}" does not match the regex')
            if ":" in path:
                return self._follow(call, path)
            inactive = self._index.inactive(path)
            if inactive is None:
                if self._is_routed(call):
                    return _answer_not_here(call)
                if self._authorization.is_open(call):
                    call.cluster = ""
        if inactive:
            self._check_use(call, path)
        return None

    def _is_routed(self, call: Call) -> bool:
        """Whether a front-proxy has looked for the shard, and will do so again."""
        request = call.exchange.request
        return request.header(ROUTED) is not None and self._is_proxied(request)

    def _check_moves(self, call: Call, name: str) -> Pending:
        moves = self._index.moves
        if moves.is_arriving(name):
            if not self._is_routed(call):
                return None
            origin = moves.origin_of(name)
            if origin:
                return _answer_not_here(call, origin)
            raise ArrivingCluster(moves, name)
        shard = moves.shard_of(name)
        return _answer_not_here(call, shard) if shard and self._is_routed(call) else None

    def check(self, call: Call) -> None:
        """Refuse a call whose cluster, given by its name, may not be used: it may be inactive."""
        try:
            self.resolve(call)
        except HiddenDenial as hidden:
            raise hidden.denial from hidden

    def _home_of_account(self, call: Call) -> str:
        """The logical cluster that a request without one is for, if a service account sent it.

        Clients in a pod know only the address of their server, not of a cluster on it.
        """
        info = call.info
        if info.path.startswith("/clusters"):
            raise NotFound.path()
        if info.path in _SHARD_PATHS:
            call.cluster = clusters.ROOT  # whose RBAC says who may read them
            return ""
        cluster = account_cluster(call.exchange.request)
        if cluster:
            info.cluster = call.cluster = cluster
        return cluster

    def _follow(self, call: Call, path: str) -> Pending:
        try:
            return self._resolve_path(call, path)
        except HiddenDenial:
            if not self._authorization.is_open(call):
                raise
            call.cluster = ""
            return None

    def _resolve_path(self, call: Call, path: str) -> Pending:
        place = self._index.walk(path)
        if place is None:
            raise self._hidden(path, _no_workspace(path))
        if not place.is_available:
            raise self._hidden(path, WorkspaceUnavailable())
        if place.mount_url:
            if self._mounts is None:
                raise self._hidden(path, _no_workspace(path))
            return self._mounts.forward(call, place.mount_url)
        inactive = self._index.inactive(place.cluster)
        if inactive is None:
            is_away = place.shard and place.shard != self._index.shard_name
            raise self._hidden(path, OnAnotherShard() if is_away else _no_workspace(path))
        call.cluster = place.cluster
        if inactive:
            self._check_use(call, place.cluster)
        return None

    def _check_use(self, call: Call, cluster: str) -> None:
        if not call.info.path.startswith(_WHEN_INACTIVE) and not self._authorization.is_open(call):
            call.cluster = cluster
            why = "logical cluster is marked inactive"
            denial = Forbidden.resource("core.kcp.io", "logicalclusters", cluster, why)
            raise HiddenDenial(denial, self._authorization.check)

    def _hidden(self, path: str, denial: StatusError) -> HiddenDenial:
        """For users who may get the Workspace at the last step of the path that exists."""
        above, name = self._index.nearest(path)
        return HiddenDenial(
            denial, lambda call: self._authorization.check_visible(call, above, name)
        )


async def _answer_not_here(call: Call, shard: str = "") -> None:
    """The front-proxy, which is not the user, looks again for the shard that has the cluster."""
    call.exchange.respond(MISDIRECTED, ((NOT_HERE, shard),))


def _no_workspace(path: str) -> NotFound:
    return NotFound.resource("tenancy.kcp.io", "workspaces", path)


def account_cluster(request: IncomingRequest) -> str:
    """The logical cluster that a service account's token claims to be of; "" if it is none.

    Nothing is verified here: a false claim leads to where the token is refused.
    """
    if request.header(_SHARDED):
        return ""
    token = bearer_token(request.header("authorization"))
    claims = unverified_claims(token) if token is not None else None
    if claims is None:
        return ""
    bound = claims.get(_BOUND_CLAIM)
    found = bound.get("clusterName") if isinstance(bound, dict) else None
    if not isinstance(found, str):
        found = claims.get(_SECRET_CLAIM)
    return found if isinstance(found, str) else ""
