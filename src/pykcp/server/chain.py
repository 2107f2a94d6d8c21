"""The filters of an API server, in the order in which a request meets them.

A filter is put around the handler behind it. It answers a call, or passes it on at once or
later: what takes time is returned as a coroutine. A request whose user is known and whose
answer needs no waiting (every GET of an object) goes through the whole chain, and back, in one
synchronous call. `docs/design/request.md` explains the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pykcp.auth.authn.chain import Authentication
from pykcp.server.call import Handler
from pykcp.server.filters.authentication import ConnectionUsers, RequireUser, SignIn
from pykcp.server.filters.authorization import Authorization, RequirePermission
from pykcp.server.filters.clusters import ClusterPresence, Clusters, ExistingCluster, FindCluster
from pykcp.server.filters.fairness import ChargeCosts, FairShares, WaitForSeat
from pykcp.server.filters.homes import HomeWorkspaces
from pykcp.server.filters.status import AnswerErrors
from pykcp.server.filters.tracing import PassTrace
from pykcp.server.metrics import RequestMetrics

if TYPE_CHECKING:
    from pykcp.server.filters.audit import AuditFilter
    from pykcp.server.filters.flow_control import FlowControl


class Filter(Protocol):
    def around(self, inner: Handler) -> Handler:
        """The handler that calls `inner`, and may do something before, after or instead."""


@dataclass(frozen=True, slots=True)
class SharedParts:
    """Parts of the chain that the API servers of one process have in common."""

    authentication: Authentication
    metrics: RequestMetrics
    flow: FlowControl | None = None
    """None: API fairness is off."""
    audit: AuditFilter | None = None
    """None: there is no audit log."""

    def sign_in(self) -> SignIn:
        return SignIn(self.authentication, self.flow)


@dataclass(frozen=True, slots=True)
class OwnParts:
    """Parts that depend on what a server serves."""

    clusters: Clusters
    authorization: Authorization
    presence: ClusterPresence | None
    """None: another server of this process takes the call over, with its own presence and seats."""
    homes: HomeWorkspaces | None = None


class Chain(NamedTuple):
    outside: Handler
    """For requests from clients."""
    inside: Handler
    """For calls of another server of this process, which has authenticated their user."""


def build_chain(handler: Handler, shared: SharedParts, own: OwnParts) -> Chain:
    """Wrap a handler in all enabled filters."""
    flow, audit, sign_in = shared.flow, shared.audit, shared.sign_in()
    outside = (
        ChargeCosts(flow.meter) if flow else None,  # measures everything below
        audit,  # records a request whatever becomes of it
        AnswerErrors(shared.metrics),  # the only place where errors become answers
        PassTrace(),  # around everything that may call other servers
        ConnectionUsers(shared.authentication, flow),  # before anything costly is done
        FindCluster(own.clusters, sign_in),  # authentication may depend on the cluster
        RequireUser(sign_in),
        audit.received if audit else None,  # the policy of the audit log depends on the user
        FairShares(flow) if flow else None,  # before authorization, which may take long
        own.homes,  # authorizes by its own rules
    )
    inside = (
        RequirePermission(own.authorization),  # as the user, or whom they impersonate
        # Only users who are authorized learn that a logical cluster does not exist.
        ExistingCluster(own.presence) if own.presence else None,
        WaitForSeat(flow) if flow and own.presence else None,  # around the handler alone
    )
    permitted = compose(inside, handler)
    return Chain(
        outside=compose(outside, permitted),
        inside=compose((FindCluster(own.clusters, sign_in),), permitted),
    )


def compose(filters: Sequence[Filter | None], handler: Handler) -> Handler:
    """The first filter is the outermost; None stands for one that is switched off."""
    for each in reversed(filters):
        if each is not None:
            handler = each.around(handler)
    return handler
