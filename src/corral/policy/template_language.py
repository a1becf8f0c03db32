"""The language of templates, parsed by Jinja and bounded by a budget of work.

The language is Jinja with what a text needs: `{{ name }}`, `{{ item.field }}`, filters, tests, `if` and `for`. There
are no calls, no assignments, no macros, no includes, and no attributes of Python objects: a dot looks into the data.
Called through `policy/templates.py`, which imports this module, and with it the parser, at the first template.

Guarantees: a parameter that is missing is named in the error, unless the template asks for it with `default` or `is
defined`. Work, output and source are bounded, and the same text and data always end in the same way: everything that
grows with the data is charged to a budget, before it is done where the result is more than a few times as large as the
values that it is made of. Limit: a loop counts its body for each turn, so nested loops over long lists are refused by
the budget, not by the clock.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from jinja2 import StrictUndefined, TemplateSyntaxError, Undefined, UndefinedError, nodes
from jinja2.meta import find_undeclared_variables
from jinja2.runtime import LoopContext
from jinja2.sandbox import SandboxedEnvironment

from corral.domain.errors import InvalidRequest

SOURCE_MAX = 64 * 1024
OUTPUT_MAX = 1024 * 1024
# Units of work of one rendering: a node of a loop's body, an element of a list, 64 characters or digits. A unit takes
# about a microsecond, in which a frontend's event loop does nothing else.
WORK_MAX = 25_000
# Compiling a template takes about 35 microseconds for each.
NODES_MAX = 1000
# Tokens are counted first: parsing 64 KiB of them takes a quarter of a second.
TOKENS_MAX = 4 * NODES_MAX
# Python's own compiler refuses deeper nesting with errors of its own.
DEPTH_MAX = 40
NAMES_MAX = 200
_CHARACTERS_PER_UNIT = 64
# About as many bits as a decimal digit has.
_BITS_PER_DIGIT = 3
# The range of floating-point numbers, which is all that a text needs: of numbers in a template, and of `round`.
_NUMBER_BITS_MAX = 1024
_ROUNDED_DIGITS_MAX = 300

_NODES: tuple[type[nodes.Node], ...] = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.Name,
    nodes.Const,
    nodes.Getattr,
    nodes.Getitem,
    nodes.List,
    nodes.Tuple,
    nodes.Dict,
    nodes.Pair,
    nodes.Filter,
    nodes.Keyword,
    nodes.Test,
    nodes.If,
    nodes.For,
    nodes.CondExpr,
    nodes.Compare,
    nodes.Operand,
    nodes.Not,
    nodes.And,
    nodes.Or,
    nodes.Neg,
    nodes.Add,
    nodes.Sub,
    nodes.Concat,
)
_LOOP_FIELDS = frozenset({"index", "index0", "revindex", "revindex0", "first", "last", "length"})
_TESTS = frozenset({"defined", "undefined", "none", "string", "number", "boolean", "mapping", "sequence"})
_HINT = "{{ name }}, {% if name is defined %}…{% endif %}, {% for item in items %}…{% endfor %}, and filters."
BAD_TEMPLATE = "bad_template"


class _MissingValueError(UndefinedError):
    """A name that the data do not have."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


class _MissingValue(StrictUndefined):
    """Raises `_MissingValueError` with the name wherever it is used."""

    def __init__(self, hint: str | None = None, obj: Any = None, name: str | None = None, exc: Any = None) -> None:
        del exc
        missing = str(name)
        super().__init__(hint, obj, name, lambda message: _MissingValueError(missing, message))  # type: ignore[arg-type]


