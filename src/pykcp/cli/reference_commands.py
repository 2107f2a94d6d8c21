"""The part of the page of flags about commands that are no servers: `kcp status`, plug-ins, apigen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pykcp.programs.kit.flags import Flag, shown_default

if TYPE_CHECKING:
    from pykcp.cli.plugins.shell.command import Command
    from pykcp.cli.plugins.shell.flags import PluginFlag

TYPES = {
    "string": "text", "int": "number", "bool": "switch", "duration": "duration", "strings": "list",
    "list": "text, repeatable", "map": "key=value,…", "pair": "key=value", "float": "number",
}  # fmt: skip
_HEAD = "\n| flag | value | default | meaning |\n|---|---|---|---|"


def command_sections() -> Iterator[str]:
    """Lines of the page: a section for each program."""
    yield from _host_commands()
    yield from _admin()
    yield from _envtest()
    yield from _plugins()
    yield from _apigen()


def flag_row(
    name: str, kind: str, default: str, meaning: str, short: str = "", note: str = ""
) -> str:
    """A row of a table of flags."""
    shown = f"`--{name}`" + (f", `-{short}`" if short else "")
    return (
        f"| {shown} | {TYPES[kind]} | {f'`{default}`' if default else ''} | {cell(meaning)}{note} |"
    )


def cell(text: str) -> str:
    if "`" not in text:
        text = text.replace("<", "&lt;")
    return text.replace("|", "\\|").replace("\n", " ")


def _host_commands() -> Iterator[str]:
    from pykcp.cli.operate.all import COMMANDS, host_command
    from pykcp.cli.operate.words import ROOT

    yield "\n## Commands of `kcp up`\n"
    yield "[The guide](../operate/up.md#commands) shows their use. All of them have this flag:"
    yield _HEAD
    yield _program_flag(ROOT)
    for name in COMMANDS:
        command = host_command(name)
        summary, *rest = command.usage.split("\n\n")
        yield f"\n### `kcp {name}`\n"
        yield summary.replace("\n", " ") + "\n"
        usage = next(part for part in rest if part.startswith("Usage:"))
        yield from map(_usage, usage.splitlines()[1:])
        if command.flags:
            short = {long: letter for letter, long in command.short.items()}
            yield _HEAD
            for flag in command.flags:
                yield _program_flag(flag, short.get(flag.name, ""))


def _usage(line: str) -> str:
    """`  kcp cert check [NAME…]   what it does`; the second part goes on in a further line."""
    command, _, meaning = line.strip().partition("   ")
    if not command.startswith("kcp "):
        return f"  {line.strip()}"
    return f"- `{command}`" + (f": {meaning.strip()}" if meaning else "")


def _program_flag(flag: Flag, short: str = "") -> str:
    return flag_row(flag.name, flag.kind, shown_default(flag), flag.help, short)


def _admin() -> Iterator[str]:
    yield "\n## `kcp admin fsck`\n"
    yield (
        "Checks the store of a stopped server, or of a running one. It takes the flags of [`kcp start`](#kcp-start); "
        "those of the root directory, the store and encryption matter. The exit code is 1 if the store is not "
        "consistent, and 2 if it could not be checked."
    )


def _envtest() -> Iterator[str]:
    from pykcp.cli.envtest import PASSED

    yield "\n## `kcp envtest DIR`\n"
    yield (
        "It has no flags. The program `kube-apiserver` that it writes obeys these flags of kube-apiserver, and ignores "
        "all others; `--cert-dir` is the root directory of the server. The program `etcd` reads "
        "`--listen-client-urls` only, to answer health checks there."
    )
    yield "\n" + ", ".join(f"`--{name}`" for name in sorted(PASSED)) + "."


def _plugins() -> Iterator[str]:
    from pykcp.cli.plugins.programs import roots
    from pykcp.cli.plugins.session import CONNECTION_FLAGS, LOG_FLAGS, WORKSPACE_FLAG

    shared = (*CONNECTION_FLAGS, *LOG_FLAGS, WORKSPACE_FLAG)
    names = {flag.name for flag in shared}
    yield "\n## kubectl plug-ins\n"
    yield (
        "Flags of all commands that connect to a server ([plug-ins](plugins.md)); `kubectl ws` itself and its "
        "subcommands that switch have no `--workspace`. `kubectl kcp workspace` is `kubectl ws`."
    )
    yield _HEAD
    yield from _plugin_rows(shared)
    for called, root in roots().items():
        for command in _all(root):
            own = [flag for flag in _own(command) if flag.name not in names and not flag.is_hidden]
            if command.run is None or command.deprecated or not own:
                continue
            words = " ".join((called, *command.path.split()[len(root.path.split()) :]))
            yield f"\n### `{words} {command.usage}".rstrip() + "`\n"
            yield cell(command.short)
            yield _HEAD
            yield from _plugin_rows(own)


def _own(command: Command) -> Iterator[PluginFlag]:
    """Its flags and those that it inherits; the help is left out."""
    yield from command.flags
    yield from command.inherited
    for parent in command.parents:
        yield from parent.inherited


def _all(command: Command) -> Iterator[Command]:
    yield command
    for child in command.children:
        if child.name == "workspace":
            continue  # of `kubectl kcp`
        yield from _all(child._replace(parents=(*command.parents, command)))


def _plugin_rows(flags: Iterable[PluginFlag]) -> Iterator[str]:
    shown = {flag.name: flag for flag in flags if not flag.is_hidden}
    for _, flag in sorted(shown.items()):
        yield flag_row(flag.name, flag.kind, _default(flag), flag.help, flag.short)


def _default(flag: PluginFlag) -> str:
    if flag.default in (None, "", False, 0, [], ()):
        return ""
    return f"{flag.default:g}s" if flag.kind == "duration" else str(flag.default).lower()


def _apigen() -> Iterator[str]:
    from pykcp.cli.apigen import FLAGS

    yield "\n## `apigen`\n"
    yield "Turns CRDs into APIResourceSchemas and APIExports ([description](plugins.md#apigen))."
    yield _HEAD
    yield from _plugin_rows(FLAGS)
