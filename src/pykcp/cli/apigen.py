"""The program `apigen`: generates APIResourceSchemas and APIExports from a directory of CRDs.

A schema that has not changed keeps the name it had; one that has gets a new one, made of the date
and the commit that is checked out. What is no longer made is removed.
"""

from __future__ import annotations

import datetime as dt
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pykcp.cli.output import ends_quietly
from pykcp.cli.plugins.apis.crd_schema import convert
from pykcp.cli.plugins.apis.crd_types import SCHEMA, BadField, DocumentPath
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import quote
from pykcp.cli.plugins.go_yaml import dump
from pykcp.cli.plugins.shell.flags import Parser, PluginFlag, defaults
from pykcp.cli.plugins.shell.help import flag_lines
from pykcp.server.media.yaml_text import BadYAML, parse

Object = dict[str, Any]
SCHEMA_FILE = "apiresourceschema-"
EXPORT_FILE = "apiexport-"
_SKIPPED = ("apis.kcp.io", "rbac.authorization.k8s.io", "admissionregistration.k8s.io")
_CORE = "core.kcp.io"
FLAGS = (
    PluginFlag(
        "input-dir", "string", "The folder with CRDs, each in a file <group>_<resource>.yaml.", ""
    ),
    PluginFlag("output-dir", "string", "The folder for APIResourceSchemas and APIExports.", ""),
    PluginFlag(
        "ignore-export-schemas", "list", "Kinds that no export names, each as resource.group."
    ),
    PluginFlag(
        "preserve-resources", "bool", "Keep what existing APIExports name beyond the CRDs.", False
    ),
    PluginFlag("header-file", "string", "A file whose text begins each file that is written.", ""),
)


class GeneratedKind(NamedTuple):
    resource: str
    group: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


Schemas = dict[GeneratedKind, Object]


@dataclass(frozen=True)
class Options:
    source: pathlib.Path
    target: pathlib.Path
    ignored: frozenset[GeneratedKind]
    preserves: bool
    header: str


class Failure(Exception):
    """A step that failed; its cause says why."""

    def __init__(self, step: str, cause: object) -> None:
        super().__init__(str(cause))
        self.step = step


@ends_quietly
def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if "--help" in words or "-h" in words:
        print(
            f"Generate APIResourceSchemas and APIExports from CRDs.\n\nFlags:\n{flag_lines(FLAGS)}"
        )
        return 0
    try:
        generate(read_options(words), revision())
    except Failure as failure:
        _tell(failure.step, "error", error=str(failure))
        return 1
    return 0


def read_options(words: Sequence[str]) -> Options:
    parser = Parser(FLAGS, defaults(FLAGS))
    try:
        parser.read(words)
    except PluginError as error:
        raise Failure("Could not parse options.", error) from None
    try:
        return _options(parser.values)
    except PluginError as error:
        raise Failure("Invalid options.", error) from None


def _options(values: Object) -> Options:
    for name in ("input-dir", "output-dir"):
        if not values[name]:
            raise PluginError(f"--{name} is required")
    header = ""
    if values["header-file"]:
        try:
            header = pathlib.Path(values["header-file"]).read_text(encoding="utf-8")
        except OSError as error:
            raise PluginError(f"could not read header file: {error}") from None
        header = header.replace("YEAR", str(_now().year)).removesuffix("\n") + "\n\n"
    return Options(
        pathlib.Path(values["input-dir"]),
        pathlib.Path(values["output-dir"]),
        frozenset(_kind(text) for text in values["ignore-export-schemas"]),
        values["preserve-resources"],
        header,
    )


def _kind(text: str) -> GeneratedKind:
    resource, dot, group = text.partition(".")
    if not dot:
        raise PluginError(
            f"invalid schema {quote(text)}: must have at least 2 dot-separated segments"
        )
    return GeneratedKind(resource, "" if group == "core" else group.removesuffix("/"))


