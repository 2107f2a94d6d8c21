"""Validation of custom resources by their schema.

Two readings of the same rules. `compile_check` turns a schema into closures that only say
yes or no; it is all that a good object ever meets. When it says no, `schema_errors` (in
`machinery.schema.violations`) walks the object again and words every violation as
upstream does.
"""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time
from typing import Any, TypeAlias

from pykcp.machinery.regex import Regex, RegexError, compiled
from pykcp.machinery.schema.formats import format_check, known_format
from pykcp.machinery.schema.model import Schema

Check: TypeAlias = Callable[[Any], bool]

_INT32 = (-(1 << 31), (1 << 31) - 1)
_EXACT = 1 << 53


def types_of(schema: Schema) -> tuple[str, ...]:
    """The JSON types that a value may have; none means any."""
    if schema.int_or_string:
        return ("integer", "string")
    return (schema.type,) if schema.type else ()


def format_of(schema: Schema) -> str:
    """The format, if it is one that is checked for values of this type."""
    types = types_of(schema)
    return known_format(types[0] if len(types) == 1 else "", schema.format)


def json_type(value: Any) -> str:
    """The JSON type of a value, as messages name it."""
    return _JSON_TYPES.get(type(value), "null")


_JSON_TYPES: dict[type, str] = {
    bool: "boolean",
    str: "string",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
}


def is_json_integer(value: float) -> bool:
    return -_EXACT <= value <= _EXACT and value == int(value)


def same_scalar(one: Any, other: Any) -> bool:
    """Equal as enum values are: 1 is 1.0, but true is not 1."""
    if type(one) is bool or type(other) is bool:
        return one is other
    return bool(one == other)


def enum_check(allowed: tuple[Any, ...]) -> Check:
    """Whether a value is one of an enum, by one look at a set.

    Upstream turns a float into an integer where the enum has one.
    """
    if all(type(v) is str for v in allowed):
        words = frozenset(allowed)
        return lambda value: type(value) is str and value in words
    flags = frozenset(v for v in allowed if type(v) is bool)
    integers = frozenset(v for v in allowed if type(v) is int)
    others = frozenset(_identity(v) for v in allowed if type(v) is not bool)

    def check(value: Any) -> bool:
        if value is None:
            return False
        if type(value) is bool:
            return value in flags
        if type(value) is float and int(value) in integers:
            return True
        return _identity(value) in others

    return check


PATTERN_WORK = 10_000_000
"""Steps that all patterns together may take for one value: about 50 ms at worst."""
PATTERN_WORK_PER_CHARACTER = 500
_MEASURED = 100_000
_STEPS_PER_SECOND = 200_000_000


class PatternWork:
    """Steps that patterns may still take while one value is validated.

    What a match takes at worst is known beforehand and must be left; then it pays for what it
    took, which is mostly far less.
    """

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = PATTERN_WORK

    def begin(self) -> None:
        self.left = PATTERN_WORK

    def test(self, regex: Regex, text: str) -> bool:
        """Whether the text matches; no, if that may take more than is left."""
        self.left += PATTERN_WORK_PER_CHARACTER * len(text)
        steps = regex.work(text)
        if steps <= _MEASURED:
            self.left -= steps >> 2
            return self.left >= 0 and regex.test(text)
        if steps > self.left:
            self.left = -1
            return False
        started = thread_time()
        found = regex.test(text)
        self.left -= min(steps, int((thread_time() - started) * _STEPS_PER_SECOND))
        return found


def are_distinct(values: list[Any]) -> bool:
    """Whether no value comes twice."""
    return len(set(map(_identity, values))) == len(values)


def _identity(value: Any) -> Any:
    """What equal values have in common: 1 and 1.0, and true, which is 1 here."""
    kind = type(value)
    if kind is dict:
        return frozenset((key, _identity(item)) for key, item in value.items())
    return tuple(map(_identity, value)) if kind is list else value


