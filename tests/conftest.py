"""What all tests share."""

from __future__ import annotations

import gc
import pathlib
import sys
from collections.abc import Generator

import pytest

# Tests run from a checkout, installed or not.
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "src"))


def pytest_configure(config: pytest.Config) -> None:
    """Compile the project as it is: of it, only the helpers of tests have asserts to explain.

    pytest would rewrite the asserts of the whole package, because one of its modules is a plug-in.
    """
    hook = config.pluginmanager.rewrite_hook
    marked = getattr(hook, "_must_rewrite", None)
    if marked is not None:
        marked.discard("pykcp")
        pytest.register_assert_rewrite("pykcp.testing")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests stay to the end: garbage collection does not look at them again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()
