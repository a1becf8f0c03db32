"""Templates of users: what they can say, what is refused, and that their work and output are bounded."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jinja2.sandbox import SandboxedEnvironment

from corral.domain.errors import InvalidRequest
from corral.policy.tasks import PARAMETERS_BYTES_MAX
from corral.policy.template_language import FILTER_NAMES, NODES_MAX, OUTPUT_MAX, SOURCE_MAX, WORK_MAX
from corral.policy.templates import check_template, list_parameters, render_template, translate_go_template

MANY = list(range(5000))


def refuse(source: str, **values: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        render_template(source, values)
    return refused.value


@pytest.mark.parametrize(
    ("source", "values", "expected"),
    [
        ("Weather in {{ city }}?\n", {"city": "Oslo"}, "Weather in Oslo?\n"),
        ("{{ a.b[1].c }}", {"a": {"b": [0, {"c": "deep"}]}}, "deep"),
        ("{{ order.items }}", {"order": {"items": "a key, not a method"}}, "a key, not a method"),
        ("{% for x in xs if x != 2 %}{{ loop.index }}={{ x }}{% endfor %}", {"xs": [1, 2, 3]}, "1=12=3"),
        ("{% for k, v in d | items %}{{ k }}{{ v }}{% endfor %}", {"d": {"a": 1}}, "a1"),
        ("{% if n is defined and n > 3 %}many{% else %}few{% endif %}", {}, "few"),
        ("{{ name | default('you') | upper }}", {}, "YOU"),
        ("{{ values | json }}", {"values": {"ok": True, "no": None}}, '{"ok": true, "no": null}'),
        ("{{ flag }}{{ nothing }}{{ xs }}", {"flag": True, "nothing": None, "xs": ["é"]}, 'true["é"]'),
        ("{{ 'a' ~ 1 ~ [2] }}{{ 1 + 2 }}", {}, "a1[2]3"),
        ("{{ xs | join(', ') }}", {"xs": ["a", 1]}, "a, 1"),
        ("{{ text | truncate(4) }}", {"text": "abcdefg"}, "abc…"),
    ],
)
def test_template_renders_data_conditions_loops_and_filters(source: str, values: dict[str, Any], expected: str) -> None:
    assert render_template(source, values) == expected


@pytest.mark.behaviour("TASK-2")
def test_missing_parameter_is_named_with_all_that_the_template_uses() -> None:
    error = refuse("{{ city }} on {{ day }} in {{ season | default('any season') }}", day="Monday")
    assert (error.slug, error.details["parameter"]) == ("missing_parameter", "city")
    assert "'city'" in error.message
    assert error.hint == "The template uses: city, day, season."
    assert refuse("{{ person.name }}", person={}).details["parameter"] == "name"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{.city}}", "{{ city }}"),
        ("{{ .job.id }} {{- .x -}}", "{{ job.id }} {{- x -}}"),
        ("{{json .Parameters}}", "{{ Parameters | json }}"),
        ("{{ city }} costs .5 {{ 1.5 }}", "{{ city }} costs .5 {{ 1.5 }}"),
    ],
)
def test_values_of_localai_templates_are_read(source: str, expected: str) -> None:
    assert translate_go_template(source) == expected
    check_template(translate_go_template(source))


@pytest.mark.parametrize(
    "source",
    [
        "{{ name",
        "{{ ''.join(xs) }}",
        "{{ range(10) }}",
        "{{ x | attr('upper') }}",
        "{% set x = 1 %}",
        "{% macro m() %}{% endmacro %}",
        "{% include 'other' %}",
        "{% for x in xs recursive %}{% endfor %}",
        "{{ 'a' * 1000000000 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ _show }}",
        "{{ self }}",
        "{{ x is callable }}",
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
        "{{ " + "not " * 200 + "1 }}",
        "{{ a }}" * NODES_MAX,
        # More than 20 ms of work for a frontend's event loop.
        "{{ a }}" * 1100,
        "a" * (SOURCE_MAX + 1),
        "{{ 1e999 }}",
        "{{ " + "9" * 5000 + " }}",
        "{{ 0x" + "f" * 5000 + " }}",
    ],
)
def test_template_outside_the_language_is_refused_when_it_is_saved(source: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_template(source)
    assert refused.value.slug == "bad_template"
    assert refused.value.hint


@pytest.mark.parametrize("name", ["__class__", "__init__", "upper", "gi_frame", "__globals__"])
def test_attributes_of_python_objects_cannot_be_reached(name: str) -> None:
    for value in ("text", ["list"], {"a": 1}, 1, None):
        for source in (f"{{{{ x.{name} }}}}", f"{{{{ x['{name}'] }}}}"):
            assert refuse(source, x=value).slug == "missing_parameter"


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ("{% for a in xs %}{% for b in xs %}{% endfor %}{% endfor %}", {"xs": MANY}),
        ("{% for a in xs if a < 0 %}{% endfor %}" * 20, {"xs": MANY}),
        ("{% for a in xs %}{{ a }}{% endfor %}", {"xs": MANY * 4}),
        ("{% for a in xs %}{{ 'x' in text }}{% endfor %}", {"xs": MANY, "text": "a" * 100_000}),
        ("{% for a in xs %}{{ deep | json | length }}{% endfor %}", {"xs": MANY, "deep": [[MANY]]}),
        ("{{ " + "x ~ " * 500 + "x }}", {"x": "a" * 100_000}),
        ("{{ " + "x + " * 30 + "x }}", {"x": "a" * 1_000_000}),
        ("{{ xs | join(long) }}", {"xs": ["a"] * 5000, "long": "b" * 50_000}),
    ],
)
def test_work_of_a_template_is_bounded_whatever_the_data(source: str, values: dict[str, Any]) -> None:
    assert "too much work" in refuse(source, **values).message


class CountedNumber(int):
    """Counts how often numbers are hashed, compared, added or shown, by Python's own functions, too."""

    count = 0

    def __hash__(self) -> int:
        CountedNumber.count += 1
        return int.__hash__(self)

    def __eq__(self, other: object) -> bool:
        CountedNumber.count += 1
        return int.__eq__(self, other)

    def __lt__(self, other: int) -> bool:
        CountedNumber.count += 1
        return int.__lt__(self, other)

    def __gt__(self, other: int) -> bool:
        CountedNumber.count += 1
        return int.__gt__(self, other)

    def __add__(self, other: int) -> int:
        CountedNumber.count += 1
        return int.__add__(self, other)

    def __radd__(self, other: int) -> int:
        CountedNumber.count += 1
        return int.__radd__(self, other)

    def __repr__(self) -> str:
        CountedNumber.count += 1
        return int.__repr__(self)