def compile_check(schema: Schema) -> Check:
    """Whether a value is valid, as one function."""
    compiler = _Compiler()
    check = compiler.check(schema) or _accept
    if not compiler.has_patterns:
        return check
    work = compiler.work

    def limited(value: Any) -> bool:
        work.begin()
        return check(value)

    return limited


def node_checks(work: PatternWork) -> Callable[[Schema], Check]:
    """Checks of single nodes of a schema, each compiled when it is first asked for."""
    compiler = _Compiler()
    compiler.work = work
    return lambda schema: compiler.check(schema) or _accept


def _accept(_value: Any) -> bool:
    return True


class _Compiler:
    def __init__(self) -> None:
        self._made: dict[int, Check | None] = {}
        self.work = PatternWork()
        self.has_patterns = False

    def check(self, schema: Schema) -> Check | None:
        """None for a schema that accepts everything."""
        if id(schema) not in self._made:
            self._made[id(schema)] = self._make(schema)
        return self._made[id(schema)]

    def _make(self, schema: Schema) -> Check | None:
        by_type: dict[type, Check | None] = {
            kind: self._typed(schema, kind) for kind in (bool, str, int, float, list, dict)
        }
        types = types_of(schema)
        null = (not types or schema.nullable) and not schema.enum
        any_type = [self._branches(schema), self._enum(schema)]
        further = [check for check in any_type if check is not None]
        if null and not further and all(check is None for check in by_type.values()):
            return None
        if not further:
            return _by_type(by_type, null)
        return _by_type_and_more(by_type, null, further)

    def _typed(self, schema: Schema, kind: type) -> Check | None:
        """What is asked of values of one Python type."""
        if not _type_fits(schema, kind):
            return _refuse if kind is not float else _whole if _takes_whole(schema) else _refuse
        if kind is str:
            return self._string(schema)
        if kind is int or kind is float:
            return self._number(schema, kind)
        if kind is list:
            return self._list(schema)
        if kind is dict:
            return self._object(schema)
        return None

    def _string(self, schema: Schema) -> Check | None:
        low, high = schema.min_length or 0, schema.max_length
        checks: list[Check] = []
        if schema.pattern:
            self.has_patterns = True
            checks.append(pattern_check(schema.pattern, self.work))
        form = format_of(schema)
        if form and form not in _NUMBER_FORMATS:
            checks.append(format_check(form))
        if not checks:
            if not low and high is None:
                return None
            top = high if high is not None else 1 << 62
            return lambda value: low <= len(value) <= top
        top = high if high is not None else 1 << 62
        if len(checks) == 1:
            (only,) = checks
            return lambda value: low <= len(value) <= top and only(value)
        first, second = checks
        return lambda value: low <= len(value) <= top and first(value) and second(value)

    @staticmethod
    def _number(schema: Schema, kind: type) -> Check | None:
        from pykcp.machinery.schema.violations import number_violations

        plain = all(limit is None for limit in (schema.minimum, schema.maximum, schema.multiple_of))
        form = format_of(schema)
        if plain:
            if schema.type == "integer":
                if kind is float:
                    return _whole
                if form == "int32":
                    return lambda value: _INT32[0] <= value <= _INT32[1]
                return lambda value: -(1 << 63) <= value < 1 << 63
            if form != "float":
                return None
        return lambda value: not number_violations(schema, value, None)

    def _list(self, schema: Schema) -> Check | None:
        low, high = schema.min_items or 0, schema.max_items
        item = self.check(schema.items) if schema.items is not None else None
        usual, more = self._usual(schema.items) if schema.items is not None else (None, None)
        unique = schema.unique_items
        if item is None and not low and high is None and not unique:
            return None
        top = high if high is not None else 1 << 62

        def check(value: Any) -> bool:
            if not low <= len(value) <= top:
                return False
            if item is not None:
                for element in value:
                    if type(element) is usual:
                        if more is not None and not more(element):
                            return False
                    elif not item(element):
                        return False
            return not unique or are_distinct(value)

        return check

    def _object(self, schema: Schema) -> Check | None:
        fields = {name: self.check(child) for name, child in schema.properties.items()}
        asked = {
            name: (*self._usual(schema.properties[name]), check)
            for name, check in fields.items()
            if check is not None
        }
        rest = self.check(schema.additional) if schema.additional is not None else None
        closed = schema.additional_allowed is False
        low = schema.min_properties or 0
        top = schema.max_properties if schema.max_properties is not None else 1 << 62
        needed = schema.required
        if not asked and rest is None and not closed and not needed and not low and top == 1 << 62:
            return None

        def check(value: Any) -> bool:
            if not low <= len(value) <= top:
                return False
            for name in needed:
                if name not in value:
                    return False
            for key, item in value.items():
                tests = asked.get(key)
                if tests is not None:
                    usual, more, full = tests
                    if type(item) is usual:
                        if more is not None and not more(item):
                            return False
                    elif not full(item):
                        return False
                elif key not in fields and (closed or (rest is not None and not rest(item))):
                    return False
            return True

        return check

    def _usual(self, schema: Schema) -> tuple[type | None, Check | None]:
        """The Python type that values mostly have, and what is then still to be asked."""
        kind = _USUAL.get(schema.type)
        if kind is None or schema.int_or_string:
            return None, None
        checks = [self._typed(schema, kind), self._branches(schema), self._enum(schema)]
        given = [check for check in checks if check is not None]
        if len(given) < 2:
            return kind, given[0] if given else None
        return kind, lambda value: all(check(value) for check in given)

    def _branches(self, schema: Schema) -> Check | None:
        """allOf, anyOf, oneOf and not."""
        if not (schema.all_of or schema.any_of or schema.one_of or schema.not_ is not None):
            return None
        all_of = [self.check(s) or _accept for s in schema.all_of]
        any_of = [self.check(s) or _accept for s in schema.any_of]
        one_of = [self.check(s) or _accept for s in schema.one_of]
        refused = None
        if schema.not_ is not None:
            refused = self.check(schema.not_) or _accept

        def check(value: Any) -> bool:
            if value is None:
                return True
            if not all(test(value) for test in all_of):
                return False
            if any_of and not any(test(value) for test in any_of):
                return False
            if one_of and sum(test(value) for test in one_of) != 1:
                return False
            return refused is None or not refused(value)

        return check

    @staticmethod
    def _enum(schema: Schema) -> Check | None:
        if not schema.enum:
            return None
        return enum_check(schema.enum)


