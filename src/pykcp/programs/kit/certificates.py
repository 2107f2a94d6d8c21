"""The certificates that a program uses, and until when they are valid: `/debug/certificates`."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator
from typing import Protocol

import orjson

from pykcp.auth.certificates import load_certificates
from pykcp.auth.files import CredentialError
from pykcp.programs.kit.groups.client_ca import ClientCAOptions
from pykcp.programs.kit.groups.request_header import RequestHeaderOptions
from pykcp.programs.kit.groups.root_directory import RootDirectoryOptions
from pykcp.programs.kit.groups.serving import ServingOptions
from pykcp.types import Object

NamedFile = tuple[str, pathlib.Path]
"""What a certificate is used for, and where it is."""


class CertificateSettings(Protocol):
    """Of programs that serve."""

    @property
    def generic(self) -> RootDirectoryOptions: ...
    @property
    def serving(self) -> ServingOptions: ...
    @property
    def client_ca(self) -> ClientCAOptions: ...
    @property
    def request_header(self) -> RequestHeaderOptions: ...


def describe_certificates(
    settings: CertificateSettings, serving: pathlib.Path, more: Iterable[NamedFile] = ()
) -> str:
    """As JSON, read from the files as they are now."""
    files = [*_files(settings, serving), *more]
    items = [item for use, path in files for item in _read(use, path)]
    return orjson.dumps({"items": items}, option=orjson.OPT_INDENT_2).decode() + "\n"


def _files(settings: CertificateSettings, serving: pathlib.Path) -> Iterator[NamedFile]:
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