class _DataEnvironment(SandboxedEnvironment):
    """Looks up names in data only: keys of mappings, positions of lists, and the counters of a loop."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, LoopContext) and attribute in _LOOP_FIELDS:
            return getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(obj, Undefined):
            # Fails with the name of what is missing.
            return obj[argument]
        if isinstance(obj, Mapping) and isinstance(argument, str | int) and argument in obj:
            return obj[argument]
        is_position = isinstance(argument, int) and not isinstance(argument, bool)
        if isinstance(obj, list | tuple | str) and is_position and -len(obj) <= argument < len(obj):
            return obj[argument]
        return self.undefined(obj=obj, name=_name_index(argument))


def _name_index(index: Any) -> str:
    """Return an index for an error. A list or mapping is named by its type: as a text it may be as large as the data,
    or much larger."""
    if isinstance(index, Undefined):
        # Fails with the name of what is missing.
        return str(index)
    return str(index)[:NAMES_MAX] if isinstance(index, str | int | float) else type(index).__name__


class _WorkBudget:
    """Counts the work of one rendering. The functions that templates are compiled to call are its methods."""

    def __init__(self) -> None:
        self._left = WORK_MAX

    def charge(self, units: int) -> None:
        self._left -= units
        if self._left < 0:
            raise _make_error("The template takes too much work: shorten its loops, or the data that they go over.")

    def weigh(self, value: Any) -> Any:
        """Charge for a value that is about to be looked at as a whole, and return it."""
        for item in _walk(value):
            self.charge(1 + _count_characters(item) // _CHARACTERS_PER_UNIT)
        return value

    def show(self, value: Any) -> str:
        """Return what `{{ value }}` prints."""
        if isinstance(value, Undefined):
            return str(value)
        self.weigh(value)
        if value is None:
            return ""
        return value if isinstance(value, str) else _to_json(value)

    def begin_turn(self, units: int) -> str:
        """Charge for one turn of a loop. Prints nothing."""
        self.charge(units)
        return ""

    def add(self, left: Any, right: Any) -> Any:
        kinds = ((int, float), (str,), (list,), (tuple,))
        if any(isinstance(left, kind) and isinstance(right, kind) for kind in kinds):
            return self.weigh(left) + self.weigh(right)
        # Fails with the name of what is missing, if that is the cause.
        for side in (left, right):
            if isinstance(side, Undefined):
                str(side)
        raise _make_error("`+` needs two numbers, two texts or two lists; `~` joins anything to a text.")

    def join(self, *parts: Any) -> str:
        return str(self.weigh("".join([self.show(part) for part in parts])))

    def call_filter(self, name: str, value: Any, *arguments: Any, **options: Any) -> Any:
        for item in (value, *arguments, *options.values()):
            if not isinstance(item, Undefined):
                self.weigh(item)
        try:
            if name in _LIST_FILTERS:
                value = self._expand(value)
            if name == "join":
                self._charge_join(value, *arguments, **options)
            return self.weigh(_FILTERS[name](value, *arguments, **options))
        except (TypeError, ValueError, AttributeError, KeyError, IndexError, OverflowError) as error:
            raise _make_error(f"The filter `{name}` cannot be used with this value.") from error

    def _expand(self, value: Any) -> list[Any]:
        """Return the elements of a value that was weighed. Each character of a text becomes one."""
        if isinstance(value, str):
            self.charge(len(value))
        return _to_list(value)

    def _charge_join(self, items: list[Any], separator: Any = "") -> None:
        """Charge for a separator between all items. The parameters are those of `_join_list`."""
        self.charge(len(items) * (len(_to_text(separator)) // _CHARACTERS_PER_UNIT + 1))


def _walk(value: Any) -> Iterator[Any]:
    """Yield a value and everything in it."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        yield item
        if isinstance(item, Mapping):
            waiting.extend(item.keys())
            waiting.extend(item.values())
        elif isinstance(item, list | tuple):
            waiting.extend(item)


def _count_characters(value: Any) -> int:
    """Return about how many characters the text of a single value has, if it may be long."""
    if isinstance(value, str):
        return len(value)
    return value.bit_length() // _BITS_PER_DIGIT if isinstance(value, int) else 0


def _to_json(value: Any) -> str:
    return _JSON.encode(value)


def _to_text(value: Any) -> str:
    if isinstance(value, Undefined):
        return str(value)
    return value if isinstance(value, str) else _to_json(value)


