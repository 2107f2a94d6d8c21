"""How the configuration stage gets certificates: from our own engine, or from cert-manager."""

from __future__ import annotations

from typing import Protocol

from pykcp.programs.operator.compiled import WorkloadOwner
from pykcp.programs.operator.pki.engine import IssuedCertificate
from pykcp.programs.operator.pki.requests import CertificateRequest


class NotIssuedYet(Exception):
    """A certificate was asked for and is not there yet; the message names it."""


class Issuance(Protocol):
    """Certificates of one namespace. Methods raise NotIssuedYet and IssuerMissing."""

    has_foreign_issuers: bool
    """Whether issuers of the user can be asked; otherwise our own authority signs."""

    def ensure(
        self, request: CertificateRequest, owner: WorkloadOwner | None
    ) -> IssuedCertificate: ...

    def ensure_signing(
        self, request: CertificateRequest, owner: WorkloadOwner | None
    ) -> IssuedCertificate:
        """A pair that signs tokens of service accounts."""

    def verification_keys(self, name: str) -> bytes:
        """The public keys that tokens of a signing pair are verified with, PEM."""

    def trusted(self, name: str) -> bytes:
        """The certificates of an authority that are trusted now, PEM."""

    def root_of(self, name: str) -> bytes:
        """The self-signed root above an authority, PEM; empty if it is not known."""
