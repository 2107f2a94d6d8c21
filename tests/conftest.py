"""Fixtures that all tests share."""

from __future__ import annotations

import pathlib
import sys

# Tests run from a checkout, installed or not.
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "src"))