def _to_list(value: Any) -> list[Any]:
    if isinstance(value, Undefined):
        return list(value)
    if isinstance(value, Mapping):
        return list(value.keys())
    if not isinstance(value, list | tuple | str):
        raise TypeError("not a list")
    return list(value)


def _use_default(value: Any, fallback: Any = "", is_empty_too: Any = False) -> Any:  # noqa: FBT002 - Jinja's order
    is_used = isinstance(value, Undefined) or (is_empty_too and not value)
    return fallback if is_used else value


def _truncate(value: Any, length: int = 255, end: str = "…") -> str:
    text = _to_text(value)
    return text if len(text) <= length else text[: max(0, length - len(end))] + end


def _list_items(value: Any) -> list[tuple[Any, Any]]:
    if not isinstance(value, Mapping):
        raise TypeError("not a mapping")
    return list(value.items())


def _get_first(value: Any) -> Any:
    return value[0] if isinstance(value, str) else _to_list(value)[0]


def _get_last(value: Any) -> Any:
    return value[-1] if isinstance(value, str) else _to_list(value)[-1]


def _round_number(value: Any, digits: Any = 0) -> Any:
    if isinstance(digits, int) and abs(digits) > _ROUNDED_DIGITS_MAX:
        raise ValueError("the number of digits is out of range")
    return round(value, digits)


def _join_list(items: list[Any], separator: Any = "") -> str:
    return _to_text(separator).join(_to_text(item) for item in items)


def _list_unique(items: list[Any]) -> list[Any]:
    return list({_to_json(item): item for item in items}.values())


