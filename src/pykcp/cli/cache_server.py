"""The program `cache-server`: what shards publish for each other, served by itself."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pykcp.cli.flags import Flag, FlagError, FlagSet, refuse

if TYPE_CHECKING:
    from pykcp.programs.cache.settings import CacheSettings

USAGE = """cache-server keeps what the shards of a kcp installation publish for each other.

Usage:
  cache-server [flags]
  cache-server --version
  cache-server --help
"""


def _ignored(name: str, kind: str = "string", default: Any = "") -> Flag:
    return Flag(name, kind, default, "Known to kcp.", is_ignored=True)


FLAGS = FlagSet(
    [
        (
            "State",
            [
                Flag("root-directory", "string", ".kcp-cache", "Where state and certificates go."),
                _ignored("embedded-etcd-directory"),
                _ignored("embedded-etcd-peer-port", "string"),
                _ignored("embedded-etcd-client-port", "string"),
                _ignored("embedded-etcd-listen-metrics-urls", "strings", []),
                _ignored("embedded-etcd-wal-size-bytes", "int", 0),
                _ignored("embedded-etcd-quota-backend-bytes", "int", 0),
                _ignored("embedded-etcd-force-new-cluster", "bool", False),
                _ignored("etcd-servers", "strings", []),
                _ignored("etcd-prefix"),
                _ignored("etcd-cafile"),
                _ignored("etcd-certfile"),
                _ignored("etcd-keyfile"),
            ],
        ),
        (
            "Secure serving",
            [
                Flag("bind-address", "string", "0.0.0.0", "Address to listen on."),  # noqa: S104
                Flag("secure-port", "int", 6443, "Port to listen on; 0 takes a free one."),
                Flag("tls-cert-file", "string", "", "Certificate to show, with intermediates."),
                Flag("tls-private-key-file", "string", "", "Key of --tls-cert-file."),
                _ignored("cert-dir"),
            ],
        ),
        (
            "Access",
            [
                Flag("client-ca-file", "string", "",
                     "CAs of client certificates; only system:masters gets in."),
                Flag("authorization-always-allow-paths", "strings",
                     ["/healthz", "/readyz", "/livez"], "Paths that need no permission."),
            ],
        ),
        (
            "Tests and logs",
            [
                Flag("synthetic-delay", "duration", 0.0, "Time that every request waits."),
                Flag("v", "int", 2, "How much to log; 0 only warnings, 4 and more for debugging."),
                Flag("logging-format", "string", "text", "Form of the log: text or json."),
            ],
        ),
    ],
    short={"v": "v"},
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if any(word in ("--help", "-h", "help") for word in words):
        print(USAGE + FLAGS.usage(), end="")
        return 0
    if words and words[0] in ("--version", "version"):
        from pykcp.server.documents.version import GIT_VERSION

        print(f"cache-server version {GIT_VERSION}")
        return 0
    try:
        settings = _settings(words)
    except FlagError as error:
        return refuse(str(error).splitlines())
    if settings.problems():
        return refuse(settings.problems())
    from pykcp.programs.cache.process import run

    return run(settings)


def _settings(words: Sequence[str]) -> CacheSettings:
    from pykcp.programs.cache.settings import CacheSettings

    values, rest = FLAGS.parse(words)
    if rest:
        raise FlagError(f'unknown command "{rest[0]}" for "cache-server"')
    return CacheSettings(
        root_directory=pathlib.Path(values["root-directory"]),
        bind_address=values["bind-address"],
        secure_port=values["secure-port"],
        tls_cert_file=values["tls-cert-file"],
        tls_private_key_file=values["tls-private-key-file"],
        client_ca_file=values["client-ca-file"],
        authorization_always_allow_paths=tuple(values["authorization-always-allow-paths"]),
        synthetic_delay=values["synthetic-delay"],
        verbosity=values["v"],
        logging_format=values["logging-format"],
    )


if __name__ == "__main__":
    sys.exit(main())
