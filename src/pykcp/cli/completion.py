"""`completion`: scripts that let shells complete commands and flags, made from the flags table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pykcp.cli.server import HELP, refuse

if TYPE_CHECKING:
    from pykcp.programs.kit.flags import Flag

SHELLS = ("bash", "zsh", "fish")


def main(program: str, words: Sequence[str]) -> int:
    if not words or words[0] in HELP:
        print(f"Print a completion script.\n\nUsage:\n  {program} completion bash|zsh|fish")
        print(f"\nFor this shell only:\n  source <({program} completion bash)")
        return 0
    if words[0] not in SHELLS or len(words) > 1:
        return refuse([f"unknown shell {words[0]!r}: {', '.join(SHELLS)} are supported"])
    commands, flags = _words(program)
    make = {"bash": _bash, "zsh": _zsh, "fish": _fish}[words[0]]
    print(make(program, commands, flags), end="")
    return 0


def _words(program: str) -> tuple[dict[str, str], list[Flag]]:
    """Commands, each with what follows it, and the flags of the server command."""
    from pykcp.programs.cache.settings import CacheSettings
    from pykcp.programs.front_proxy.settings import FrontProxySettings
    from pykcp.programs.kit.settings import ProgramSettings
    from pykcp.programs.shard.settings import ShardSettings
    from pykcp.programs.virtual.settings import VirtualWorkspacesSettings

    settings: type[ProgramSettings] = {
        "kcp": ShardSettings,
        "cache-server": CacheSettings,
        "kcp-front-proxy": FrontProxySettings,
        "virtual-workspaces": VirtualWorkspacesSettings,
    }[program]
    commands = {"completion": " ".join(SHELLS), "version": "-o"}
    if program == "kcp":
        commands |= {"start": "options", "admin": "fsck"}
    return commands, [flag for flag in settings.flag_set().flags if not flag.is_hidden]


def _function(program: str) -> str:
    return "_" + program.replace("-", "_")


def _bash(program: str, commands: dict[str, str], flags: list[Flag]) -> str:
    name, all_flags = _function(program), " ".join(f"--{flag.name}" for flag in flags)
    cases = "\n".join(f'    {c}) words="{rest}" ;;' for c, rest in commands.items() if c != "start")
    server = f'    start) words="options {all_flags}" ;;' if "start" in commands else ""
    first = " ".join(commands) + ("" if server else f" {all_flags}")
    return f"""# bash completion of {program}
{name}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} words
  if [ "$COMP_CWORD" = 1 ]; then words="{first}"; else case ${{COMP_WORDS[1]}} in
{cases}
{server}
    *) words="{"" if server else all_flags}" ;;
  esac; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F {name} {program}
"""


def _zsh(program: str, commands: dict[str, str], flags: list[Flag]) -> str:
    script = _bash(program, commands, flags)
    return f"#compdef {program}\nautoload -U +X bashcompinit && bashcompinit\n{script}"


def _fish(program: str, commands: dict[str, str], flags: list[Flag]) -> str:
    lines = [f"# fish completion of {program}", f"complete -c {program} -f"]
    for command, rest in commands.items():
        lines.append(f"complete -c {program} -n __fish_use_subcommand -a {command}")
        if rest:
            seen = f"'__fish_seen_subcommand_from {command}'"
            lines.append(f"complete -c {program} -n {seen} -a '{rest}'")
    condition = "-n '__fish_seen_subcommand_from start' " if "start" in commands else ""
    for flag in flags:
        quoted = flag.help.replace("\\", "\\\\").replace("'", "\\'")
        needs = "" if flag.kind == "bool" else " -r"
        lines.append(f"complete -c {program} {condition}-l {flag.name}{needs} -d '{quoted}'")
    return "\n".join(lines) + "\n"
