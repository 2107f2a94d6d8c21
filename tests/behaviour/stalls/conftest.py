"""The attacks are those of `bench/run stalls`."""

from __future__ import annotations

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[3] / "bench"))
