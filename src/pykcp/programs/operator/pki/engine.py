"""Issues the certificates of an installation, renews them and replaces their authorities.

A certificate is a Secret with `tls.crt`, `tls.key` and `ca.crt`, as cert-manager writes it. It is
kept as long as it is what was asked for and not due, so running the engine again changes nothing.

An authority with a new key is introduced in three phases, so that no connection fails:

1. `Trust`: the next certificate is in `next.crt`; it is trusted everywhere, nothing is signed by it.
2. `Issue`: it has become `tls.crt` and signs everything anew; the previous one is still trusted.
3. The previous one is dropped when the last certificate that it signed has ended.

Keys of service accounts change in the same way: the next public key is published before it signs,
and the previous one is accepted for as long as tokens that it signed may be valid.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import orjson

from pykcp.auth.certificates import load_certificates
from pykcp.auth.files import CredentialError
from pykcp.programs.operator.compiled import WorkloadOwner
from pykcp.programs.operator.names import GROUP
from pykcp.programs.operator.pki import issue as signing
from pykcp.programs.operator.pki.issue import SignedPair, SigningAuthority, issue
from pykcp.programs.operator.pki.requests import LEAF_SECONDS, CertificateRequest
from pykcp.programs.operator.records import ConfigRecord, Records

REQUEST = f"{GROUP}/certificate-request"
"""Annotation: a hash of what was asked for."""
ISSUED_BY = f"{GROUP}/issued-by"
REVISION = f"{GROUP}/certificate-revision"
PHASE = f"{GROUP}/rotation-phase"
PHASE_SINCE = f"{GROUP}/rotation-since"
TRUSTED_UNTIL = f"{GROUP}/previous-trusted-until"
RENEW = f"{GROUP}/renew"
"""Annotation that a user sets: renew now. `rotate` on an authority starts its three phases."""
TRUST, ISSUE = "Trust", "Issue"

CERTIFICATE, KEY, AUTHORITY = "tls.crt", "tls.key", "ca.crt"
_NEXT_CERTIFICATE, _NEXT_KEY, _PREVIOUS = "next.crt", "next.key", "previous.crt"
_RETIRED = "retired.json"
TLS_TYPE = "kubernetes.io/tls"


class IssuedCertificate(NamedTuple):
    """A certificate that is there."""

    name: str
    certificate: bytes
    key: bytes
    authority: bytes
    revision: int
    ends: float
    renewal: float
    """When it is renewed, in seconds since 1970."""


class IssuerMissing(Exception):
    """The authority that is to sign does not exist, or is of no use."""


@dataclass
class CertificateEngine:
    """Our own authority, on the Secrets of one namespace."""

    records: Records
    now: float
    settle_seconds: float
    token_seconds: float = LEAF_SECONDS
    """How long tokens of service accounts are accepted after their key was replaced."""
    longest_seconds: float = LEAF_SECONDS
    """The longest lifetime of a certificate that leaves the installation."""
    has_foreign_issuers: bool = False
    next_time: float = float("inf")
    """When something is due, of all that was asked for."""

    def ensure(self, request: CertificateRequest, owner: WorkloadOwner | None) -> IssuedCertificate:
        """The certificate, issued or renewed if it must be. Raises IssuerMissing."""
        if request.is_authority:
            return self._authority(request, owner)
        signer = self._signer(request.issuer)
        held = self._held(request)
        if held is None or self._is_due(held, request, signer):
            held = self._store(request, owner, signer, held)
        else:
            held = self._touch(request, owner, held)
        return self._issued(request, held)

    def ensure_signing(
        self, request: CertificateRequest, owner: WorkloadOwner | None
    ) -> IssuedCertificate:
        """A pair that signs tokens of service accounts; its former keys are kept for a while."""
        signer = self._signer(request.issuer)
        held = self._held(request)
        if held is None:
            held = self._store(request, owner, signer, None)
        elif _NEXT_KEY in held.data:
            held = self._promote_signing(request, held, signer)
        elif self._is_due(held, request, signer) and request.key.rotation == "Always":
            held = self._prepare_next(request, held, signer)
        elif self._is_due(held, request, signer):
            held = self._store(request, owner, signer, held)
        else:
            held = self._touch(request, owner, held)
        return self._issued(request, self._drop_retired(held))

    def verification_keys(self, name: str) -> bytes:
        """The public keys that tokens of a signing pair are verified with: next, current, former."""
        held = self.records.secret(name)
        if held is None or CERTIFICATE not in held.data:
            return b""
        keys = [signing.public_key(held.data[CERTIFICATE])]
        if _NEXT_CERTIFICATE in held.data:
            keys.append(signing.public_key(held.data[_NEXT_CERTIFICATE]))
        keys += [entry["key"].encode() for entry in _retired(held)]
        return b"".join(dict.fromkeys(keys))

    def trusted(self, name: str) -> bytes:
        """An authority's own certificates that are trusted now: current, next and previous."""
        held = self.records.secret(name)
        if held is None or CERTIFICATE not in held.data:
            raise IssuerMissing(f'Secret "{name}" with the authority does not exist')
        found = [signing.first_certificate(held.data[CERTIFICATE])]
        for key in (_NEXT_CERTIFICATE, _PREVIOUS):
            if key in held.data:
                bundle = load_certificates(held.data[key], name)
                found += [signing.certificate_pem(one) for one in bundle]
        return b"".join(dict.fromkeys(found))

    def root_of(self, name: str) -> bytes:
        """The self-signed root of an authority's certificate, if it is known."""
        held = self.records.secret(name)
        root = held.data.get(AUTHORITY, b"") if held is not None else b""
        return root if root and signing.is_self_signed(root) else b""

    # --- authorities --------------------------------------------------------------

    def _authority(
        self, request: CertificateRequest, owner: WorkloadOwner | None
    ) -> IssuedCertificate:
        signer = self._signer(request.issuer) if request.issuer else None
        held = self._held(request)
        if held is None:
            held = self._store(request, owner, signer, None)
        elif held.annotations.get(PHASE) == TRUST:
            held = self._await_trust(request, held, signer)
        elif not held.annotations.get(PHASE) and self._must_rotate(held, request, signer):
            held = self._begin_rotation(request, held, signer)
        elif signer is not None and held.annotations.get(ISSUED_BY) != _print_of(signer):
            # The authority above was replaced: the same key is signed anew, so that everything
            # that this one has signed stays valid.
            held = self._store(request, owner, signer, held, keeps_key=True)
        elif held.annotations.get(PHASE):
            held = self._drop_previous(held)
        else:
            held = self._touch(request, owner, held)
        return self._issued(request, held)

    def _must_rotate(
        self, held: ConfigRecord, request: CertificateRequest, signer: SigningAuthority | None
    ) -> bool:
        if held.annotations.get(RENEW) or held.annotations.get(REQUEST) != _request_hash(request):
            return True
        return self._is_old(held, request, signer)

    def _is_old(
        self, held: ConfigRecord, request: CertificateRequest, signer: SigningAuthority | None
    ) -> bool:
        """Whether it is time for a new one, and a new one would last longer.

        One that ends with its authority is replaced together with that.
        """
        if self.now < self._renewal(held, request):
            return False
        return signing.end_of(request, signer, self.now).timestamp() > _end(held)

    def _begin_rotation(
        self, request: CertificateRequest, held: ConfigRecord, signer: SigningAuthority | None
    ) -> ConfigRecord:
        made = issue(request, signer, self.now)
        data = {**held.data, _NEXT_CERTIFICATE: made.certificate, _NEXT_KEY: made.key}
        notes = {PHASE: TRUST, PHASE_SINCE: _moment(self.now), RENEW: ""}
        self._at(int(self.now) + self.settle_seconds)
        return self._put(held, data, notes)

    def _await_trust(
        self, request: CertificateRequest, held: ConfigRecord, signer: SigningAuthority | None
    ) -> ConfigRecord:
        since = float(held.annotations.get(PHASE_SINCE) or 0)
        if self.now < since + self.settle_seconds:
            self._at(since + self.settle_seconds)
            return self._keep(held)
        return self._issue_from_next(request, held, signer)

    def _drop_previous(self, held: ConfigRecord) -> ConfigRecord:
        until = float(held.annotations.get(TRUSTED_UNTIL) or 0)
        if self.now < until:
            self._at(until)
            return self._keep(held)
        data = {key: value for key, value in held.data.items() if key != _PREVIOUS}
        return self._put(held, data, {PHASE: "", TRUSTED_UNTIL: ""})

    def _issue_from_next(
        self, request: CertificateRequest, held: ConfigRecord, signer: SigningAuthority | None
    ) -> ConfigRecord:
        data = dict(held.data)
        previous = data[CERTIFICATE] + data.pop(_PREVIOUS, b"")
        del data[_NEXT_CERTIFICATE]
        # Signed again: the authority above may have been replaced together with this one.
        made = issue(request, signer, self.now, data.pop(_NEXT_KEY))
        data |= {**_data(made), _PREVIOUS: previous}
        self._at(self.now)  # what it has signed is signed anew at once
        # Certificates that are not held here (of users) may be as old as the longest lifetime.
        until = min(self.now + self.longest_seconds, _end(held))
        return self._put(
            held,
            data,
            {
                PHASE: ISSUE,
                PHASE_SINCE: _moment(self.now),
                TRUSTED_UNTIL: _moment(until),
                REQUEST: _request_hash(request),
                ISSUED_BY: _print_of(signer) if signer else "",
                REVISION: str(_revision(held) + 1),
            },
        )

    # --- keys of service accounts ---------------------------------------------------

    def _prepare_next(
        self, request: CertificateRequest, held: ConfigRecord, signer: SigningAuthority
    ) -> ConfigRecord:
        made = issue(request, signer, self.now)
        data = {**held.data, _NEXT_CERTIFICATE: made.certificate, _NEXT_KEY: made.key}
        self._at(self.now + self.settle_seconds)
        return self._put(held, data, {PHASE_SINCE: _moment(self.now), RENEW: ""})

    def _promote_signing(
        self, request: CertificateRequest, held: ConfigRecord, signer: SigningAuthority
    ) -> ConfigRecord:
        since = float(held.annotations.get(PHASE_SINCE) or 0)
        if self.now < since + self.settle_seconds:
            self._at(since + self.settle_seconds)
            return self._keep(held)
        data = dict(held.data)
        former = {
            "key": signing.public_key(data[CERTIFICATE]).decode(),
            "until": self.now + self.token_seconds,
        }
        data[_RETIRED] = orjson.dumps([*_retired(held), former])
        data[CERTIFICATE], data[KEY] = data.pop(_NEXT_CERTIFICATE), data.pop(_NEXT_KEY)
        return self._put(
            held,
            data,
            {
                REQUEST: _request_hash(request),
                ISSUED_BY: _print_of(signer),
                REVISION: str(_revision(held) + 1),
            },
        )

    def _drop_retired(self, held: ConfigRecord) -> ConfigRecord:
        entries = _retired(held)
        kept = [entry for entry in entries if entry["until"] > self.now]
        for entry in kept:
            self._at(entry["until"])
        if len(kept) == len(entries):
            return held
        return self._put(held, {**held.data, _RETIRED: orjson.dumps(kept)}, {})

    # --- Secrets ------------------------------------------------------------------

    def _signer(self, name: str) -> SigningAuthority:
        held = self.records.secret(name)
        if held is None:
            raise IssuerMissing(f'Secret "{name}" with the authority does not exist')
        for key in (CERTIFICATE, KEY):
            if not held.data.get(key):
                raise IssuerMissing(f'Secret "{name}" has no key "{key}"')
        signer = SigningAuthority(
            held.data[CERTIFICATE], held.data[KEY], held.data.get(AUTHORITY, b"")
        )
        try:
            leaf, key = signer.leaf(), signing.load_key(signer.key, name)
        except CredentialError as error:
            raise IssuerMissing(f'Secret "{name}": {error}') from error
        if leaf.public_key() != key.public_key():
            raise IssuerMissing(f'Secret "{name}": tls.key is not the key of tls.crt')
        if leaf.not_valid_after_utc.timestamp() <= self.now:
            raise IssuerMissing(
                f'Secret "{name}": the authority expired on {leaf.not_valid_after_utc:%Y-%m-%d}'
            )
        return signer

    def _held(self, request: CertificateRequest) -> ConfigRecord | None:
        """The Secret, if it holds a usable pair."""
        held = self.records.secret(request.name)
        if held is None or not held.data.get(CERTIFICATE) or not held.data.get(KEY):
            return None
        try:
            load_certificates(held.data[CERTIFICATE], request.name)
            signing.load_key(held.data[KEY], request.name)
        except CredentialError:
            return None
        return held

    def _is_due(
        self, held: ConfigRecord, request: CertificateRequest, signer: SigningAuthority
    ) -> bool:
        notes = held.annotations
        if notes.get(RENEW) or notes.get(REQUEST) != _request_hash(request):
            return True
        return notes.get(ISSUED_BY) != _print_of(signer) or self._is_old(held, request, signer)

    def _renewal(self, held: ConfigRecord, request: CertificateRequest) -> float:
        leaf = load_certificates(held.data[CERTIFICATE], held.name)[0]
        margin = request.margin_of(signing.lifetime(leaf))
        jitter = 0.0 if request.is_authority else _share(request.name) * margin / 10
        return leaf.not_valid_after_utc.timestamp() - margin - jitter

    def _store(
        self,
        request: CertificateRequest,
        owner: WorkloadOwner | None,
        signer: SigningAuthority | None,
        held: ConfigRecord | None,
        *,
        keeps_key: bool = False,
    ) -> ConfigRecord:
        keeps = held is not None and (keeps_key or request.key.rotation == "Never")
        key = held.data[KEY] if held is not None and keeps else None
        made = issue(request, signer, self.now, key)
        notes = {
            REQUEST: _request_hash(request),
            ISSUED_BY: _print_of(signer) if signer else "",
            REVISION: str((_revision(held) if held is not None else 0) + 1),
        }
        if held is not None and held.annotations.get(RENEW):
            notes[RENEW] = ""
        data = {**(held.data if held is not None else {}), **_data(made)}
        record = ConfigRecord(
            request.name,
            data,
            labels={**request.labels, **request.secret_labels},
            annotations={**request.annotations, **request.secret_annotations, **notes},
            owner=owner,
            type=held.type if held is not None else TLS_TYPE,
        )
        return self.records.put(record)

    def _touch(
        self, request: CertificateRequest, owner: WorkloadOwner | None, held: ConfigRecord
    ) -> ConfigRecord:
        """The same certificate with the labels and the owner of today."""
        return self.records.put(
            ConfigRecord(
                held.name,
                held.data,
                labels={**request.labels, **request.secret_labels},
                annotations={**request.annotations, **request.secret_annotations},
                owner=owner,
                type=held.type,
            )
        )

    def _keep(self, held: ConfigRecord) -> ConfigRecord:
        return self.records.put(held)

    def _put(
        self, held: ConfigRecord, data: dict[str, bytes], notes: dict[str, str]
    ) -> ConfigRecord:
        return self.records.put(
            ConfigRecord(held.name, data, held.kind, held.labels, {**held.annotations, **notes}, held.owner, held.type)
        )  # fmt: skip

    def _issued(self, request: CertificateRequest, held: ConfigRecord) -> IssuedCertificate:
        renewal = self._renewal(held, request)
        if renewal > self.now:  # otherwise it is being replaced, in phases with times of their own
            self._at(renewal)
        return IssuedCertificate(
            request.name,
            held.data[CERTIFICATE],
            held.data[KEY],
            held.data.get(AUTHORITY, b""),
            _revision(held),
            _end(held),
            renewal,
        )

    def _at(self, moment: float) -> None:
        self.next_time = min(self.next_time, moment)


def _share(name: str) -> float:
    """From 0 to 1: certificates that were issued together are renewed one after the other."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 0xFFFFFFFF


def _data(made: SignedPair) -> dict[str, bytes]:
    return {CERTIFICATE: made.certificate, KEY: made.key, AUTHORITY: made.authority}


def _retired(held: ConfigRecord) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = orjson.loads(held.data.get(_RETIRED, b"[]"))
    return found


def _revision(held: ConfigRecord) -> int:
    return int(held.annotations.get(REVISION) or 1)


def _end(held: ConfigRecord) -> float:
    return load_certificates(held.data[CERTIFICATE], held.name)[0].not_valid_after_utc.timestamp()


def _moment(seconds: float) -> str:
    return str(int(seconds))


def _request_hash(request: CertificateRequest) -> str:
    described = asdict(request)
    for key in ("labels", "annotations", "secret_labels", "secret_annotations", "renew_before"):
        del described[key]
    text = orjson.dumps(described, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(text).hexdigest()[:20]


def _print_of(signer: SigningAuthority) -> str:
    """Names the key that signs: a certificate that is made anew for it changes nothing below."""
    return hashlib.sha256(signing.public_key(signer.certificate)).hexdigest()[:20]
