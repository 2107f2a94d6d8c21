"""Protobuf codecs of the built-in kinds; the numbers are read when the first such body comes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from pykcp.machinery.protobuf import Codecs, parse_numbers


@cache
def codecs() -> Codecs:
    text = (Path(__file__).parent / "kube" / "protobuf.numbers").read_text(encoding="utf-8")
    return Codecs(parse_numbers(text))
