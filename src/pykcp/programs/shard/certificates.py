"""The certificates that a shard uses, and until when they are valid: `/debug/certificates`."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import orjson

from pykcp.auth.certificates import load_certificates
from pykcp.auth.files import CredentialError
from pykcp.programs.shard.settings import ShardSettings
from pykcp.types import Object


def describe_certificates(settings: ShardSettings, serving: pathlib.Path) -> str:
    """As JSON, read from the files as they are now."""
    items = [item for use, path in _files(settings, serving) for item in _read(use, path)]
    return orjson.dumps({"items": items}, option=orjson.OPT_INDENT_2).decode() + "\n"


def _files(settings: ShardSettings, serving: pathlib.Path) -> Iterator[tuple[str, pathlib.Path]]:
    yield "serving", serving
    for pair in settings.serving.tls_sni_cert_key:
        yield "serving (SNI)", pathlib.Path(pair.partition(",")[0])
    named = {
        "client CA": settings.client_ca.client_ca_file,
        "request header CA": settings.request_header.requestheader_client_ca_file,
    }
    for use, path in named.items():
        if path:
            yield use, pathlib.Path(path)
    root = pathlib.Path(settings.generic.root_directory)
    for made in sorted(root.glob("*-ca.crt")):
        yield made.stem, made


def _read(use: str, path: pathlib.Path) -> Iterator[Object]:
    try:
        found = load_certificates(path.read_bytes(), str(path))
    except (OSError, CredentialError) as error:
        yield {"use": use, "file": str(path), "error": str(error)}
        return
    for certificate in found:
        yield {
            "use": use,
            "file": str(path),
            "subject": certificate.subject.rfc4514_string(),
            "issuer": certificate.issuer.rfc4514_string(),
            "notBefore": certificate.not_valid_before_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "notAfter": certificate.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
