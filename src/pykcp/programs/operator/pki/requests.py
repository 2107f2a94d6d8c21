"""What a certificate is to be, and the changes that users make to it by templates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pykcp.types import Object

SERVER_AUTH, CLIENT_AUTH = "server auth", "client auth"

CA_SECONDS = 87600 * 3600.0
CA_RENEW_BEFORE = 30 * 86400.0
LEAF_SECONDS = 8760 * 3600.0
LEAF_RENEW_BEFORE = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class KeyForm:
    """How a private key is made and written."""

    algorithm: str = "ECDSA"
    """`ECDSA`, `RSA` or `Ed25519`. P-256 takes a millisecond, RSA 4096 a second and more."""
    size: int = 0
    encoding: str = "PKCS1"
    rotation: str = "Always"
    """`Never` keeps the key when the certificate is renewed."""


@dataclass(frozen=True, slots=True)
class IssuerReference:
    """An issuer of cert-manager that signs instead of our own authority."""

    name: str
    kind: str = "Issuer"
    group: str = "cert-manager.io"


@dataclass(frozen=True, slots=True)
class CertificateRequest:
    """One certificate; its Secret has the same name."""

    name: str
    issuer: str = ""
    """Name of the authority's Secret; "" for one that signs itself."""
    foreign_issuer: IssuerReference | None = None
    kind: str = ""
    """`server`, `client-ca` and so on: the key in certificateTemplates."""
    common_name: str = ""
    organizations: tuple[str, ...] = ()
    subject: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Further parts of the subject, by the names of the template's fields."""
    serial_number: str = ""
    dns_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    usages: tuple[str, ...] = ()
    is_authority: bool = False
    duration: float = LEAF_SECONDS
    renew_before: float = LEAF_RENEW_BEFORE
    key: KeyForm = KeyForm()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    secret_labels: Mapping[str, str] = field(default_factory=dict)
    secret_annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def renewal_margin(self) -> float:
        """How long before its end a certificate is renewed: at most a third of its life."""
        return self.margin_of(self.duration)

    def margin_of(self, lifetime: float) -> float:
        """The same for one that lasts so long: an authority that ends earlier cuts it off."""
        return min(self.renew_before, self.duration / 3, lifetime / 3)


_UNITS = {
    "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9,
}  # fmt: skip
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")


def duration_seconds(text: str) -> float:
    """A Go duration, `8766h` or `1h30m`, which the schema has checked."""
    return sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(text))


_SUBJECT = (
    "countries", "organizationalUnits", "localities", "provinces", "streetAddresses", "postalCodes",
)  # fmt: skip


def with_template(request: CertificateRequest, template: Object | None) -> CertificateRequest:
    """The request with a user's changes; usages and the common name cannot be changed."""
    if not template:
        return request
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    secret = spec.get("secretTemplate") or {}
    changes: dict[str, Any] = {
        # The operator's own labels and annotations win.
        "labels": {**(metadata.get("labels") or {}), **request.labels},
        "annotations": {**(metadata.get("annotations") or {}), **request.annotations},
        "secret_labels": {**(secret.get("labels") or {}), **request.secret_labels},
        "secret_annotations": {**(secret.get("annotations") or {}), **request.secret_annotations},
    }
    issuer, names = spec.get("issuerRef"), tuple(spec.get("dnsNames") or ())
    if issuer:
        changes["foreign_issuer"] = issuer_reference(issuer)
    if names:  # a public issuer would refuse names of the cluster
        changes["dns_names"] = names if issuer else _union(request.dns_names, names)
    changes["addresses"] = _union(request.addresses, tuple(spec.get("ipAddresses") or ()))
    for name, target in (("duration", "duration"), ("renewBefore", "renew_before")):
        if spec.get(name):
            changes[target] = duration_seconds(spec[name])
    changes["key"] = _key(request.key, spec.get("privateKey") or {})
    return replace(request, **changes, **_subject(request, spec.get("subject") or {}))


def issuer_reference(given: Object) -> IssuerReference:
    kind, group = given.get("kind") or "Issuer", given.get("group") or "cert-manager.io"
    return IssuerReference(given["name"], kind, group)


def _subject(request: CertificateRequest, given: Object) -> dict[str, Any]:
    more = {
        name: _union(request.subject.get(name, ()), tuple(given.get(name) or ()))
        for name in _SUBJECT
    }
    return {
        "organizations": _union(request.organizations, tuple(given.get("organizations") or ())),
        "subject": {name: values for name, values in more.items() if values},
        "serial_number": given.get("serialNumber") or request.serial_number,
    }


def _key(key: KeyForm, given: Object) -> KeyForm:
    return KeyForm(
        given.get("algorithm") or key.algorithm,
        given.get("size") or (0 if given.get("algorithm") else key.size),
        given.get("encoding") or key.encoding,
        given.get("rotationPolicy") or key.rotation,
    )


def _union(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({*first, *second})) if second else first
