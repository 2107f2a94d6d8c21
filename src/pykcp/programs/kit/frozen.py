"""Frozen values with named fields, typed as dataclasses are, without generated code.

A program has some two dozen groups of options. As dataclasses they take 25 ms of CPU to define,
which every start would pay; these take well under one.
"""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError
from typing import Any, ClassVar, Self, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Frozen:
    """Every annotated attribute with a default is a field; an instance holds what differs."""

    FIELDS: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        annotations = inspect.get_annotations(cls)
        own = (name for name, kind in annotations.items() if not kind.startswith("ClassVar"))
        cls.FIELDS = (*cls.FIELDS, *(name for name in own if name not in cls.FIELDS))

    def __init__(self, **values: Any) -> None:
        unknown = values.keys() - set(self.FIELDS)
        if unknown:
            raise TypeError(f"{type(self).__name__} has no {', '.join(sorted(unknown))}")
        self.__dict__.update(values)

    def replace(self, **values: Any) -> Self:
        """A copy with some fields changed."""
        return type(self)(**{**self.__dict__, **values})

    def __setattr__(self, name: str, value: Any) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.FIELDS)

    __hash__ = None  # type: ignore[assignment]  # some fields are mappings

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.FIELDS)
        return f"{type(self).__name__}({shown})"