def revision() -> str:
    """The commit that is checked out, shortened."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
    except subprocess.CalledProcessError as error:
        raise Failure("Could not get git revision", PluginError(error.stderr.strip())) from None
    except OSError as error:
        raise Failure("Could not get git revision", error) from None
    return done.stdout.strip()


def generate(options: Options, commit: str) -> None:
    prefix = f"v{_now():%y%m%d}-{commit}"
    current = _step("Could not load CustomResourceDefinitions.", _load_crds, options.source, prefix)
    options.target.mkdir(parents=True, exist_ok=True)
    previous = _step("Could not load previous APIResourceSchemas.", _load_schemas, options.target)
    schemas = latest(previous, current)
    for kind in schemas:
        if schemas[kind] is not current[kind]:
            _tell(f"Using previous APIResourceSchema for {kind}, as no changes were detected.")
    made = _step("Could not generate APIExports.", _make_exports, schemas, options)
    _step("Could not write manifests.", _write, schemas, made, options)


def _step(words: str, act: Any, *arguments: Any) -> Any:
    try:
        return act(*arguments)
    except (PluginError, BadField, BadYAML, OSError) as error:
        raise Failure(words, error) from error


def _load_crds(folder: pathlib.Path, prefix: str) -> Schemas:
    _tell(f"Loading CustomResourceDefinitions from {folder}")
    found: Schemas = {}
    for file in _files(folder, ""):
        parts = file.stem.split("_")
        if len(parts) != 2:
            raise PluginError(f"could not parse filename {file.name} as group_resource.yaml")
        kind = GeneratedKind(parts[1], parts[0])
        if kind.group in _SKIPPED:
            _tell(f"Skipping CustomResourceDefinition {kind} from {file}")
            continue
        crd = _read(file, "apiextensions.k8s.io/v1", "CustomResourceDefinition")
        found[kind] = convert(crd, prefix, fills_in=False)
        _tell(f"Loaded CustomResourceDefinition for {kind} from {file}")
    _tell(f"Loaded {len(found)} CustomResourceDefinitions")
    return found


def _load_schemas(folder: pathlib.Path) -> Schemas:
    _tell(f"Loading APIResourceSchemas from {folder}")
    found: Schemas = {}
    for file in _files(folder, SCHEMA_FILE):
        resource, dot, group = file.stem.removeprefix(SCHEMA_FILE).partition(".")
        if not dot:
            raise PluginError(
                f"could not parse filename {file.name} as {SCHEMA_FILE}resource.group.yaml"
            )
        kind = GeneratedKind(resource, group)
        found[kind] = _read(file, "apis.kcp.io/v1alpha1", "APIResourceSchema")
        _tell(f"Loaded APIResourceSchema for {kind} from {file}")
    _tell(f"Loaded {len(found)} APIResourceSchemas")
    return found


def _files(folder: pathlib.Path, prefix: str) -> Iterator[pathlib.Path]:
    if not folder.is_dir():
        raise PluginError(f"lstat {folder}: no such file or directory")
    yield from sorted(file for file in folder.rglob(f"{prefix}*.yaml") if file.is_file())


def _read(file: pathlib.Path, version: str, kind: str) -> Object:
    try:
        content = parse(file.read_bytes())
    except BadYAML as error:
        raise PluginError(f"failed to read {file.name}: {error}") from None
    if not isinstance(content, dict) or (content.get("apiVersion"), content.get("kind")) != (
        version,
        kind,
    ):
        raise PluginError(f"failed to read {file.name}: it holds no {kind} of {version}")
    found: Object = content
    return found


def latest(previous: Schemas, current: Schemas) -> Schemas:
    """The new schemas, with unchanged ones replaced by the existing ones."""
    return {
        kind: previous[kind]
        if kind in previous and _comparable(previous[kind]) == _comparable(schema)
        else schema
        for kind, schema in current.items()
    }


def _comparable(schema: Object) -> Object:
    """A schema's spec without insignificant differences."""
    spec = {name: value for name, value in schema["spec"].items() if value not in (None, [], {})}
    spec["versions"] = [
        {
            **{name: value for name, value in version.items() if value not in (None, [], {})},
            "schema": SCHEMA(version.get("schema") or {}, DocumentPath("", "")),
        }
        for version in spec.get("versions") or []
    ]
    return spec


