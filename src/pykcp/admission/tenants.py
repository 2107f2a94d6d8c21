"""Webhooks and policies of tenants, as plug-ins of the chain.

The plug-ins and all they need (the CEL compiler, an HTTP client) are imported when the first
cluster has a configuration: a server without any does not pay for them at its start.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pykcp.admission.configurations import NONE, AdmissionHooks, Configurations, ProviderOf
from pykcp.admission.subject import is_exempt, is_exempt_from_policies
from pykcp.aio.imports import import_aside
from pykcp.apis.kube.validation.rules import CelUse
from pykcp.auth.authz.chain import Authorizer
from pykcp.clients.outbound import Outbound
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import FieldError
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.lookup import Replica
from pykcp.registry.resource import Resource
from pykcp.registry.stored import StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.steps import Steps
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.admission.lookups import AdmissionLookups
    from pykcp.admission.policies.invocations import Policies
    from pykcp.admission.policies.remote_params import RemoteParams
    from pykcp.admission.webhooks.calling import Callers
    from pykcp.admission.webhooks.client import ServiceResolver


class Deferred:
    """A plug-in that is made when a request first needs it."""

    def __init__(
        self,
        name: str,
        configurations: Configurations,
        hooks: Callable[[AdmissionHooks], tuple[Any, ...]],
        make: Callable[[], Any],
        module: str,
        is_exempt: Callable[[Resource], bool] = is_exempt,
    ) -> None:
        self.name = name
        self._is_exempt = is_exempt
        self._configurations = configurations
        self._place, self._known = configurations.place, configurations.known
        self._hooks = hooks
        self._make, self._module = make, f"pykcp.admission.plugins.{module}"
        self._made: Any = None

    def wants(self, request: AdmissionRequest) -> bool:
        if request.context.is_new:
            return False
        known = self._known.get(self._place(request))
        if known is NONE or (known is not None and not self._hooks(known)):
            return False
        return not self._is_exempt(request.resource)

    async def mutate(self, request: AdmissionRequest) -> None:
        hooks = self._hooks(await self._configurations.applying(request))
        if hooks:
            await (self._made or await self._plugin()).mutate(request, hooks)

    async def validate(self, request: AdmissionRequest) -> None:
        hooks = self._hooks(await self._configurations.applying(request))
        if hooks:
            await (self._made or await self._plugin()).validate(request, hooks)

    async def _plugin(self) -> Any:
        # What it imports takes long to load: the loop goes on meanwhile.
        await import_aside(self._module)
        if self._made is None:
            self._made = self._make()
        return self._made


class TenantAdmission:
    """Four plug-ins on shared configurations."""

    def __init__(
        self,
        store: StoreReader,
        directory: Directory,
        authorizer: Authorizer,
        outbound: Outbound,
        resolve: ServiceResolver | None = None,
        provider_of: ProviderOf | None = None,
        replica: Replica | None = None,
        remote_params: Callable[[], RemoteParams | None] = lambda: None,
    ) -> None:
        """`resolve` finds Services; without it webhooks can only be reached by URL.

        `provider_of` finds whose configurations apply to bound resources, `replica` has those of
        providers on other shards, and `remote_params` reads the parameters of their policies.
        """
        self._remote_params = remote_params
        self._store, self._directory, self._authorizer = store, directory, authorizer
        self._outbound, self._resolve = outbound, resolve
        self.configurations = known = Configurations(store, provider_of, replica)
        self.mutating_policies = Deferred(
            "MutatingAdmissionPolicy",
            known,
            lambda h: h.mutating_policies,
            self._mutating_policies,
            "mutating_policies",
            is_exempt_from_policies,
        )
        self.mutating_webhooks = Deferred(
            "MutatingAdmissionWebhook",
            known,
            lambda h: h.mutating_webhooks,
            self._mutating_webhooks,
            "mutating_webhooks",
        )
        self.validating_policies = Deferred(
            "ValidatingAdmissionPolicy",
            known,
            lambda h: h.validating_policies,
            self._validating_policies,
            "validating_policies",
            is_exempt_from_policies,
        )
        self.validating_webhooks = Deferred(
            "ValidatingAdmissionWebhook",
            known,
            lambda h: h.validating_webhooks,
            self._validating_webhooks,
            "validating_webhooks",
        )

    @cached_property
    def _lookups(self) -> AdmissionLookups:
        from pykcp.admission.lookups import AdmissionLookups

        return AdmissionLookups(self._store, self._directory)

    @cached_property
    def _callers(self) -> Callers:
        from pykcp.admission.webhooks.calling import Callers
        from pykcp.admission.webhooks.client import AdmissionWebhookClient

        client = AdmissionWebhookClient(self._outbound, self._resolve)
        return Callers(client, self._lookups, self._authorizer)

    @cached_property
    def _policies(self) -> Policies:
        from pykcp.admission.policies.invocations import Policies

        return Policies(self._lookups, self._authorizer, self._remote_params())

    def _mutating_policies(self) -> Any:
        from pykcp.admission.plugins.mutating_policies import MutatingPolicies

        return MutatingPolicies(self._policies)

    def _mutating_webhooks(self) -> Any:
        from pykcp.admission.plugins.mutating_webhooks import MutatingWebhooks

        return MutatingWebhooks(self._callers)

    def _validating_policies(self) -> Any:
        from pykcp.admission.plugins.validating_policies import ValidatingPolicies

        return ValidatingPolicies(self._policies)

    def _validating_webhooks(self) -> Any:
        from pykcp.admission.plugins.validating_webhooks import ValidatingWebhooks

        return ValidatingWebhooks(self._callers)


def policy_status(directory: Directory, cluster: str, policy: Object) -> Steps[Object]:
    """The status that type checking gives a ValidatingAdmissionPolicy of a logical cluster."""
    from pykcp.admission.typechecking import CheckedKind, status_of

    def find_kind(group: str, version: str, plural: str) -> CheckedKind | None:
        found = directory.find(cluster, group, version, plural)
        return None if found is None else CheckedKind(group, version, found.kind)

    def find_schema(kind: CheckedKind) -> Schema | None:
        for definition in directory.definitions(cluster):
            if (definition.group, definition.kind) == (kind.group, kind.kind):
                is_served = kind.version in definition.versions
                return definition.schema(kind.version) if is_served else None
        return None

    return status_of(policy, find_kind, find_schema)


def check_cel(expression: str, use: CelUse) -> str | None:
    """`cel_checks.check_cel`, imported when the first expression comes in."""
    from pykcp.admission.cel_checks import check_cel as check

    return check(expression, use)


class _SchemaChecks:
    """`schema_checks.SCHEMA_CHECKS`, imported when the first CRD comes in."""

    def value(self, schema: Object, value: Any, path: str) -> list[FieldError]:
        from pykcp.admission.schema_checks import SCHEMA_CHECKS

        return SCHEMA_CHECKS.value(schema, value, path)

    def rules(
        self, schema: Object, path: str, *, stored: frozenset[str], unchanged: bool
    ) -> list[FieldError]:
        from pykcp.admission.schema_checks import SCHEMA_CHECKS

        return SCHEMA_CHECKS.rules(schema, path, stored=stored, unchanged=unchanged)


schema_checks = _SchemaChecks()