def _without_options(function: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Return a filter that has no parameters: `sum` with a list to begin with would copy all lists for each item."""

    def apply(items: list[Any]) -> Any:
        return function(items)

    return apply


_JSON = json.JSONEncoder(ensure_ascii=False, default=str)
# Their value is a list: other values are expanded, and charged for it, before.
_LIST_FILTERS: dict[str, Callable[..., Any]] = {
    "join": _join_list,
    "list": lambda items: items,
    "max": _without_options(max),
    "min": _without_options(min),
    "sort": _without_options(sorted),
    "sum": _without_options(sum),
    "unique": _list_unique,
}
_FILTERS: dict[str, Callable[..., Any]] = _LIST_FILTERS | {
    "abs": abs,
    "capitalize": lambda value: _to_text(value).capitalize(),
    "count": len,
    "d": _use_default,
    "default": _use_default,
    "first": _get_first,
    "float": lambda value, fallback=0.0: _convert(float, value, fallback),
    "int": lambda value, fallback=0: _convert(int, value, fallback),
    "items": _list_items,
    "json": _to_json,
    "last": _get_last,
    "length": len,
    "lower": lambda value: _to_text(value).lower(),
    "reverse": lambda value: value[::-1] if isinstance(value, str) else _to_list(value)[::-1],
    "round": _round_number,
    "string": _to_text,
    "title": lambda value: _to_text(value).title(),
    "tojson": _to_json,
    "trim": lambda value: _to_text(value).strip(),
    "truncate": _truncate,
    "upper": lambda value: _to_text(value).upper(),
    "wordcount": lambda value: len(_to_text(value).split()),
}
FILTER_NAMES = tuple(sorted(_FILTERS))
TEST_NAMES = tuple(sorted(_TESTS))


def _convert(kind: type[int] | type[float], value: Any, fallback: Any) -> Any:
    try:
        return kind(value)
    except (TypeError, ValueError, OverflowError):
        return fallback


def _make_environment() -> _DataEnvironment:
    environment = _DataEnvironment(
        undefined=_MissingValue,
        autoescape=False,
        keep_trailing_newline=True,
        cache_size=0,
        auto_reload=False,
        # Nothing is computed before there is a budget, nor becomes a constant that Python's source cannot have.
        optimized=False,
    )
    environment.globals = {}
    # Only known while parsing: compiled templates call the budget, which looks them up by name.
    environment.filters = dict(_FILTERS)
    environment.tests = {name: test for name, test in environment.tests.items() if name in _TESTS}
    return environment


_ENVIRONMENT = _make_environment()


@lru_cache(maxsize=256)
def list_names(source: str) -> tuple[str, ...]:
    """Return the names that a template uses, in alphabetical order."""
    return tuple(sorted(find_undeclared_variables(_parse(source))))


def render(source: str, values: Mapping[str, Any]) -> str:
    """Return the text of a template with these values. Raises `InvalidRequest`, with the code `missing_parameter` if a
    name has no value."""
    bad = [name for name in values if name.startswith("_")]
    if bad:
        raise InvalidRequest(f"The name {bad[0][:80]!r} begins with an underscore.", code="bad_parameter")
    budget = _WorkBudget()
    tools = {
        "_weigh": budget.weigh,
        "_show": budget.show,
        "_turn": budget.begin_turn,
        "_add": budget.add,
        "_join": budget.join,
        "_filter": budget.call_filter,
    }
    try:
        return _collect(compile_template(source).generate({**values, **tools}))
    except _MissingValueError as error:
        raise _make_missing_error(source, error.name, values) from error
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise _make_error(f"The template cannot be used with these values: {error}.") from error


def _collect(pieces: Iterable[str]) -> str:
    text: list[str] = []
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > OUTPUT_MAX:
            raise _make_error(f"The template makes a text of more than {OUTPUT_MAX} characters.")
        text.append(piece)
    return "".join(text)


def _make_missing_error(source: str, name: str, values: Mapping[str, Any]) -> InvalidRequest:
    names = list_names(source)
    missing = [known for known in names if known not in values]
    return InvalidRequest(
        f"The parameter {name[:NAMES_MAX]!r} is missing.",
        hint=f"The template uses: {', '.join(names)[:500]}." if names else None,
        code="missing_parameter",
        details={"parameter": name[:NAMES_MAX], "missing": missing or [name[:NAMES_MAX]]},
    )


@lru_cache(maxsize=256)
def compile_template(source: str) -> Any:
    """Return the template, ready to render. Raises `InvalidRequest` if the text is none of this language."""
    tree = _parse(source)
    _check_nodes(tree)
    try:
        return _ENVIRONMENT.from_string(_rewrite(tree))
    except (TemplateSyntaxError, SyntaxError, RecursionError, MemoryError) as error:
        raise _make_error(f"The template is not valid: {error}.") from error


def _parse(source: str) -> nodes.Template:
    if len(source) > SOURCE_MAX:
        raise _make_error(f"A template has at most {SOURCE_MAX} characters.")
    try:
        if any(True for _ in islice(_ENVIRONMENT.lex(source), TOKENS_MAX, None)):
            raise _make_parts_error()
        return _ENVIRONMENT.parse(source)
    except TemplateSyntaxError as error:
        raise _make_error(f"Line {error.lineno} of the template is not valid: {error.message}") from error
    except ValueError as error:
        raise _make_error(f"The template is not valid: {error}.") from error
    except RecursionError as error:
        raise _make_error("The template is nested too deeply.") from error


def _make_parts_error() -> InvalidRequest:
    return _make_error("The template is nested too deeply, or has too many parts.")


def _check_nodes(tree: nodes.Template) -> None:
    """Raise for everything that the language does not have, and for trees that are too large."""
    waiting: list[tuple[nodes.Node, int]] = [(tree, 0)]
    count = 0
    while waiting:
        node, depth = waiting.pop()
        count += 1
        if count > NODES_MAX or depth > DEPTH_MAX:
            raise _make_parts_error()
        problem = _find_problem(node)
        if problem:
            raise _make_error(f"Line {node.lineno} of the template: {problem}")
        waiting.extend((child, depth + 1) for child in node.iter_child_nodes())


def _find_problem(node: nodes.Node) -> str:
    """Return what is wrong with one part of a template; empty if nothing is."""
    problem = ""
    match node:
        case nodes.Name() if node.name.startswith("_") or node.name == "self":
            problem = f"the name {node.name[:80]!r} is reserved."
        case nodes.Filter() if node.name not in _FILTERS or node.node is None:
            problem = f"there is no filter {node.name[:80]!r}. Those that exist: {', '.join(FILTER_NAMES)}."
        case nodes.Test() if node.name not in _TESTS:
            problem = f"there is no test {node.name[:80]!r}. Those that exist: {', '.join(TEST_NAMES)}."
        case nodes.Filter() | nodes.Test() if node.dyn_args is not None or node.dyn_kwargs is not None:
            problem = "arguments with an asterisk are not part of the language of templates."
        case nodes.For() if node.recursive:
            problem = "a loop cannot be recursive."
        case nodes.Const() if not _is_usual_number(node.value):
            problem = "a number is too large."
        case _ if not isinstance(node, _NODES):
            problem = f"`{type(node).__name__.lower()}` is not part of the language of templates."
    return problem


def _is_usual_number(value: Any) -> bool:
    """Return whether a constant is no number, or one within the range of floating-point numbers."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or value.bit_length() <= _NUMBER_BITS_MAX


def _rewrite(tree: nodes.Template) -> nodes.Template:
    """Let everything that can grow go through the budget. The tree was checked."""
    rewritten = _rewrite_node(tree)
    assert isinstance(rewritten, nodes.Template), "the root of a tree stays"
    rewritten.set_lineno(1)
    return rewritten


def _rewrite_node(node: nodes.Node) -> nodes.Node:
    units = _count_units(node) if isinstance(node, nodes.For) else 0
    _rewrite_children(node)
    match node:
        case nodes.Output():
            node.nodes = [part if isinstance(part, nodes.TemplateData) else _call("_show", part) for part in node.nodes]
        case nodes.For():
            node.body.insert(0, nodes.Output([_call("_turn", nodes.Const(units))]))
            if node.test is not None:
                node.test = nodes.And(nodes.Not(_call("_turn", nodes.Const(units))), node.test)
        case nodes.Compare() | nodes.Operand():
            node.expr = _call("_weigh", node.expr)
        # What is looked up is compared, and hashed before: tuples of tuples take as long as all that is in them.
        case nodes.Getitem() if not isinstance(node.arg, nodes.Const):
            node.arg = _call("_weigh", node.arg)
        case nodes.Pair() if not isinstance(node.key, nodes.Const):
            node.key = _call("_weigh", node.key)
        case nodes.Add() | nodes.Concat() | nodes.Filter():
            return _rewrite_expression(node)
    return node


def _rewrite_children(node: nodes.Node) -> None:
    for name, value in node.iter_fields():
        if isinstance(value, nodes.Node):
            setattr(node, name, _rewrite_node(value))
        elif isinstance(value, list):
            setattr(node, name, [_rewrite_node(item) if isinstance(item, nodes.Node) else item for item in value])


def _rewrite_expression(node: nodes.Add | nodes.Concat | nodes.Filter) -> nodes.Call:
    if isinstance(node, nodes.Add):
        return _call("_add", node.left, node.right)
    if isinstance(node, nodes.Concat):
        return _call("_join", *node.nodes)
    assert isinstance(node.node, nodes.Expr), "checked before"
    call = _call("_filter", nodes.Const(node.name), node.node, *node.args)
    call.kwargs = list(node.kwargs)  # type: ignore[arg-type]  # keywords of a filter are keywords
    return call


def _count_units(loop: nodes.For) -> int:
    """Return the price of one turn: the parts of the loop, and the length of the texts in them."""
    units, waiting = 0, list(loop.iter_child_nodes())
    while waiting:
        node = waiting.pop()
        text = getattr(node, "data", None) or getattr(node, "value", None)
        units += 1 + (len(text) // _CHARACTERS_PER_UNIT if isinstance(text, str) else 0)
        waiting.extend(node.iter_child_nodes())
    return units


def _call(name: str, *arguments: nodes.Expr) -> nodes.Call:
    """Return the call of a method of the budget."""
    return nodes.Call(nodes.Name(name, "load"), list(arguments), [], None, None)


def _make_error(sentence: str) -> InvalidRequest:
    return InvalidRequest(sentence, hint=_HINT, code=BAD_TEMPLATE)
