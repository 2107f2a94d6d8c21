"""Certificates by cert-manager: all of them, or those for which an issuer of the user is named.

Certificates and Issuers are only described here; the caller applies `wanted` and runs the
configuration stage again when cert-manager has written the Secrets.
"""

from __future__ import annotations

from pykcp.auth.certificates import load_certificates
from pykcp.auth.files import CredentialError
from pykcp.programs.operator.compiled import WorkloadOwner
from pykcp.programs.operator.pki.engine import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    CertificateEngine,
    IssuedCertificate,
    IssuerMissing,
)
from pykcp.programs.operator.pki.issuance import NotIssuedYet
from pykcp.programs.operator.pki.requests import CertificateRequest, IssuerReference
from pykcp.programs.operator.records import owner_reference
from pykcp.types import Object

_API = "cert-manager.io/v1"


class CertManagerIssuance:
    """Asks cert-manager where it is to be asked, and our own engine otherwise."""

    has_foreign_issuers = True

    def __init__(
        self, engine: CertificateEngine, namespace: str, *, is_installed: bool, issues_all: bool
    ) -> None:
        self._engine, self._namespace = engine, namespace
        self._is_installed, self._issues_all = is_installed, issues_all
        self._wanted: dict[tuple[str, str], Object] = {}

    @property
    def wanted(self) -> list[Object]:
        """Certificates and Issuers."""
        return list(self._wanted.values())

    def ensure(self, request: CertificateRequest, owner: WorkloadOwner | None) -> IssuedCertificate:
        if not self._is_asked(request):
            return self._engine.ensure(request, owner)
        if not self._is_installed:
            name = request.foreign_issuer.name if request.foreign_issuer else request.issuer
            raise IssuerMissing(
                f'{request.name}: issuer "{name}" needs cert-manager, which is not installed'
            )
        if request.foreign_issuer is None:
            # Of the first that asks for it: what is above, which may be made or given, has none.
            self._want(self._issuer(request.issuer, owner))
        self._want(self._certificate(request, owner))
        if request.is_authority and self._issues_all:
            self._want(self._issuer(request.name, owner))
        return self._written(request)

    def _want(self, obj: Object) -> None:
        self._wanted.setdefault((obj["kind"], obj["metadata"]["name"]), obj)

    def _is_asked(self, request: CertificateRequest) -> bool:
        if request.foreign_issuer is not None:
            return True
        # A root without an issuer of the user signs itself, and is made here.
        return self._issues_all and bool(request.issuer)

    def ensure_signing(
        self, request: CertificateRequest, owner: WorkloadOwner | None
    ) -> IssuedCertificate:
        """Always our own: cert-manager forgets keys that it replaces, and tokens with them."""
        return self._engine.ensure_signing(request, owner)

    def verification_keys(self, name: str) -> bytes:
        return self._engine.verification_keys(name)

    def trusted(self, name: str) -> bytes:
        return self._engine.trusted(name)

    def root_of(self, name: str) -> bytes:
        return self._engine.root_of(name)

    def _written(self, request: CertificateRequest) -> IssuedCertificate:
        held = self._engine.records.secret(request.name)
        if held is None or not held.data.get(CERTIFICATE) or not held.data.get(KEY):
            raise NotIssuedYet(f'Certificate "{request.name}" is not ready yet')
        self._engine.records.wanted.add((held.kind, held.name))
        try:
            leaf = load_certificates(held.data[CERTIFICATE], request.name)[0]
        except CredentialError as error:
            raise NotIssuedYet(f'Certificate "{request.name}": {error}') from error
        ends = leaf.not_valid_after_utc.timestamp()
        lifetime = ends - leaf.not_valid_before_utc.timestamp()
        authority = held.data.get(AUTHORITY, b"")
        revision = int(held.annotations.get("cert-manager.io/certificate-revision") or 1)
        return IssuedCertificate(
            request.name,
            held.data[CERTIFICATE],
            held.data[KEY],
            authority,
            revision,
            ends,
            ends - request.margin_of(lifetime),
        )

    def _certificate(self, request: CertificateRequest, owner: WorkloadOwner | None) -> Object:
        issuer = request.foreign_issuer or IssuerReference(request.issuer)
        usages = ["digital signature", "key encipherment", *request.usages]
        if request.is_authority:
            usages.append("cert sign")
        spec: Object = {
            "secretName": request.name,
            "issuerRef": {"name": issuer.name, "kind": issuer.kind, "group": issuer.group},
            "duration": f"{int(request.duration)}s",
            "renewBefore": f"{int(request.renewal_margin)}s",
            "usages": usages,
            "privateKey": _key(request),
            "secretTemplate": {
                "labels": {**request.labels, **request.secret_labels},
                "annotations": dict(request.secret_annotations),
            },
        }
        for name, value in (
            ("commonName", request.common_name),
            ("isCA", request.is_authority),
            ("dnsNames", list(request.dns_names)),
            ("ipAddresses", list(request.addresses)),
            ("subject", _subject(request)),
        ):
            if value:
                spec[name] = value
        return self._object("Certificate", request.name, owner, spec, request)

    def _issuer(self, name: str, owner: WorkloadOwner | None) -> Object:
        return self._object("Issuer", name, owner, {"ca": {"secretName": name}}, None)

    def _object(
        self,
        kind: str,
        name: str,
        owner: WorkloadOwner | None,
        spec: Object,
        request: CertificateRequest | None,
    ) -> Object:
        metadata: Object = {"name": name, "namespace": self._namespace}
        if request is not None:
            metadata["labels"] = dict(request.labels)
            metadata["annotations"] = dict(request.annotations)
        if owner is not None and owner.uid:
            metadata["ownerReferences"] = [owner_reference(owner)]
        return {"apiVersion": _API, "kind": kind, "metadata": metadata, "spec": spec}


def _subject(request: CertificateRequest) -> Object:
    made: Object = {name: list(values) for name, values in request.subject.items()}
    if request.organizations:
        made["organizations"] = list(request.organizations)
    if request.serial_number:
        made["serialNumber"] = request.serial_number
    return made


def _key(request: CertificateRequest) -> Object:
    key = request.key
    made: Object = {
        "algorithm": key.algorithm,
        "encoding": key.encoding,
        # cert-manager knows no phases: with another key, nothing that an authority has signed
        # would be trusted any more, and it is not signed anew.
        "rotationPolicy": "Never" if request.is_authority else key.rotation,
    }
    if key.size:
        made["size"] = key.size
    return made
