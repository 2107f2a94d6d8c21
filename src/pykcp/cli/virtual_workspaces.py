"""The program `virtual-workspaces`: `virtual-workspaces workspaces` runs it."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pykcp.cli.flags import Flag, FlagError, FlagSet, refuse

if TYPE_CHECKING:
    from pykcp.programs.virtual.settings import VirtualWorkspacesSettings

USAGE = """virtual-workspaces serves the virtual workspaces of a kcp shard at an address of their own.

Usage:
  virtual-workspaces workspaces --kubeconfig FILE [flags]
  virtual-workspaces --version
  virtual-workspaces --help
"""


def _ignored(name: str, kind: str = "string", default: Any = "") -> Flag:
    return Flag(name, kind, default, "Known to kcp.", is_ignored=True)


FLAGS = FlagSet(
    [
        (
            "Shard",
            [
                Flag("kubeconfig", "string", "", "Kubeconfig of system:masters on the shard."),
                Flag("context", "string", "", "Context of that kubeconfig; its current one if empty."),
                _ignored("cache-kubeconfig"),
                _ignored("external-logical-cluster-admin-kubeconfig"),
                _ignored("shard-external-url"),
            ],
        ),
        (
            "Secure serving",
            [
                Flag("bind-address", "string", "0.0.0.0", "Address to listen on."),  # noqa: S104
                Flag("secure-port", "int", 6444, "Port to listen on; 0 takes a free one."),
                Flag("cert-dir", "string", ".kcp", "Where a certificate is made if none is given."),
                Flag("tls-cert-file", "string", "", "Certificate to show, with intermediates."),
                Flag("tls-private-key-file", "string", "", "Key of --tls-cert-file."),
            ],
        ),
        (
            "Authentication",
            [
                Flag("client-ca-file", "string", "", "CAs of the users' client certificates."),
                Flag("requestheader-client-ca-file", "string", "",
                     "CAs of the proxies whose word on the user counts."),
                Flag("requestheader-allowed-names", "strings", [],
                     "Common names of those proxies; all if empty."),
                Flag("requestheader-username-headers", "strings", ["X-Remote-User"],
                     "Headers that name the user."),
                Flag("requestheader-uid-headers", "strings", [], "Headers with the user's UID."),
                Flag("requestheader-group-headers", "strings", ["X-Remote-Group"],
                     "Headers that name the user's groups."),
                Flag("requestheader-extra-headers-prefix", "strings", ["X-Remote-Extra-"],
                     "How headers with more about the user begin."),
                _ignored("authentication-kubeconfig"),
                _ignored("authentication-skip-lookup", "bool", False),
                _ignored("authentication-token-webhook-cache-ttl", "duration", 10.0),
                _ignored("authentication-tolerate-lookup-failure", "bool", False),
            ],
        ),
        (
            "Logs",
            [
                Flag("v", "int", 2, "How much to log; 0 only warnings, 4 and more for debugging."),
                Flag("logging-format", "string", "text", "Form of the log: text or json."),
                _ignored("feature-gates", "map", {}),
                _ignored("profiler-address"),
            ],
        ),
    ],
    short={"v": "v"},
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("--help", "-h", "help"):
        print(USAGE, end="")
        return 0
    if words[0] in ("--version", "version"):
        from pykcp.server.documents.version import GIT_VERSION

        print(f"virtual-workspaces version {GIT_VERSION}")
        return 0
    if words[0] != "workspaces":
        print(f'Error: unknown command "{words[0]}" for "virtual-workspaces"', file=sys.stderr)
        return 1
    if any(word in ("--help", "-h") for word in words):
        print(USAGE + FLAGS.usage(), end="")
        return 0
    try:
        settings = _settings(words[1:])
    except FlagError as error:
        return refuse(str(error).splitlines())
    if settings.problems():
        return refuse(settings.problems())
    from pykcp.programs.virtual.process import run

    return run(settings)


def _settings(words: Sequence[str]) -> VirtualWorkspacesSettings:
    from pykcp.programs.virtual.settings import VirtualWorkspacesSettings

    values, rest = FLAGS.parse(words)
    if rest:
        raise FlagError(f'unknown command "{rest[0]}" for "virtual-workspaces workspaces"')
    return VirtualWorkspacesSettings(
        kubeconfig=values["kubeconfig"],
        context=values["context"],
        bind_address=values["bind-address"],
        secure_port=values["secure-port"],
        cert_dir=pathlib.Path(values["cert-dir"]),
        tls_cert_file=values["tls-cert-file"],
        tls_private_key_file=values["tls-private-key-file"],
        client_ca_file=values["client-ca-file"],
        requestheader_client_ca_file=values["requestheader-client-ca-file"],
        requestheader_allowed_names=tuple(values["requestheader-allowed-names"]),
        requestheader_username_headers=tuple(values["requestheader-username-headers"]),
        requestheader_uid_headers=tuple(values["requestheader-uid-headers"]),
        requestheader_group_headers=tuple(values["requestheader-group-headers"]),
        requestheader_extra_headers_prefix=tuple(values["requestheader-extra-headers-prefix"]),
        verbosity=values["v"],
        logging_format=values["logging-format"],
    )


if __name__ == "__main__":
    sys.exit(main())
