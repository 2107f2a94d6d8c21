"""`kcp cert check|renew|rotate-ca`."""

from __future__ import annotations

from datetime import UTC, datetime

from pykcp.cli.operate.words import Given, HostCommand
from pykcp.cli.server import unknown_command

_SUBCOMMANDS = ("check", "renew", "rotate-ca")


def _cert(given: Given) -> int:
    command, *names = given.words
    if command not in _SUBCOMMANDS:
        return unknown_command(command, "kcp cert", _SUBCOMMANDS)
    if command == "check":
        return _check(given, names)
    return _change(given, names, authorities=command == "rotate-ca")


def _check(given: Given, names: list[str]) -> int:
    from pykcp.programs.operator.host.certificates import host_certificates
    from pykcp.programs.operator.host.layout import HostFiles

    failed, files = 0, HostFiles(given.root)
    for one in host_certificates(files, datetime.now(UTC)):
        if names and one.name not in names:
            continue
        failed += bool(one.problem)
        state = f"PROBLEM: {one.problem}" if one.problem else "ok"
        kind = "authority" if one.is_authority else "leaf"
        print(f"{one.name:<46} {kind:<9} {one.ends:%Y-%m-%d}  {one.days:7.1f} days  {state}")
        print(f"    subject {one.subject or '-'}; issuer {one.issuer}")
        if one.hosts:
            print(f"    for {one.hosts}")
    return 1 if failed else 0


def _change(given: Given, names: list[str], *, authorities: bool) -> int:
    from pykcp.programs.operator.host.certificates import request_renewal
    from pykcp.programs.operator.host.control import NotRunning, ask
    from pykcp.programs.operator.host.layout import HostFiles

    try:
        (answer,) = ask(given.root, "renew", names=names, authorities=authorities)
        changed = answer["renewed"]
        if answer.get("imported") and not changed:
            print("nothing new: certificates of imported workloads are renewed on the host that")
            print("configures them (kcp cert renew there), and fetched from it every minute")
    except NotRunning:
        namespace = "default"
        changed = request_renewal(HostFiles(given.root), namespace, names, authorities=authorities)
        print("no supervisor is running: this takes effect with the next kcp up")
    for name in changed:
        print(f"{name} {'is rotated in three phases' if authorities else 'renewed'}")
    return 0


CERT = HostCommand(
    "Certificates of the installation.\n\n"
    "Usage:\n"
    "  kcp cert check [NAME…]       print and check every certificate with its chain\n"
    "  kcp cert renew [NAME…]       issue them anew; all that are not authorities if none is named\n"
    "  kcp cert rotate-ca [NAME…]   replace authorities in three phases: trust the new one, issue from it, drop the old one;\n"
    "                               all but self-signed ones if none is named: a new root restarts shards\n",
    _cert,
    least=1,
)
