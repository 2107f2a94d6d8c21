"""Files, logs, ports and records of processes."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pykcp.clients.credential_files import CredentialError
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.compiled import CompiledFile
from pykcp.programs.operator.drivers.process.identity import (
    ProcessIdentity,
    environment,
    identify,
    marked_processes,
)
from pykcp.programs.operator.drivers.process.logfiles import last_lines, open_log, rotate
from pykcp.programs.operator.drivers.process.materialize import materialize, remove_files
from pykcp.programs.operator.drivers.process.ports import PortClaims
from pykcp.programs.operator.drivers.process.records import ReplicaRecord, ReplicaRecords
from pykcp.programs.operator.host.layout import SavedPorts, first_free


def _files(directory: pathlib.Path, text: bytes) -> list[CompiledFile]:
    return [
        CompiledFile(str(directory / "tls.crt"), b"certificate " + text),
        CompiledFile(str(directory / "tls.key"), b"key " + text),
    ]


def test_files_of_a_directory_change_together(tmp_path: pathlib.Path) -> None:
    where = tmp_path / "tls"
    assert materialize(_files(where, b"1")) == [str(where)]
    opened = os.open(where / "..data", os.O_RDONLY)  # a program that has begun to read
    assert materialize(_files(where, b"2")) == [str(where)]
    assert (where / "tls.crt").read_bytes() == b"certificate 2"
    assert (where / "tls.key").read_bytes() == b"key 2"
    assert (where / "tls.key").stat().st_mode & 0o777 == 0o600
    assert os.listdir(opened) == []  # noqa: PTH208  # the old directory is removed as a whole
    os.close(opened)
    assert materialize(_files(where, b"2")) == []
    assert len([one for one in where.iterdir() if one.name.startswith("..")]) == 2


def test_a_file_that_is_not_wanted_any_more_is_removed(tmp_path: pathlib.Path) -> None:
    materialize(_files(tmp_path, b"1"))
    materialize(_files(tmp_path, b"1")[:1])
    assert not (tmp_path / "tls.key").exists()
    assert (tmp_path / "tls.crt").read_bytes() == b"certificate 1"


def test_files_of_a_workload_are_removed_with_it(tmp_path: pathlib.Path) -> None:
    files = _files(tmp_path / "a" / "tls", b"1")
    (tmp_path / "data").mkdir()
    materialize(files)
    remove_files(files)
    assert [one.name for one in tmp_path.iterdir()] == ["data"]
    remove_files(files)


def test_a_removed_file_is_written_again(tmp_path: pathlib.Path) -> None:
    materialize(_files(tmp_path, b"1"))
    (tmp_path / "tls.key").unlink()
    assert materialize(_files(tmp_path, b"1")) == [str(tmp_path)]
    assert (tmp_path / "tls.key").read_bytes() == b"key 1"


def test_what_cannot_be_written_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tls").write_text("a file")
    with pytest.raises(CredentialError, match=r"cannot make .*/tls: File exists"):
        materialize(_files(tmp_path / "tls", b"1"))


def test_a_log_is_rotated_and_its_writer_goes_on(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "one.log"
    out = open_log(path)
    for number in range(4):
        os.write(out, f"{number}\n".encode() * 10)
        assert rotate(path, limit=15, kept=2)
    os.write(out, b'{"level": "info", "msg": "hello"}\nplain\n')
    os.close(out)
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "one.log.1").read_text() == "3\n" * 10
    assert (tmp_path / "one.log.2").read_text() == "2\n" * 10
    assert not (tmp_path / "one.log.3").exists()
    assert last_lines(path, 5) == ["info: hello", "plain"]
    assert not rotate(path, limit=100)


def test_last_lines_begin_where_the_last_run_began(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "one.log"
    path.write_text("before\nafter\n" + "x" * 1000 + "\n")
    assert last_lines(path, 5, start=7) == ["after", "x" * 300 + "…"]
    assert last_lines(path, 1, start=5000) == ["x" * 300 + "…"]  # it was rotated meanwhile
    assert last_lines(tmp_path / "absent", 5) == []


def test_ports_are_kept_and_those_of_other_programs_left_out(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ports.json"
    ports, claims = SavedPorts(path), PortClaims()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        first = other.getsockname()[1]
        ports["one"] = first_free("127.0.0.1", first, set(ports.values()), claims)
        assert ports["one"] > first
        ports["two"] = first_free("127.0.0.1", first, set(ports.values()), claims)
        assert ports["two"] > ports["one"]
    assert dict(SavedPorts(path)) == dict(ports)
    with pytest.raises(SettingsError, match="no port from 65535 on is free"):
        first_free("127.0.0.1", 65535, {65535}, claims)


@pytest.mark.skipif(sys.platform != "linux", reason="needs abstract Unix sockets")
def test_ports_of_an_installation_that_starts_meanwhile_are_left_out() -> None:
    ours, theirs = PortClaims(), PortClaims()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        first = free.getsockname()[1]
    chosen = first_free("127.0.0.1", first, set(), ours)
    assert ours.claim(chosen)
    assert not theirs.claim(chosen)
    assert first_free("127.0.0.1", chosen, set(), theirs) > chosen
    ours.release(chosen)
    assert theirs.claim(chosen)


@contextmanager
def marked_child() -> Iterator[subprocess.Popen[bytes]]:
    """A session of its own with a mark; it ends with its input, whatever becomes of the test."""
    with subprocess.Popen(
        [sys.executable, "-c", "input()"],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYKCP_TEST_MARK": "here"},
    ) as child:
        yield child


def test_a_process_is_known_by_its_start_too() -> None:
    with marked_child() as child:
        found = identify(child.pid)
        assert found is not None
        assert found.is_alive
        assert not ProcessIdentity(found.pid, found.started + 1, found.boot).is_alive
        assert not ProcessIdentity(found.pid, found.started, "another").send(9)
        assert (found, "here") in list(marked_processes("PYKCP_TEST_MARK"))
        assert found.send(15)
        child.wait()
        assert not found.is_alive
        assert not found.send(15)


def test_the_environment_of_a_process_that_loads_its_program_is_waited_for() -> None:
    """It has been started, but for a moment there is nothing to read: one time in forty or so."""
    marked = {**os.environ, "PYKCP_TEST_MARK": "here"}
    for _ in range(200):
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=marked) as child:
            found = environment(child.pid)
        assert b"PYKCP_TEST_MARK=here" in found.split(b"\0")


def test_records_survive_and_others_are_ignored(tmp_path: pathlib.Path) -> None:
    records = ReplicaRecords(tmp_path)
    record = ReplicaRecord("root-kcp", 0, "abc", ProcessIdentity(1, 2, "b"), "127.0.0.1", 7443, 1.5)
    records.save(record)
    (tmp_path / "root-kcp" / "1-x.json").write_text("{")
    assert list(ReplicaRecords(tmp_path)) == [record]
    records.remove(record)
    assert list(records) == []