_USUAL: dict[str, type] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}

_NUMBER_FORMATS = frozenset(("int32", "int64", "float", "double"))


def _type_fits(schema: Schema, kind: type) -> bool:
    types = types_of(schema)
    name = _JSON_TYPES[kind]
    if format_of(schema) and kind is list and not {"integer", "number"} & set(types):
        return True  # upstream does not look at the type of a list where a format is given
    return not types or name in types or (name == "integer" and "number" in types)


def _takes_whole(schema: Schema) -> bool:
    return "integer" in types_of(schema)


def _refuse(_value: Any) -> bool:
    return False


def _whole(value: Any) -> bool:
    return is_json_integer(value)


def pattern_check(pattern: str, work: PatternWork) -> Check:
    """Whether a string matches somewhere.

    A pattern that is none matches nothing, nor does one for which no work is left. It is
    looked up when it is needed: the cache decides how long it stays compiled.
    """

    def check(value: Any) -> bool:
        try:
            regex = compiled(pattern)
        except RegexError:
            return False
        return work.test(regex, value)

    return check


def _by_type(by_type: dict[type, Check | None], null: bool) -> Check:
    get = by_type.get

    def check(value: Any) -> bool:
        if value is None:
            return null
        test = get(type(value), _refuse)
        return test is None or test(value)

    return check


def _by_type_and_more(by_type: dict[type, Check | None], null: bool, further: list[Check]) -> Check:
    first = _by_type(by_type, null)
    return lambda value: first(value) and all(check(value) for check in further)
