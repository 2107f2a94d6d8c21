"""Certificates of an installation: what is wrong with them, and requests to renew them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from pykcp.auth.certificates import load_certificates, load_private_key
from pykcp.clients.credential_files import CredentialError
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.host.layout import HostFiles, imported_workloads
from pykcp.programs.operator.pki.engine import RENEW
from pykcp.programs.operator.records import ConfigRecord

if TYPE_CHECKING:
    from cryptography import x509


_IMPORTED = "imported"


class CertificateReport(NamedTuple):
    """One Secret with a certificate."""

    name: str
    subject: str
    hosts: str
    issuer: str
    ends: datetime
    is_authority: bool
    problem: str

    @property
    def days(self) -> float:
        return (self.ends - datetime.now(UTC)).total_seconds() / 86400


def host_certificates(files: HostFiles, now: datetime) -> Iterator[CertificateReport]:
    """All certificates of a host: those that it issues, and those of what it has imported."""
    own = list(files.records())
    known = {one.name for one in own}
    imported = [one for one in _imported_records(files) if one.name not in known]
    yield from certificate_reports([*own, *imported], now)


def _imported_records(files: HostFiles) -> Iterator[ConfigRecord]:
    """The pairs among the files of imported workloads, with the authorities among them."""
    found: dict[str, dict[str, bytes]] = {}
    for workload in imported_workloads(files):
        for file in workload.files:
            if file.source is not None and file.source.key in ("tls.crt", "tls.key"):
                found.setdefault(file.source.name, {})[file.source.key] = file.content
            elif file.source is not None and file.source.key.endswith(".crt"):
                found.setdefault(f"{file.source.name}/{file.source.key}", {})["tls.crt"] = (
                    file.content
                )
    bundles = [
        data["tls.crt"] for data in found.values() if "tls.key" not in data and "tls.crt" in data
    ]
    authorities = b"\n".join(dict.fromkeys(bundles))
    for name, data in found.items():
        if "tls.key" in data and "tls.crt" in data:
            data = {**data, "ca.crt": authorities}
            yield ConfigRecord(name, data, annotations={_IMPORTED: "true"})


def certificate_reports(
    records: Iterable[ConfigRecord], now: datetime
) -> Iterator[CertificateReport]:
    """All certificates, by name, with the first problem of each."""
    for record in sorted(records, key=lambda one: one.name):
        if "tls.crt" not in record.data or "tls.key" not in record.data:
            continue
        try:
            chain = load_certificates(record.data["tls.crt"], record.name)
        except CredentialError as error:
            ends = datetime.fromtimestamp(0, UTC)
            yield CertificateReport(record.name, "", "", "", ends, False, str(error))
            continue
        leaf = chain[0]
        yield CertificateReport(
            record.name,
            leaf.subject.rfc4514_string(),
            _hosts(leaf),
            leaf.issuer.rfc4514_string(),
            leaf.not_valid_after_utc,
            _is_authority(leaf),
            _problem(record, chain, now),
        )


def _problem(record: ConfigRecord, chain: list[x509.Certificate], now: datetime) -> str:
    leaf = chain[0]
    if now > leaf.not_valid_after_utc:
        return f"expired at {leaf.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"
    if now < leaf.not_valid_before_utc:
        return (
            f"not valid before {leaf.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}: is the clock right?"
        )
    try:
        key = load_private_key(record.data["tls.key"], record.name)
        if key.public_key() != leaf.public_key():
            return "the key is not that of the certificate"
        return _chain_problem(record, chain)
    except CredentialError as error:
        return str(error)


def _chain_problem(record: ConfigRecord, chain: list[x509.Certificate]) -> str:
    """Each certificate is signed by the next one, the last by one of `ca.crt`."""
    roots = load_certificates(record.data.get("ca.crt", b"") or record.data["tls.crt"], record.name)
    # Hosts that import a workload are given what it reads, and not every authority.
    is_known = any(one.subject == chain[-1].issuer for one in roots)
    if _IMPORTED in record.annotations and not is_known:
        chain = chain[:-1]
    for one, issuer in zip(chain, [*chain[1:], None], strict=True):
        candidates = [issuer] if issuer is not None else roots
        if not any(_is_signed_by(one, candidate) for candidate in candidates):
            return f"not signed by {one.issuer.rfc4514_string()} of its chain"
    return ""


def _is_signed_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except Exception:  # of several libraries: whatever it is, it does not verify
        return False
    return True


def _hosts(leaf: x509.Certificate) -> str:
    from pykcp.auth.certificates import certificate_hosts

    return ",".join(certificate_hosts(leaf))


def _is_authority(leaf: x509.Certificate) -> bool:
    from cryptography import x509

    try:
        found = leaf.extensions.get_extension_for_class(x509.BasicConstraints)
    except x509.ExtensionNotFound:
        return False
    return found.value.ca


def request_renewal(
    files: HostFiles, namespace: str, names: Iterable[str], *, authorities: bool
) -> list[str]:
    """Mark certificates to be renewed by the next run. Raises SettingsError.

    If none is named: all leaves, or all authorities but the self-signed ones. A new root makes
    shards restart, so it has to be asked for by name.
    """
    reports = list(certificate_reports(files.records(), datetime.now(UTC)))
    found = {one.name: one.is_authority for one in reports}
    wanted = list(names) or [
        one.name
        for one in reports
        if one.is_authority == authorities and not (authorities and one.subject == one.issuer)
    ]
    for name in wanted:
        if name not in found:
            raise SettingsError(f"certificate {name} does not exist; see: kcp cert check")
        if found[name] != authorities:
            other = "rotate-ca" if found[name] else "renew"
            raise SettingsError(f"{name} is changed with: kcp cert {other} {name}")
    for record in files.records():
        if record.name in wanted and "tls.key" in record.data:
            notes = {**record.annotations, RENEW: "now"}
            files.save_record(replace(record, annotations=notes), namespace)
    return wanted
