"""Builds all controllers of this package and subscribes them to the feed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pykcp.admission.plugins.resource_quota import Quotas
from pykcp.apis.catalog import ResourceDefinition
from pykcp.clients.interface import Client, Lister
from pykcp.controllers.kube import (
    crds,
    default_accounts,
    event_expiry,
    garbage,
    namespaces,
    policy_status,
    quota,
    role_aggregation,
    root_ca,
    token_secrets,
)
from pykcp.controllers.kube.crds import CustomResourceDefinitions
from pykcp.controllers.kube.default_accounts import DefaultAccounts
from pykcp.controllers.kube.event_expiry import EventExpiry
from pykcp.controllers.kube.garbage import GarbageCollector
from pykcp.controllers.kube.namespaces import Namespaces
from pykcp.controllers.kube.policy_status import PolicyStatus
from pykcp.controllers.kube.quota import ResourceQuotas
from pykcp.controllers.kube.role_aggregation import RoleAggregation
from pykcp.controllers.kube.root_ca import RootCA
from pykcp.controllers.kube.token_secrets import Sign, TokenSecrets
from pykcp.controllers.runtime.kinds import ServedKinds
from pykcp.controllers.runtime.manager import ControllerSpec
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.clock import Timestamps
from pykcp.registry.watch.hub import WatchHub


def make(
    *,
    lister: Lister,
    make_client: Callable[[str], Client],
    hub: WatchHub,
    directory: Directory,
    metrics: ControllerMetrics,
    ca_bundle: str,
    sign_token: Sign,
    event_ttl: float,
    quotas: Quotas,
    bound: Callable[[str], Sequence[ResourceDefinition]] = lambda _: (),
    for_content: bool = True,
    compute: quota.RunJob | None = None,
    clock: Callable[[], float] = time.time,
) -> list[ControllerSpec]:
    """All of them; `join` them and set them going.

    `make_client` makes a client for a user, `quotas` are those by which admission counts,
    `bound` is what the bindings of a cluster bring, `for_content`: with those that create and delete
    content of namespaces by themselves.
    """
    kinds = ServedKinds(directory)
    counted = metrics

    def client(name: str) -> Client:
        return make_client(f"system:serviceaccount:kube-system:{name}")

    tokens = TokenSecrets(lister, client(token_secrets.NAME), sign_token, ca_bundle, counted)
    made: list[ControllerSpec] = []
    if for_content:
        made = [
            Namespaces(lister, client(namespaces.NAME), kinds, Timestamps(clock), counted),
            GarbageCollector(lister, client(garbage.NAME), kinds, Timestamps(clock), counted),
            DefaultAccounts(lister, client(default_accounts.NAME), counted),
            RootCA(lister, client(root_ca.NAME), ca_bundle, counted, tokens.look_at),
        ]
    made += [
        tokens,
        RoleAggregation(client(role_aggregation.NAME), counted),
        PolicyStatus(client(policy_status.NAME), directory, counted),
        ResourceQuotas(lister, client(quota.NAME), directory, quotas, counted, compute),
        CustomResourceDefinitions(
            lister, client(crds.NAME), hub, Timestamps(clock), counted, bound
        ),
    ]
    if event_ttl > 0:
        made.append(EventExpiry(lister, client(event_expiry.NAME), event_ttl, clock, counted))
    return made