def measure(source: str, values: dict[str, Any]) -> tuple[str, int, int]:
    """Return the error or the text of a template, how many numbers it touched, and the memory that it took."""
    check_template(source)
    CountedNumber.count = 0
    tracemalloc.start()
    try:
        text = render_template(source, values)
    except InvalidRequest as error:
        text = error.message
    finally:
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return text, CountedNumber.count, peak_bytes


# As large as parameters may be. Texts have characters that take four bytes, and become longer as JSON.
LARGE: dict[str, Any] = {
    "text": '\x01"🦙' * (PARAMETERS_BYTES_MAX // 8),
    "digits": "9" * PARAMETERS_BYTES_MAX,
    "words": ["word"] * (PARAMETERS_BYTES_MAX // 8),
    "texts": ["w" * 4000] * (PARAMETERS_BYTES_MAX // 4000),
    "numbers": [CountedNumber(number % 1000) for number in range(PARAMETERS_BYTES_MAX // 4)],
    "few": [CountedNumber(number) for number in range(2000)],
    "pairs": {f"key {number}": CountedNumber(number) for number in range(PARAMETERS_BYTES_MAX // 16)},
    "number": CountedNumber(7),
    "long": int("9" * 4000),
    "longs": [int("9" * 4000)] * (PARAMETERS_BYTES_MAX // 4000),
}
# A text of the whole budget is copied a few times, with four bytes for a character, and may be longer as JSON.
BYTES_MAX = WORK_MAX * 64 * 4 * 10
# Sorting looks at each number some times.
TOUCHES_MAX = WORK_MAX * 20
TUPLES = "{% for a in [(number, number)] %}" + "{% for a in [(a, a, a, a)] %}" * 12 + "{{ BODY }}" + "{% endfor %}" * 13


@pytest.mark.behaviour("TASK-25")
@pytest.mark.parametrize(
    "source",
    [
        "{{ text | join(text) }}",
        "{{ text | join(separator=text) }}",
        "{{ text | join }}",
        "{{ pairs | join(text) }}",
        "{{ texts | join(digits) }}",
        "{{ text | unique }}",
        "{{ text | sort | length }}",
        "{{ text | list | length }}",
        "{{ text | max }}",
        "{{ text | sum }}",
        "{{ few | sum([]) }}",
        "{{ 5 | round(-100000000) }}",
        "{{ 5 | round(100000000) }}",
        "{{ few[numbers] }}",
        "{% for x in few %}{{ few[few] | d('') }}{% endfor %}",
        "{% for x in words %}{% if x == long %}{% endif %}{% endfor %}",
        TUPLES.replace("BODY", "{a: 1} | length"),
        TUPLES.replace("BODY", "pairs[a] | d('')"),
        TUPLES.replace("BODY", "a in pairs"),
        TUPLES.replace("BODY", "a | json | length"),
        "{% for a in [text] %}" + "{% for a in [a ~ a] %}" * 12 + "{{ a | length }}" + "{% endfor %}" * 13,
        "{% for a in [words] %}" + "{% for a in [a + a] %}" * 12 + "{{ a | length }}" + "{% endfor %}" * 13,
        "{{ text" + " | json" * 30 + " | length }}",
    ],
)
def test_template_that_multiplies_its_data_is_refused_before_it_does(source: str) -> None:
    text, touches, peak_bytes = measure(source, LARGE)
    assert "too much work" in text or "cannot be used" in text
    assert touches <= TOUCHES_MAX
    assert peak_bytes <= BYTES_MAX


@pytest.mark.parametrize("source", ["{{ text | first }}{{ text | last }}", "{{ few | join(', ') | length }}"])
def test_large_data_can_be_used_within_the_budget(source: str) -> None:
    assert render_template(source, LARGE)


def test_index_that_is_a_list_or_mapping_is_named_by_its_type() -> None:
    for index, name in (([1], "list"), ({}, "dict"), (None, "NoneType"), ("key", "key"), (1.5, "1.5")):
        assert refuse("{{ x[index] }}", x={}, index=index).details["parameter"] == name
    assert refuse("{{ x[index] }}", x={}).details["parameter"] == "index"


OPERANDS = ("text", "pairs", "long")
ARGUMENTS = ("text", "numbers", "-99999999")
WITH_ARGUMENTS = ("default", "float", "int", "join", "round", "truncate")
OPERATORS = ("+", "-", "~", "<", "==", "in")


@pytest.mark.behaviour("TASK-25")
@pytest.mark.parametrize(
    "expression",
    [
        *(f"{value} | {name}" for name in FILTER_NAMES for value in OPERANDS),
        *(f"{value} | {name}({other})" for name in WITH_ARGUMENTS for value in OPERANDS for other in ARGUMENTS),
        *(f"{value} {operator} {other}" for operator in OPERATORS for value in OPERANDS for other in ARGUMENTS),
        *(f"{value}[{other}]" for value in OPERANDS for other in ARGUMENTS),
    ],
)
def test_no_filter_or_operator_works_more_than_its_budget_on_large_data(expression: str) -> None:
    _, touches, peak_bytes = measure("{{ (" + expression + ") is defined }}", LARGE)
    assert touches <= TOUCHES_MAX
    assert peak_bytes <= BYTES_MAX


expressions = st.recursive(
    st.sampled_from(
        [*LARGE, "missing", "item", "loop.index", "1", "-1", "-99999999", "99999999", "1.5", "'ab'", "[]", "true"]
    ),
    lambda inner: st.one_of(
        st.builds("({} | {})".format, inner, st.sampled_from(FILTER_NAMES)),
        st.builds("({} | {}({}))".format, inner, st.sampled_from(FILTER_NAMES), inner),
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "~", "<", "==", "in", "and", "or"]), inner),
        st.builds("{}[{}]".format, st.sampled_from([*LARGE, "item"]), inner),
        st.builds("[{}, {}]".format, inner, inner),
        st.builds("({}, {})".format, inner, inner),
        st.builds("{{{}: {}}}".format, inner, inner),
        st.builds("({} if {} else {})".format, inner, inner, inner),
    ),
    max_leaves=6,
)
statements = st.recursive(
    st.builds("{{{{ {} }}}}".format, expressions),
    lambda inner: st.one_of(
        st.builds("{{% for item in {} %}}{}{{% endfor %}}".format, expressions, inner),
        st.builds("{{% for item in {} if {} %}}{}{{% endfor %}}".format, expressions, expressions, inner),
        st.builds("{{% for item in [[item, item, item]] %}}{}{{% endfor %}}".format, inner),
        st.builds("{{% for item in [(item, item, item)] %}}{}{{% endfor %}}".format, inner),
        st.builds("{{% for item in [item ~ item] %}}{}{{% endfor %}}".format, inner),
        st.builds("{{% if {} %}}{}{{% endif %}}{}".format, expressions, inner, inner),
    ),
    max_leaves=4,
)


@pytest.mark.behaviour("TASK-25")
@settings(max_examples=300)
@given(source=statements)
def test_no_small_template_works_more_than_its_budget_whatever_it_does_with_large_data(source: str) -> None:
    _, touches, peak_bytes = measure(source, LARGE | {"item": LARGE["number"]})
    assert touches <= TOUCHES_MAX
    assert peak_bytes <= BYTES_MAX


@pytest.mark.parametrize("source", ["{{ x" + "+x" * 30_000 + " }}", "{{ a }} " * 8_000, "{% if x" * 9_000])
def test_template_with_too_many_parts_is_refused_before_it_is_parsed(
    monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    parsed: list[str] = []
    monkeypatch.setattr(SandboxedEnvironment, "parse", lambda _, text: parsed.append(text))
    with pytest.raises(InvalidRequest) as refused:
        check_template(source)
    assert ("too many parts" in refused.value.message, parsed) == (True, [])


def test_output_of_a_template_is_bounded() -> None:
    assert "more than" in refuse("{{ x }}{{ x }}", x="a" * (OUTPUT_MAX // 2 + 1)).message
    assert len(render_template("{{ x }}", {"x": "a" * OUTPUT_MAX})) == OUTPUT_MAX


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ("{% for x in n %}{% endfor %}", {"n": 5}),
        ("{{ n < 'text' }}", {"n": 5}),
        ("{{ n + 'text' }}", {"n": 5}),
        ("{{ n | first }}", {"n": []}),
        ("{{ n | upper(1, 2) }}", {"n": "a"}),
    ],
)
def test_values_that_do_not_fit_are_an_error_of_the_request(source: str, values: dict[str, Any]) -> None:
    assert refuse(source, **values).slug == "bad_template"


def test_parameter_name_cannot_replace_what_templates_are_compiled_to() -> None:
    assert refuse("{{ x }}", x=1, _show=print).slug == "bad_parameter"


def test_parameters_of_a_template_are_listed_without_its_loop_variables() -> None:
    assert list_parameters("{{ b }}{% for x in a.list %}{{ x }}{{ loop.index }}{% endfor %}") == ["a", "b"]


def test_template_is_parsed_once_for_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    source, parse = "{{ parsed }} {{ once }}", SandboxedEnvironment.parse
    parsed: list[str] = []

    def parse_counted(environment: SandboxedEnvironment, text: str) -> Any:
        parsed.append(text)
        return parse(environment, text)

    monkeypatch.setattr(SandboxedEnvironment, "parse", parse_counted)
    for _ in range(3):
        assert list_parameters(source) == ["once", "parsed"]
        assert refuse(source, once=1).details["missing"] == ["parsed"]
    # The other time is for rendering it.
    assert len(parsed) == 2


data = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
pieces = st.sampled_from(
    ["{{ x }}", "{{ x.a }}", "{{ x | upper }}", "{{ x | length }}", "{{ x ~ y }}", "{{ x + y }}", "{{ x[0] }}", "text",
     "{% for i in x %}{{ i }}{% endfor %}", "{% if x %}{{ y }}{% endif %}", "{{ x | sort }}", "{{ x | sum }}",
     "{{ x | json }}", "{{ x < y }}", "{{ x in y }}", "{{ x | round }}", "{{ x | items }}", "{{ x | d(y) }}",
     "{{ x is string }}", "{{ x | unique }}", "{{ x | int }}", "{{ x.a.b | first }}", "{{ -x }}", "{{ x - y }}"]
)  # fmt: skip


@given(parts=st.lists(pieces, max_size=6), x=data, y=data)
def test_template_renders_or_is_refused_with_a_sentence_whatever_the_data(parts: list[str], x: Any, y: Any) -> None:
    try:
        rendered = render_template("".join(parts), {"x": x, "y": y})
    except InvalidRequest as error:
        rendered = error.message
    assert isinstance(rendered, str)
