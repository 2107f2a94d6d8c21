"""What a supervisor must know of its processes when it was killed: one small file for each."""

from __future__ import annotations

import json
import logging
import pathlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from pykcp.auth.files import write_private
from pykcp.programs.operator.drivers.process.identity import ProcessIdentity

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReplicaRecord:
    """A process of a workload."""

    workload: str
    number: int
    revision: str
    """Of what it was started from (`CompiledWorkload.restart_revision`)."""
    identity: ProcessIdentity
    host: str
    port: int
    """Where it answers probes."""
    since: float
    """Wall-clock time of its start."""
    restarts: int = 0

    @property
    def name(self) -> str:
        return f"{self.workload}-{self.number}"


class ReplicaRecords:
    """The files, in one directory for each workload."""

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory

    def save(self, record: ReplicaRecord) -> None:
        """Raises CredentialError if it cannot be written."""
        text = json.dumps(asdict(record), indent=1).encode() + b"\n"
        write_private(self._path(record.workload, record.number, record.revision), text)

    def remove(self, record: ReplicaRecord) -> None:
        self._path(record.workload, record.number, record.revision).unlink(missing_ok=True)

    def __iter__(self) -> Iterator[ReplicaRecord]:
        for path in sorted(self._directory.glob("*/*.json")):
            record = _loaded(path)
            if record is not None:
                yield record

    def _path(self, workload: str, number: int, revision: str) -> pathlib.Path:
        return self._directory / workload / f"{number}-{revision}.json"


def _loaded(path: pathlib.Path) -> ReplicaRecord | None:
    try:
        found = json.loads(path.read_bytes())
        found["identity"] = ProcessIdentity(**found["identity"])
        return ReplicaRecord(**found)
    except (OSError, ValueError, TypeError, KeyError):
        # Written in one piece, so this is a file that something else has put there.
        _log.warning("%s is not a record of a process and is ignored", path)
        return None
