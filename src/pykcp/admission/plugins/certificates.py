"""CertificateSigningRequests: who may approve and sign for a signer, and what none may ask for.

Signers are resources of their own for authorization (`signers` of certificates.k8s.io, named
`<domain>/<path>` or `<domain>/*`), besides the right to write the subresource.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from pykcp.auth.authz.attributes import Attributes
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.user import MASTERS
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import Forbidden, go_quote
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.types import Object

GROUP = "certificates.k8s.io"
RESOURCE = "certificatesigningrequests"
CERTIFICATE_SIGNING_REQUESTS = GroupVersionResource(GROUP, "v1", RESOURCE)
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"


def _is_for(request: AdmissionRequest, operation: str, subresource: str) -> bool:
    resource = request.resource
    return (
        resource.plural == RESOURCE
        and resource.group == GROUP
        and request.operation == operation
        and request.subresource == subresource
    )


_MAX_REQUEST = 256 * 1024
"""Octets of a PEM: a subject may have thousands of attributes, all of which are looked at."""


class _SignerCheck:
    """A user who writes a subresource must hold a verb on the signer."""

    kind = CERTIFICATE_SIGNING_REQUESTS
    name: str
    verb: str
    subresource: str

    def __init__(self, authorizer: Authorizer) -> None:
        """By a callable: the authorizer is made after admission, which it depends on."""
        self._authorizer = authorizer

    def wants(self, request: AdmissionRequest) -> bool:
        return _is_for(request, "UPDATE", self.subresource)

    async def validate(self, request: AdmissionRequest) -> None:
        # use the old object, so that changing the signer's name in the request has no effect
        signer = str(((request.old or {}).get("spec") or {}).get("signerName") or "")
        domain = signer.split("/", maxsplit=1)[0]
        for name in (signer, f"{domain}/*"):
            if await self._may(request, name):
                return
        why = f"user not permitted to {self.verb} requests with signerName {go_quote(signer)}"
        raise _refusal(request, why)

    async def _may(self, request: AdmissionRequest, signer: str) -> bool:
        context = request.context
        attributes = Attributes(
            context.user, self.verb, group=GROUP, resource="signers", name=signer, version="*"
        )
        decision = await self._authorizer.authorize(context.cluster, attributes)
        return decision.allowed


class CertificateApproval(_SignerCheck):
    """Approving or denying needs `approve` on the signer."""

    name = "CertificateApproval"
    verb, subresource = "approve", "approval"


class CertificateSigning(_SignerCheck):
    """Setting the certificate or the conditions needs `sign` on the signer."""

    name = "CertificateSigning"
    verb, subresource = "sign", "status"

    async def validate(self, request: AdmissionRequest) -> None:
        if _outcome(request.obj) != _outcome(request.old):
            await super().validate(request)


class CertificateSubjectRestriction:
    """Reject requests to the signer of API clients for the group system:masters."""

    name = "CertificateSubjectRestriction"
    kind = CERTIFICATE_SIGNING_REQUESTS

    def wants(self, request: AdmissionRequest) -> bool:
        return _is_for(request, "CREATE", "")

    async def validate(self, request: AdmissionRequest) -> None:
        spec = (request.obj or {}).get("spec") or {}
        if spec.get("signerName") != CLIENT_SIGNER:
            return
        try:
            organizations = _organizations(spec.get("request"))
        except ValueError as error:
            raise _refusal(request, f"failed to parse CSR: {error}") from error
        if MASTERS in organizations:
            raise _refusal(
                request, f"use of {CLIENT_SIGNER} signer with {MASTERS} group is not allowed"
            )


def _refusal(request: AdmissionRequest, why: str) -> Forbidden:
    name = request.name
    if not name:
        metadata = (request.obj or {}).get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName") or "Unknown"
    return Forbidden.resource(GROUP, RESOURCE, name, why)


def _outcome(obj: Object | None) -> tuple[Any, Any]:
    status = (obj or {}).get("status") or {}
    return status.get("certificate") or "", status.get("conditions") or []


def _organizations(encoded: Any) -> list[str]:
    """The groups a request asks for. Raises ValueError."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        pem = base64.b64decode(encoded or "")
    except (binascii.Error, TypeError) as error:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST") from error
    if b"-----BEGIN CERTIFICATE REQUEST-----" not in pem:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    if len(pem) > _MAX_REQUEST:
        raise ValueError(f"the certificate request has more than {_MAX_REQUEST} bytes")
    subject = x509.load_pem_x509_csr(pem).subject
    found = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    return [one.value if isinstance(one.value, str) else one.value.decode() for one in found]
