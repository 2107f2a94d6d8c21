"""The controllers of `apis.kcp.io` and `topology.kcp.io`, made and joined to one another."""

from __future__ import annotations

from pykcp.controllers.apis import (
    apibinding,
    apiexport,
    binding,
    binding_deletion,
    claim_labels,
    crd_cleanup,
    endpoint_slices,
    extra_annotations,
    lock_cleanup,
)
from pykcp.controllers.apis.apibinding import APIBindings, BindingHooks
from pykcp.controllers.apis.apiexport import IDENTITY_VALID, URLS_GATE, APIExports
from pykcp.controllers.apis.binding_deletion import BindingDeletion
from pykcp.controllers.apis.bound_crds import BoundCRDs
from pykcp.controllers.apis.claim_labels import ClaimLabels, LateObjects
from pykcp.controllers.apis.crd_cleanup import CRDCleanup
from pykcp.controllers.apis.endpoint_slices import EndpointSlices
from pykcp.controllers.apis.endpoint_urls import EndpointURLs
from pykcp.controllers.apis.extra_annotations import ExtraAnnotations
from pykcp.controllers.apis.lock_cleanup import LockCleanup
from pykcp.controllers.apis.metrics import ApiMetrics, StateTally
from pykcp.controllers.apis.objects import ApiObjects
from pykcp.controllers.apis.published_slices import PublishedSlices
from pykcp.controllers.runtime.kinds import ServedKinds
from pykcp.controllers.runtime.manager import ControllerSpec
from pykcp.controllers.runtime.parts import ControllerParts
from pykcp.controllers.topology import partition_sets
from pykcp.controllers.topology.partition_sets import PartitionSets
from pykcp.machinery.resources import API_BINDINGS, API_EXPORT_ENDPOINT_SLICES, API_EXPORTS
from pykcp.registry.indexes.apis import OPEN_BINDINGS, OPEN_EXPORTS
from pykcp.types import Object


def make(parts: ControllerParts) -> list[ControllerSpec]:
    lister, lookup, metrics, client = parts.lister, parts.lookup, parts.metrics, parts.controller
    bound, now, kinds = parts.bound, parts.now(), ServedKinds(parts.directory)
    objects, tallies = ApiObjects(lister, lookup), _tallies(parts)
    late = LateObjects(lister, client(claim_labels.RESOURCE_NAME), kinds, metrics)
    labels = ClaimLabels(
        objects, client(claim_labels.NAME), kinds, bound, late, now, tallies, metrics
    )
    cleanup = CRDCleanup(objects, client(crd_cleanup.NAME), parts.clock, metrics)
    binder = client(apibinding.NAME)
    return [
        APIExports(
            lister,
            client(apiexport.NAME),
            lookup,
            now,
            shows_urls=URLS_GATE in parts.gates,
            api_metrics=tallies,
            metrics=metrics,
        ),
        APIBindings(
            objects,
            binder,
            BoundCRDs(objects, binder, now),
            now,
            BindingHooks(labels.relabel, cleanup.consider, tallies),
            metrics,
        ),
        BindingDeletion(
            objects, client(binding_deletion.NAME), kinds, bound, now, tallies, metrics
        ),
        labels,
        late,
        cleanup,
        LockCleanup(objects, client(lock_cleanup.NAME), now, metrics),
        ExtraAnnotations(objects, client(extra_annotations.NAME), metrics),
        EndpointSlices(objects, client(endpoint_slices.NAME), now, metrics),
        EndpointURLs(
            objects,
            parts.make_client(parts.shard_name),
            PublishedSlices(API_EXPORT_ENDPOINT_SLICES, lookup.replica, parts.peers),
            parts.shard_name,
            metrics,
        ),
        PartitionSets(lister, client(partition_sets.NAME), lookup, now, metrics),
    ]


def _tallies(parts: ControllerParts) -> ApiMetrics:
    return ApiMetrics(
        parts.registry,
        parts.shard_name,
        parts.clock,
        StateTally(
            parts.lister,
            API_BINDINGS,
            OPEN_BINDINGS,
            binding_when_settled(),
            (*binding.CONDITIONS, binding_deletion.DELETED),
        ),
        StateTally(
            parts.lister,
            API_EXPORTS,
            OPEN_EXPORTS,
            _true((IDENTITY_VALID,)),
            (IDENTITY_VALID, apiexport.URLS_READY),
        ),
    )


def binding_when_settled() -> Object:
    """A binding as those are that no index of open ones has."""
    kinds = ("Ready", binding.EXPORT_VALID, binding.UP_TO_DATE, binding.COMPLETED)
    settled = _true((*kinds, binding.CLAIMS_APPLIED, binding.CLAIMS_VALID))
    settled["status"]["phase"] = binding.BOUND
    return settled


def _true(kinds: tuple[str, ...]) -> Object:
    return {"status": {"conditions": [{"type": kind, "status": "True"} for kind in kinds]}}
