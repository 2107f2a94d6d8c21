"""The format of a job and its result between the server and a worker: length, then a pickle.

Both ends are the same program in the same version, connected by a private socket pair. Objects of the API are passed as JSON text inside, which is several times
faster to write and to read than a pickle of the same object.
"""

from __future__ import annotations

import pickle
import struct
from typing import Any, NamedTuple

HEADER = struct.Struct("!Q")


class Job(NamedTuple):
    function: str
    """`module:name` of the function to call."""
    args: tuple[Any, ...]


class JobResult(NamedTuple):
    value: Any
    error: Exception | None
    cpu_seconds: float
    """What the job took of the worker's CPU."""
    memory: int
    """Most octets that the worker ever held."""


def encode(message: Job | JobResult) -> bytes:
    text = pickle.dumps(tuple(message), protocol=pickle.HIGHEST_PROTOCOL)
    return HEADER.pack(len(text)) + text


def decode_job(text: bytes) -> Job:
    return Job(*pickle.loads(text))  # noqa: S301  # written by the server, our parent


def decode_result(text: bytes) -> JobResult:
    return JobResult(*pickle.loads(text))  # noqa: S301  # written by a worker, our own child
