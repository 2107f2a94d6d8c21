"""A webhook as its configuration describes it, ready for use."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from pykcp.admission.expressions.compiling import Compiled, compile_admission
from pykcp.admission.expressions.environment import NameVisibility
from pykcp.admission.matching import Criteria, parse_criteria_in_steps
from pykcp.steps import Steps
from pykcp.types import Object

DEFAULT_VISIBILITY = NameVisibility()


@dataclass(frozen=True, slots=True)
class Service:
    """A webhook that is reached through a Service."""

    namespace: str
    name: str
    path: str
    port: int


@dataclass(frozen=True, slots=True)
class AdmissionWebhook:
    uid: str
    """Of all webhooks of a cluster only this one has it."""
    name: str
    configuration: str
    url: str
    service: Service | None
    ca_bundle: bytes
    timeout: int
    """Seconds."""
    fails_open: bool
    side_effects: str
    review_versions: tuple[str, ...]
    reinvoked: bool
    criteria: Criteria
    conditions: tuple[Compiled, ...]

    @property
    def has_dry_run(self) -> bool:
        return self.side_effects in ("None", "NoneOnDryRun")


def parse_webhooks(configuration: Object) -> Steps[tuple[AdmissionWebhook, ...]]:
    """The webhooks of a configuration, in its order."""
    name = configuration["metadata"]["name"]
    seen: dict[str, int] = {}
    found = []
    for hook in configuration.get("webhooks") or ():
        count = seen.get(hook["name"], 0)
        seen[hook["name"]] = count + 1
        criteria = yield from parse_criteria_in_steps(hook, "rules")
        found.append(_parse(hook, name, f"{name}/{hook['name']}/{count}", criteria))
        yield
    return tuple(found)


def _parse(hook: Object, configuration: str, uid: str, criteria: Criteria) -> AdmissionWebhook:
    client = hook.get("clientConfig") or {}
    return AdmissionWebhook(
        uid=uid,
        name=hook["name"],
        configuration=configuration,
        url=client.get("url") or "",
        service=_service(client.get("service")),
        ca_bundle=_bytes(client.get("caBundle")),
        timeout=hook.get("timeoutSeconds") or 10,
        fails_open=hook.get("failurePolicy") == "Ignore",
        side_effects=hook.get("sideEffects") or "",
        review_versions=tuple(hook.get("admissionReviewVersions") or ()),
        reinvoked=hook.get("reinvocationPolicy") == "IfNeeded",
        criteria=criteria,
        conditions=tuple(
            compile_admission(condition["expression"], "matchCondition", DEFAULT_VISIBILITY)
            for condition in hook.get("matchConditions") or ()
        ),
    )


def _service(service: Object | None) -> Service | None:
    if service is None:
        return None
    return Service(
        service["namespace"], service["name"], service.get("path") or "", service.get("port") or 443
    )


def _bytes(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "")
    except binascii.Error:
        return b""
