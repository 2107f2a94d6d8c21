"""The reference pages: written from the code, so that they cannot lag behind it.

`python -m pykcp.cli.reference docs/reference` writes them, `--check` in front only
says which are out of date.
"""

from __future__ import annotations

import ast
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence

from pykcp.programs.kit.flags import (
    ACTIVE,
    IGNORED,
    PENDING,
    REFUSED,
    Flag,
    FlagSet,
    shown_default,
)

_HEAD = "<!-- Written by scripts/docs; change the code, not this page. -->\n\n"
_TYPES = {
    "string": "text", "int": "number", "bool": "switch", "duration": "duration", "strings": "list",
    "list": "text, repeatable", "map": "key=value,…", "pair": "key=value", "float": "number",
}  # fmt: skip


def flags_page() -> str:
    """Every flag of every server program, by section."""
    from pykcp.programs.cache.settings import CacheSettings
    from pykcp.programs.shard.settings import ShardSettings
    from pykcp.programs.virtual.settings import VirtualWorkspacesSettings

    lines = [
        "# Flags",
        "",
        "Flags of the server programs. Names, defaults and meanings are those of kcp; a flag may be written",
        "`--name value` or `--name=value`, lists are separated by commas or given by repeating the flag.",
    ]
    for settings in (ShardSettings, CacheSettings, VirtualWorkspacesSettings):
        lines += ["", f"## `{settings.COMMAND}`", *_flag_sections(settings.flag_set())]
    return _HEAD + "\n".join(lines) + "\n"


def _flag_sections(flags: FlagSet) -> Iterator[str]:
    for title, members in flags.sections:
        shown = [flag for flag in members if flag.effect in (ACTIVE, PENDING)]
        if shown:
            yield f"\n### {title}\n"
            yield "| flag | value | default | meaning |\n|---|---|---|---|"
            yield from map(_flag_row, shown)
    for effect, heading in (
        (IGNORED, "Accepted for compatibility; ignored. A warning is logged if one is given"),
        (REFUSED, "Not supported; the program does not start with one of these"),
    ):
        names = sorted(flag.name for flag in flags.flags if flag.effect == effect)
        if names:
            yield f"\n{heading}: {', '.join(f'`--{name}`' for name in names)}."


def _flag_row(flag: Flag) -> str:
    default = shown_default(flag)
    meaning = _cell(flag.help) + (" *Hidden.*" if flag.is_hidden else "")
    if flag.effect == PENDING and "Not in effect yet." not in meaning:
        meaning += " Not in effect yet."
    return f"| `--{flag.name}` | {_TYPES[flag.kind]} | {f'`{default}`' if default else ''} | {meaning} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def gates_page() -> str:
    """Every feature gate."""
    from pykcp.features import GATES

    rows = [
        f"| `{name}` | {gate.stage} | {'on' if gate.default else 'off'} | {_cell(gate.why)} |"
        for name, gate in sorted(GATES.items())
    ]
    text = "# Feature gates\n\nSwitched with `--feature-gates=Name=true,Other=false`.\n\n"
    table = "| gate | stage | default | what |\n|---|---|---|---|\n"
    return _HEAD + text + table + "\n".join(rows) + "\n"


def kinds_page() -> str:
    """Every built-in kind that a logical cluster serves without a definition of its own."""
    from pykcp.apis.catalog import builtin_definitions

    rows = []
    for definition in builtin_definitions():
        for version in definition.versions:
            scope = "namespace" if definition.namespaced else "logical cluster"
            verbs = "create only" if definition.ephemeral else ", ".join(sorted(definition.verbs))
            names = [s.name for s in definition.subresources_of(version)]
            api_version = definition.api_version(version)
            row = (definition.kind, f"`{api_version}`", f"`{definition.plural}`", scope, verbs)
            rows.append("| " + " | ".join((*row, ", ".join(names))) + " |")
    text = (
        "# Kinds\n\nServed in every logical cluster. Further kinds come from CustomResourceDefinitions.\n\n"
        "| kind | apiVersion | resource | scope | verbs | subresources |\n|---|---|---|---|---|---|\n"
    )
    return _HEAD + text + "\n".join(sorted(rows)) + "\n"


