"""Every flag that is parsed is read where it takes effect, or is listed as having none."""

from __future__ import annotations

import ast
import functools
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

import pykcp
from pykcp.auth.settings import SignInSettings
from pykcp.programs.backup.settings import BackupSettings, RestoreSettings
from pykcp.programs.cache.settings import CacheSettings
from pykcp.programs.cluster_controller.settings import ClusterControllerSettings
from pykcp.programs.front_proxy.settings import FrontProxySettings
from pykcp.programs.importing.settings import ImportSettings
from pykcp.programs.kit.flags import ACTIVE, IGNORED, IGNORED_HELP, PENDING
from pykcp.programs.kit.options import MappedGroup, OptionGroup, option
from pykcp.programs.kit.settings import ProgramSettings
from pykcp.programs.shard.settings import ShardSettings
from pykcp.programs.sharded.settings import ShardedSettings
from pykcp.programs.virtual.settings import VirtualWorkspacesSettings
from pykcp.server.filters.flow_control import FlowSettings
from pykcp.wire.settings import TLSSettings

PROGRAMS: tuple[type[ProgramSettings], ...] = (
    ShardSettings,
    ShardedSettings,
    CacheSettings,
    FrontProxySettings,
    VirtualWorkspacesSettings,
    BackupSettings,
    RestoreSettings,
    ClusterControllerSettings,
    ImportSettings,
)
CHECKED = {
    "experimental_bind_free_port": "allows --secure-port=0, which takes a free port by itself",
    "is_any_oidc_given": "excludes --authentication-config",
}
"""Fields that take effect by what they allow: only checks read them."""
SOURCE = pathlib.Path(pykcp.__path__[0])


class _Reads(ast.NodeVisitor):
    """The attributes that a module reads, but for those that are only checked or passed on."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name != "problems":
            self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            self.found.add(node.attr)
        self.generic_visit(node)


@functools.cache
def reads(package: str) -> set[str]:
    visitor = _Reads()
    for file in SOURCE.joinpath(*package.split(".")).rglob("*.py"):
        visitor.visit(ast.parse(file.read_text()))
    return visitor.found


def package_of(value: Any) -> str:
    """The package below pykcp that defines, and so uses, a settings value."""
    return ".".join(type(value).__module__.split(".")[1:-1])


def unread(settings: type[ProgramSettings]) -> Iterator[str]:
    for name, group in settings()._groups():
        if name not in reads("programs"):
            yield f"group {name}"
        effects = {flag.name: flag.effect for flag in group.flags()}
        for field, each in group.OPTIONS.items():
            is_read = field in reads("programs") or field in CHECKED
            if effects[each.flag] == ACTIVE and not is_read:
                yield f"--{each.flag}"
        if isinstance(group, MappedGroup):
            yield from _unread_mapped(group, effects)


def _unread_mapped(group: MappedGroup, effects: dict[str, str]) -> Iterator[str]:
    for entry in group.TABLE:
        *path, last = entry.path.split(".")
        owner: Any = group
        for name in path:
            owner = getattr(owner, name)
        if effects[entry.flag] == ACTIVE and last not in reads(package_of(owner)):
            yield f"--{entry.flag}"


@pytest.mark.parametrize("settings", PROGRAMS, ids=lambda s: s.COMMAND)
def test_every_flag_is_read_or_listed(settings: type[ProgramSettings]) -> None:
    """A flag is active, and then the program reads it; or it is ignored, pending or refused."""
    assert list(unread(settings)) == []


@pytest.mark.parametrize(
    ("value", "package"),
    [(TLSSettings, "wire"), (SignInSettings, "auth"), (FlowSettings, "server")],
)
def test_what_groups_build_is_read(value: Any, package: str) -> None:
    """The values that groups hand to other packages are read there, field by field."""
    fields = set(value.__dataclass_fields__) - set(CHECKED)
    assert fields - reads(package) == set()


def test_a_flag_that_is_not_read_is_found() -> None:
    """The proof can fail."""

    class ForgottenOptions(OptionGroup):
        TITLE = "Forgotten"
        colour_of_the_logo: str = option("The colour of the logo.", "red")

    class ForgottenSettings(ProgramSettings):
        COMMAND = "forgotten"
        generic: ForgottenOptions = ForgottenOptions()

    assert list(unread(ForgottenSettings)) == ["--colour-of-the-logo"]


@pytest.mark.parametrize("settings", PROGRAMS, ids=lambda s: s.COMMAND)
def test_every_flag_reaches_the_settings(settings: type[ProgramSettings]) -> None:
    """A flag that is not ignored or refused changes the settings, or is rejected with a reason."""
    samples: dict[str, str] = {
        "int": "7", "bool": "true", "duration": "7s", "strings": "seven", "map": "WatchList=false", "string": "seven",
        "pair": "seven=7", "float": "0.7", "list": "seven",
    }  # fmt: skip
    without_effect = []
    for flag in settings.flag_set().flags:
        if flag.effect in (ACTIVE, PENDING) and flag.name != "config":
            text = "false" if flag.default is True else samples[flag.kind]
            changed, warnings = settings.parse([f"--{flag.name}={text}"])
            if changed == settings() or bool(warnings) != (flag.effect == PENDING):
                without_effect.append(flag.name)
    assert without_effect == []


@pytest.mark.parametrize("settings", PROGRAMS, ids=lambda s: s.COMMAND)
def test_no_flag_is_there_twice(settings: type[ProgramSettings]) -> None:
    """Each name once, each with a sentence; those that are ignored say so, and warn."""
    flags = settings.flag_set()
    names = [flag.name for _, section in flags.sections for flag in section]
    assert len(names) == len(set(names))
    assert all(flag.help.endswith(".") for flag in flags.flags)
    for flag in flags.flags:
        assert (flag.effect == IGNORED) == (flag.help == IGNORED_HELP)
        if flag.effect == IGNORED:
            word = f"--{flag.name}={'true' if flag.kind == 'bool' else '7s' if flag.kind == 'duration' else '7'}"
            _, warnings = settings.parse([word if flag.kind != "map" else f"--{flag.name}=a=b"])
            assert warnings == [f"--{flag.name} is accepted for compatibility and ignored"]
