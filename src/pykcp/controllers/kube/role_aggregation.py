"""Aggregated ClusterRoles have the rules of the roles they select, in their own cluster."""

from __future__ import annotations

import logging
from typing import Any

import orjson

from pykcp.aio.slices import Slices, in_slices
from pykcp.auth.authz.aggregation import TooManyRules, aggregated_rules, is_aggregated
from pykcp.clients.interface import Change, Client, Feed
from pykcp.controllers.runtime.controller import Controller, is_cluster
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery.resources import CLUSTER_ROLES
from pykcp.types import Object

_log = logging.getLogger(__name__)

NAME = "clusterrole-aggregation-controller"
_PAGE = 50
"""Roles that are decoded at a time: each may have thousands of rules."""


class RoleAggregation:
    """Its keys are logical clusters: which roles select a changed one, only they know."""

    def __init__(self, client: Client, metrics: ControllerMetrics | None = None) -> None:
        self._client = client
        self.controller: Controller[str] = Controller(
            NAME, self.reconcile, lane=is_cluster, metrics=metrics
        )

    def follow(self, feed: Feed) -> None:
        feed.on(CLUSTER_ROLES, self._on_role)

    def _on_role(self, change: Change) -> None:
        self.controller.add(change.cluster)

    async def reconcile(self, cluster: str) -> None:
        roles = await self._roles(cluster)
        for role in roles:
            if is_aggregated(role):
                await self._aggregate(cluster, role, roles)

    async def _roles(self, cluster: str) -> list[Object]:
        """All roles of a cluster, without what aggregation does not ask for.

        Aggregated roles have the rules of others: a rule that several have is in memory once.
        """
        rules: dict[bytes, Any] = {}
        found: list[Object] = []
        slices = Slices(cluster)
        async for page in self._client.pages(cluster, CLUSTER_ROLES, size=_PAGE):
            for role in page:
                metadata = {k: v for k, v in role["metadata"].items() if k != "managedFields"}
                shared: list[Any] = []
                for rule in role.get("rules") or ():
                    shared.append(rules.setdefault(orjson.dumps(rule), rule))
                    if slices.is_over():
                        await slices.next()
                found.append({**role, "metadata": metadata, "rules": shared})
        return found

    async def _aggregate(self, cluster: str, role: Object, roles: list[Object]) -> None:
        try:
            rules = await in_slices(aggregated_rules(role, roles), cluster)
        except TooManyRules:
            name = role["metadata"]["name"]
            _log.warning("%s|%s selects roles with too many rules: not updated", cluster, name)
            return
        if rules == (role.get("rules") or []):
            return
        applied = {
            "apiVersion": role["apiVersion"],
            "kind": role["kind"],
            "metadata": {"name": role["metadata"]["name"], "uid": role["metadata"]["uid"]},
            "rules": rules,
        }
        await self._client.apply(cluster, CLUSTER_ROLES, applied, force=True)