WHEN = {
    "AlreadyExists": "A create of a name that is taken.",
    "BadRequest": "A body, query or path that cannot be understood; the message says what is wrong with it.",
    "Conflict": "The object is not at the version, or not the one, that the request names; or server-side apply meets "
    "fields of others. Read it again and repeat.",
    "Expired": "A resource version or continue token that the server has forgotten: list again.",
    "Forbidden": "The user may not do this, or admission refuses it.",
    "Gone": "What was asked for is no longer available.",
    "InternalError": "A defect or a failure inside the server; its log says more.",
    "Invalid": "The object breaks rules of its kind; `details.causes` names each field.",
    "MethodNotAllowed": "The resource is there but does not know this verb.",
    "NotAcceptable": "None of the media types in `Accept` is served.",
    "NotFound": "No such object, resource or path.",
    "RequestEntityTooLarge": "A body of more than three MiB.",
    "ServiceUnavailable": "The store cannot be reached or is full; try again after `Retry-After`.",
    "Timeout": "A resource version that this server has not reached yet; clients try again.",
    "TooManyRequests": "More requests than the server takes at once; try again after `Retry-After`.",
    "Unauthorized": "Credentials that nobody recognises.",
    "UnsupportedMediaType": "A body in a form that the resource does not take.",
}
"""When each reason is given; a test asks for every one there is."""


def errors_page() -> str:
    """Every reason that a Status may carry."""
    rows = []
    for code, reason in sorted(reasons()):
        rows.append(f"| {code} | `{reason}` | {WHEN[reason]} |")
    text = (
        "# Errors\n\nA refusal is a `Status` object: `code` is the HTTP code, `reason` a word for programs, `message` a "
        "sentence for people in kube-apiserver's words, `details` names the object and, for `Invalid`, each field.\n\n"
        "Three mistakes are answered with 500 and no reason, as kube-apiserver does: a create that names a resource version, "
        "a resource version that is not a number in a GET, PUT or PATCH, and a server-side apply of fields that the schema "
        "does not know.\n\n"
        "| code | reason | when |\n|---|---|---|\n"
    )
    return _HEAD + text + "\n".join(rows) + "\n"


def reasons() -> set[tuple[int, str]]:
    from pykcp.machinery.status import StatusError

    return {(kind.code, kind.reason) for kind in StatusError.__subclasses__()}


_METRICS = {
    "Counter": "counter",
    "Gauge": "gauge",
    "LabelledGauge": "gauge",
    "Histogram": "histogram",
}


def metrics_page() -> str:
    """Every metric that the code names."""
    rows = [
        f"| `{name}` | {kind} | {_cell(text)} |"
        for name, (kind, text) in sorted({**metrics_in_source(), **metrics_served()}.items())
    ]
    text = (
        "# Metrics\n\n`GET /metrics` in Prometheus' text form, for those who may read it. Names that kube-apiserver has mean "
        "the same here. No label grows with logical clusters, namespaces or objects.\n\n"
        "| metric | type | what |\n|---|---|---|\n"
    )
    return _HEAD + text + "\n".join(rows) + "\n"


def metrics_in_source() -> dict[str, tuple[str, str]]:
    """Metrics whose names are written out: type and help by name."""
    import pykcp

    found: dict[str, tuple[str, str]] = {}
    for file in pathlib.Path(pykcp.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                texts = [a.value for a in node.args[:2] if isinstance(a, ast.Constant)]
                if node.func.id in _METRICS and len(texts) == 2:
                    found[str(texts[0])] = (_METRICS[node.func.id], str(texts[1]))
    return found


def metrics_served() -> dict[str, tuple[str, str]]:
    """Metrics that a server with default settings shows."""
    from pykcp.testing.server import server

    with server() as process:
        lines = process.client().get("/metrics").body.decode().splitlines()
    helps = dict(line.split(" ", 3)[2:] for line in lines if line.startswith("# HELP "))
    types = dict(line.split(" ", 3)[2:] for line in lines if line.startswith("# TYPE "))
    return {name: (types[name], text) for name, text in helps.items()}


PAGES: dict[str, Callable[[], str]] = {
    "flags.md": flags_page,
    "metrics.md": metrics_page,
    "kinds.md": kinds_page,
    "gates.md": gates_page,
    "errors.md": errors_page,
}


def main(words: Sequence[str]) -> int:
    is_check = "--check" in words
    (directory,) = [pathlib.Path(word) for word in words if word != "--check"]
    stale = 0
    for name, page in PAGES.items():
        path, text = directory / name, page()
        if path.exists() and path.read_text() == text:
            continue
        stale += 1
        print(f"{path} is out of date" if is_check else f"wrote {path}")
        if not is_check:
            path.write_text(text)
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