def exports(
    schemas: Schemas,
    existing: dict[str, Object],
    ignored: Iterable[GeneratedKind],
    *,
    preserves: bool,
) -> dict[str, Object]:
    """The APIExports by name: one per group, and one for shards alone."""
    named: dict[str, list[GeneratedKind]] = {}
    for kind in sorted(schemas):
        if kind == GeneratedKind("logicalclusters", _CORE) or kind in set(ignored):
            continue
        name = f"shards.{_CORE}" if kind == GeneratedKind("shards", _CORE) else kind.group
        named.setdefault(name, []).append(kind)
    return {
        name: _export(
            name, {kind: schemas[kind] for kind in kinds}, existing.get(name), preserves=preserves
        )
        for name, kinds in named.items()
    }


def _export(name: str, schemas: Schemas, before: Object | None, *, preserves: bool) -> Object:
    before = before or {}
    spec: Object = dict(before.get("spec") or {})
    kept = list(spec.get("resources") or []) if preserves else []
    resources = {(one.get("group") or "", one["name"]): dict(one) for one in kept}
    for kind, schema in schemas.items():
        entry = resources.setdefault(
            (kind.group, kind.resource),
            {"group": kind.group, "name": kind.resource, "storage": {"crd": {}}},
        )
        entry["schema"] = schema["metadata"]["name"]
    spec["resources"] = list(resources.values())
    if spec.get("permissionClaims"):
        spec["permissionClaims"] = [
            {field: value for field, value in claim.items() if value != ""}
            for claim in spec["permissionClaims"]
        ]
    return {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIExport",
        "metadata": {**(before.get("metadata") or {}), "name": name},
        "spec": spec,
        "status": before.get("status") or {},
    }


def _make_exports(schemas: Schemas, options: Options) -> dict[str, Object]:
    existing = {
        file.stem.removeprefix(EXPORT_FILE): parse(file.read_bytes())
        for file in options.target.glob(f"{EXPORT_FILE}*.yaml")
    }
    return exports(schemas, existing, options.ignored, preserves=options.preserves)


def _write(schemas: Schemas, made: dict[str, Object], options: Options) -> None:
    folder = options.target
    _tell(f"Writing {len(made) + len(schemas)} manifests to {folder}")
    written = set()
    manifests = [(EXPORT_FILE, "APIExport", name, export) for name, export in made.items()]
    manifests += [
        (SCHEMA_FILE, "APIResourceSchema", str(kind), schema) for kind, schema in schemas.items()
    ]
    for prefix, word, name, manifest in manifests:
        file = folder / f"{prefix}{name}.yaml"
        file.write_text(options.header + dump(manifest), encoding="utf-8")
        written.add(file)
        _tell(f"Wrote {word} {name} to {file}")
    _tell("Pruning output directory.")
    for prefix, word in ((EXPORT_FILE, "APIExport"), (SCHEMA_FILE, "APIResourceSchema")):
        for file in _files(folder, prefix):
            if file not in written:
                _tell(f"Pruning {word} {file}")
                file.unlink()


def _now() -> dt.datetime:
    return dt.datetime.now().astimezone()


def _tell(message: str, level: str = "info", **more: str) -> None:
    time = _now().isoformat(timespec="seconds").replace("+00:00", "Z")
    fields = "".join(f" {name}={quote(value)}" for name, value in more.items())
    print(
        f"time={quote(time)} level={level} msg={quote(message)}{fields} logger=apigen",
        file=sys.stderr,
    )


if __name__ == "__main__":
    sys.exit(main())
