"""Where a program listens, with which certificate, and which TLS it accepts."""

from __future__ import annotations

import ipaddress
import pathlib
import time
from collections.abc import Iterator

from pykcp.auth.certificates import (
    ServingFiles,
    certificate_hosts,
    ensure_serving,
    load_certificates,
    serving_hosts,
)
from pykcp.machinery.regex import RegexError, compiled
from pykcp.programs.kit.checks import directory, key_pair, key_pairs, positive
from pykcp.programs.kit.flags import ignored
from pykcp.programs.kit.options import OptionGroup, option
from pykcp.wire.exchange import Application
from pykcp.wire.listener import Listener
from pykcp.wire.settings import NamedCertificate, TLSSettings

_VERSIONS = {
    "VersionTLS10": "1.2",
    "VersionTLS11": "1.2",
    "VersionTLS12": "1.2",
    "VersionTLS13": "1.3",
}
"""The first two are accepted as kcp accepts them, but insecure: OpenSSL does not offer them."""
_TLS13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""Known by name and always on: neither Go nor OpenSSL lets a server choose among them."""
_SUITES = {
    f"TLS_{exchange}_WITH_{name}": f"{openssl}{suite}"
    for exchange, openssl in (("ECDHE_ECDSA", "ECDHE-ECDSA-"), ("ECDHE_RSA", "ECDHE-RSA-"), ("RSA", ""))
    for name, suite in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("CHACHA20_POLY1305", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA256", "AES128-SHA256"),
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
    )
    if openssl or "CHACHA20" not in name
}  # fmt: skip
"""TLS 1.2: Go's names and OpenSSL's."""
_REQUIRED = tuple(f"TLS_ECDHE_{key}_WITH_AES_128_GCM_SHA256" for key in ("RSA", "ECDSA"))
"""HTTP/2 over TLS 1.2 demands one of these (RFC 9113, 9.2.2)."""


def _address(flag: str, address: str) -> Iterator[str]:
    try:
        ipaddress.ip_address(address)
    except ValueError:
        yield f"--{flag} {address!r} is not an IP address"


def _port(flag: str, port: int) -> Iterator[str]:
    if not 0 <= port <= 65535:
        yield f"--{flag} {port} is not a valid port, must be between 0 and 65535"


def _version(flag: str, version: str) -> Iterator[str]:
    if version not in _VERSIONS:
        yield f"--{flag}: unknown TLS version {version!r}, must be one of {', '.join(_VERSIONS)}"


def _suites(flag: str, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        if name not in _SUITES and name not in _TLS13:
            yield f"--{flag}: cipher suite {name} not supported or doesn't exist"


def _named_pairs(flag: str, entries: tuple[str, ...]) -> Iterator[str]:
    for text in entries:
        files, _, _ = text.partition(":")
        certificate, comma, key = files.partition(",")
        if not comma or not certificate or not key or "," in key:
            yield f"--{flag} {text!r} must be a certificate and key file, separated by a comma, and optionally a colon and names"
        else:
            yield from key_pair(flag, certificate, key)


_ORIGINS_HELP = (
    "Origins of web pages that may call the API (CORS), as regular expressions; none if empty. "
    "Each must pin the whole host: begin with '^' or '//' and end with '$' or ':', as in '//example\\.com(:|$)'."
)


def _origins(flag: str, patterns: tuple[str, ...]) -> Iterator[str]:
    for pattern in patterns:
        if not pattern:
            yield f"empty value in --{flag}"
            continue
        try:
            compiled(pattern)
        except RegexError as error:
            yield f"--{flag} has an invalid regular expression: {error}"
            continue
        if not any(text in pattern for text in ("^", "//")) or not any(
            text in pattern for text in ("$", ":")
        ):
            yield f"--{flag} has an invalid regular expression: regular expression does not pin to start/end of host in the origin header: {pattern}"


def _directives(flag: str, directives: tuple[str, ...]) -> Iterator[str]:
    for directive in directives:
        name, equals, value = directive.partition("=")
        is_age = name == "max-age" and equals and "=" not in value
        if directive not in ("includeSubDomains", "preload") and not is_age:
            yield f"--{flag} invalid, allowed values: max-age=expireTime, includeSubDomains, preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more information"


class ServingOptions(OptionGroup):
    TITLE = "Secure serving"
    OTHER = (
        ignored("permit-address-sharing", "bool", False),
        ignored("livez-grace-period", "duration", 0.0),
        ignored("max-connection-bytes-per-sec", "int", 0),
        ignored("tls-curve-preferences", "strings", ()),
        ignored("disable-http2-serving", "bool", False),
        ignored("goaway-chance"),
        ignored("shutdown-delay-duration", "duration", 0.0),
        ignored("shutdown-watch-termination-grace-period", "duration", 0.0),
        ignored("shutdown-send-retry-after", "bool", False),
    )

    bind_address: str = option(
        "IP address to listen on.",
        "0.0.0.0",  # noqa: S104  # kcp's default: all addresses
        check=_address,
    )
    secure_port: int = option("Port to serve HTTPS on; 0 takes a free one.", 6443, check=_port)
    permit_port_sharing: bool = option(
        "Let other processes that share the port listen on it, too (SO_REUSEPORT): connections are spread over them.",
        False,
    )
    health_port: int = option(
        "Serve on this port of 127.0.0.1, too: for health checks of one of several processes that share a port. 0: none.",
        0,
        check=_port,
    )
    cert_dir: str = option(
        "Directory of the serving certificate that is made if --tls-cert-file is not given; the root directory if empty.",
        "",
    )
    tls_cert_file: str = option(
        "Serving certificate (PEM), with intermediates. Made if not given.", ""
    )
    tls_private_key_file: str = option("Key of the serving certificate (PEM).", "")
    tls_min_version: str = option(
        "Lowest TLS version to accept: VersionTLS12 or VersionTLS13; VersionTLS10 and VersionTLS11 mean VersionTLS12.",
        "VersionTLS12",
        check=_version,
    )
    tls_cipher_suites: tuple[str, ...] = option(
        "Cipher suites for TLS 1.2, by their IANA names; those that HTTP/2 allows if not given. TLS 1.3 has a fixed set.",
        (),
        check=_suites,
    )
    tls_sni_cert_key: tuple[str, ...] = option(
        "A further certificate and key file and the host names for which they are used, "
        "cert.pem,key.pem:example.com,*.example.com; the names of the certificate if none are given. Repeatable.",
        (),
        kind="list",
        check=_named_pairs,
    )
    cors_allowed_origins: tuple[str, ...] = option(_ORIGINS_HELP, (), check=_origins)
    strict_transport_security_directives: tuple[str, ...] = option(
        "Directives of the header Strict-Transport-Security (HSTS) of every answer, such as max-age=31536000,includeSubDomains,preload; no header if empty.",
        (),
        check=_directives,
    )

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.cert_dir and not self.tls_cert_file:  # or nothing is written to it
            yield from directory("cert-dir", self.cert_dir)
        yield from key_pairs(
            "tls-cert-file", self.tls_cert_file, "tls-private-key-file", self.tls_private_key_file
        )
        suites = self.tls_cipher_suites if _VERSIONS.get(self.tls_min_version) == "1.2" else ()
        if suites and not set(suites) & set(_REQUIRED):
            yield f"--tls-cipher-suites lacks a suite that HTTP/2 requires: {' or '.join(_REQUIRED)}"

    def notes(self) -> Iterator[str]:
        if self.tls_min_version in ("VersionTLS10", "VersionTLS11"):
            yield f"--tls-min-version {self.tls_min_version} is treated as VersionTLS12: older versions are insecure and not served"

    def files(self, directory: pathlib.Path, *hosts: str) -> ServingFiles:
        """The certificate given, or one for these hosts that is made in the directory."""
        if self.tls_cert_file:
            certificate = pathlib.Path(self.tls_cert_file)
            key = pathlib.Path(self.tls_private_key_file)
            return ServingFiles(certificate, key, certificate.read_bytes())
        where = pathlib.Path(self.cert_dir) if self.cert_dir else directory
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        return ensure_serving(where, serving_hosts(*hosts, self.bind_address), time.time())

    def for_browsers(self, application: Application) -> Application:
        """The application with the headers that the flags ask for."""
        if not self.cors_allowed_origins and not self.strict_transport_security_directives:
            return application
        from pykcp.server.browsers import BrowserHeaders

        return BrowserHeaders(
            application, self.cors_allowed_origins, self.strict_transport_security_directives
        )

    async def listen(self, listener: Listener) -> None:
        """Raises ListenError."""
        await listener.start(
            self.bind_address, self.secure_port, shares_port=self.permit_port_sharing
        )
        if self.health_port:
            await listener.start_private(self.health_port)

    def tls(self, files: ServingFiles) -> TLSSettings:
        chosen = (_SUITES[name] for name in self.tls_cipher_suites if name in _SUITES)
        return TLSSettings(
            str(files.certificate_file),
            str(files.key_file),
            min_version=_VERSIONS[self.tls_min_version],
            ciphers=tuple(chosen),
            named=tuple(_named(self.tls_sni_cert_key)),
        )


def _named(entries: tuple[str, ...]) -> Iterator[NamedCertificate]:
    """Explicit names come before those of certificates, then the order given counts."""
    parsed = []
    for text in entries:
        files, _, names = text.partition(":")
        certificate, _, key = files.partition(",")
        parsed.append((certificate, key, tuple(name for name in names.split(",") if name)))
    for certificate, key, given in sorted(parsed, key=lambda entry: not entry[2]):
        found = given or _names_of(pathlib.Path(certificate))
        yield NamedCertificate(certificate, key, tuple(name.lower() for name in found))


def _names_of(certificate: pathlib.Path) -> list[str]:
    """The host names that a certificate is for, its common name included."""
    from cryptography.x509.oid import NameOID

    leaf = load_certificates(certificate.read_bytes(), str(certificate))[0]
    common = leaf.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return [*(str(name.value) for name in common), *certificate_hosts(leaf)]


class ShardServingOptions(ServingOptions):
    """As kcp: a free port has to be asked for twice, so that none is taken by mistake."""

    serving_processes: int = option(
        "Processes that serve requests, each on a core of its own. One writes the store and runs the controllers, the others answer reads, lists and watches. Only for the embedded store.",
        1,
        check=positive,
    )

    experimental_bind_free_port: bool = option(
        "Listen on any free port (with --secure-port=0).", False, hidden=True
    )

    def problems(self) -> Iterator[str]:
        if self.serving_processes > 1 and (self.permit_port_sharing or self.health_port):
            yield "--permit-port-sharing and --health-port cannot be used with --serving-processes"
        port = self.secure_port
        if not 0 <= port <= 65535 or (port == 0 and not self.experimental_bind_free_port):
            yield f"--secure-port {port} is not a valid port, must be between 1 and 65535"
        if port and self.experimental_bind_free_port:
            yield "--secure-port=0 required if --experimental-bind-free-port is set"
        for problem in super().problems():
            if not problem.startswith("--secure-port "):
                yield problem
