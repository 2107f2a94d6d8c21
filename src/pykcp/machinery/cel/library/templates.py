"""'%s of %d'.format([...]): the clauses, at run time and when a literal is checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pykcp.machinery.cel.cost.work import spend
from pykcp.machinery.cel.runtime.kinds import kind_of
from pykcp.machinery.cel.runtime.numbers import format_double
from pykcp.machinery.cel.runtime.values import EvalError, key_value
from pykcp.machinery.status import go_quote

NOT = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
    "types, durations, and timestamps, was given {}",
    "d": "decimal clause can only be used on integers, was given {}",
    "f": "fixed-point clause can only be used on doubles, was given {}",
    "e": "scientific clause can only be used on doubles, was given {}",
    "b": "only integers and bools can be formatted as binary, was given {}",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "X": "only integers, byte buffers, and strings can be formatted as hex, was given {}",
    "o": "octal clause can only be used on integers, was given {}",
}
"""What a clause says about an argument that it cannot show."""


class TemplateError(Exception):
    """The template itself is wrong."""


Piece = str | tuple[str, int | None]
"""Literal text, or a clause and its precision."""


def parse_template(template: str, arguments: int) -> list[Piece]:
    """The pieces of a template that is given so many arguments."""
    pieces: list[Piece] = []
    at, used = 0, 0
    while at < len(template):
        if template[at] != "%":
            end = template.find("%", at)
            end = len(template) if end < 0 else end
            pieces.append(template[at:end])
            at = end
        elif template.startswith("%%", at):
            pieces.append("%")
            at += 2
        else:
            if used >= arguments:
                raise TemplateError(f"index {used} out of range")
            if at + 1 >= len(template):
                raise TemplateError("unexpected end of string")
            clause, at = _clause(template, at + 1)
            pieces.append(clause)
            used += 1
    return pieces


def _clause(template: str, at: int) -> tuple[tuple[str, int | None], int]:
    failed = "could not parse formatting clause: "
    precision = None
    if template[at] == ".":
        end = at + 1
        while end < len(template) and template[end] in "0123456789":
            end += 1
        wrong = f"{failed}error while parsing precision: "
        if end >= len(template):
            raise TemplateError(f"{wrong}could not find end of precision specifier")
        digits = template[at + 1 : end]
        if not digits:
            raise TemplateError(
                f"{wrong}error while converting precision to integer: "
                'strconv.Atoi: parsing "": invalid syntax'
            )
        precision = min(int(digits[:6]), 10000)
        at = end
    verb = template[at]
    if verb not in NOT:
        shown = verb if ord(verb) < 0x80 else chr(verb.encode()[0])
        raise TemplateError(f'{failed}unrecognized formatting clause "{shown}"')
    return (verb, precision), at + 1


def format_string(template: str, args: list[Any]) -> str:
    spend(len(template) // 8)
    try:
        pieces = parse_template(template, len(args))
    except TemplateError as error:
        raise EvalError(str(error)) from error
    out: list[str] = []
    values = iter(args)
    for piece in pieces:
        if isinstance(piece, str):
            out.append(piece)
            continue
        verb, precision = piece
        value = next(values)
        text = _CLAUSES[verb](value, precision)
        if text is None:
            raise EvalError(f"error during formatting: {NOT[verb].format(kind_of(value))}")
        spend(len(text) // 32 + 1)
        out.append(text)
    return "".join(out)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _string(value: Any, _: int | None) -> str | None:
    from pykcp.machinery.cel.library.conversion import bool_to_string, bytes_to_string
    from pykcp.machinery.cel.library.times import duration_text, timestamp_text

    match kind_of(value):
        case "list":
            return _list(value)
        case "map":
            return _map(value)
        case "string":
            return str(value)
        case "int" | "uint":
            return str(int(value))
        case "double":
            return format_double(value)
        case "bool":
            return bool_to_string(key_value(value))
        case "bytes":
            return bytes_to_string(value)
        case "google.protobuf.Timestamp":
            return timestamp_text(value)
        case "google.protobuf.Duration":
            return duration_text(value)
        case "type":
            return str(value)
        case "null_type":
            return "null"
        case _:
            return None


def _nested(value: Any) -> str:
    """A member of a list or map: quoted where CEL would quote it."""
    kind = kind_of(value)
    text = _string(value, None)
    if text is None:
        raise EvalError(f"error during formatting: no formatting function for {kind}")
    match kind:
        case "string":
            return go_quote(text)
        case "bytes":
            return f"b{go_quote(text)}"
        case "double":
            if math.isfinite(value):
                return f"{value:.6f}"
            return go_quote(format_double(value))
        case "google.protobuf.Timestamp":
            return f"timestamp({go_quote(text)})"
        case "google.protobuf.Duration":
            return f"duration({go_quote(text)})"
        case _:
            return text


def _list(values: list[Any]) -> str:
    spend(2 * len(values))
    return "[" + ", ".join(_nested(v) for v in values) + "]"


def _map(values: dict[Any, Any]) -> str:
    spend(4 * len(values))
    pairs = []
    for stored, value in values.items():
        key = key_value(stored)
        if kind_of(key) not in ("string", "bool", "int", "uint"):
            raise EvalError(
                "error during formatting: no formatting function for map key of type "
                f"{kind_of(key)}"
            )
        pairs.append((_nested(key), _nested(value)))
    return "{" + ", ".join(f"{k}:{v}" for k, v in sorted(pairs, key=lambda p: p[0])) + "}"


def _decimal(value: Any, _: int | None) -> str | None:
    return str(int(value)) if _is_number(value) else None


_NAMED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def _as_double(value: Any) -> float | None:
    if isinstance(value, str):
        return _NAMED.get(value)
    return value if isinstance(value, float) else None


def _special(value: float) -> str | None:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return None


def _fixed(value: Any, precision: int | None) -> str | None:
    number = _as_double(value)
    if number is None:
        return None
    return _special(number) or f"{number:,.{6 if precision is None else precision}f}"


_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _scientific(value: Any, _: int | None) -> str | None:
    """The precision is not heeded, as it is not by the reference implementation."""
    number = _as_double(value)
    if number is None:
        return None
    special = _special(number)
    if special is not None:
        return special
    mantissa, exponent = f"{number:.6e}".split("e")
    power = exponent.lstrip("+").translate(_SUPERSCRIPTS)
    return f"{mantissa}\u00d710{power}"


def _binary(value: Any, _: int | None) -> str | None:
    if isinstance(value, bool):
        return "1" if value else "0"
    return f"{int(value):b}" if _is_number(value) else None


def _hex(upper: bool) -> Callable[[Any, int | None], str | None]:
    def show(value: Any, _: int | None) -> str | None:
        if isinstance(value, str):
            value = value.encode(errors="surrogatepass")
        if isinstance(value, bytes):
            text = value.hex()
        elif _is_number(value):
            text = f"{int(value):x}"
        else:
            return None
        return text.upper() if upper else text

    return show


def _octal(value: Any, _: int | None) -> str | None:
    return f"{int(value):o}" if _is_number(value) else None


_CLAUSES: dict[str, Callable[[Any, int | None], str | None]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex(upper=False),
    "X": _hex(upper=True),
    "o": _octal,
}
