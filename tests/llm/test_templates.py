import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import StrictUndefined, UndefinedError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from toolbank.llm.sandbox import Sandbox
from toolbank.llm.templates import PromptTemplate, check_template
from toolbank.system.errors import InputError

PLAIN = ImmutableSandboxedEnvironment(undefined=StrictUndefined)
OURS = Sandbox(undefined=StrictUndefined)

NAMES = st.sampled_from(["name", "items", "keys", "get", "last", "index", "first"])
VALUES = st.recursive(
    st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner),
)


def rendered(environment, source, value):
    try:
        return environment.from_string(source).render(value=value)
    except (UndefinedError, SecurityError, TypeError) as error:
        return type(error), str(error)


@given(VALUES, NAMES, NAMES)
def test_values_are_looked_up_as_in_jinjas_own_sandbox(value, outer, inner):
    source = (
        f"{{{{ value.{outer} }}}} {{{{ value['{inner}'] }}}}"
        f"{{% for one in [value, 1, value] %}}{{{{ loop.{inner} }}}}, {{% endfor %}}"
    )
    shown, plain = (rendered(each, source, value) for each in (OURS, PLAIN))
    if isinstance(plain, str) and " at 0x" in plain:  # a method, or the loop's
        assert isinstance(shown, str)
    else:
        assert shown == plain


@pytest.mark.parametrize(
    "source",
    [
        "{{ value.__class__ }}",
        "{{ value.__init__.__globals__ }}",
        "{{ value.update({'a': 1}) }}",
        "{% for one in [1] %}{{ loop._iterable }}{% endfor %}",
        "{% for one in [1] %}{{ loop.__class__ }}{% endfor %}",
        "{{ value.missing }}",
    ],
)
def test_the_sandbox_is_as_closed_as_jinjas_own(source):
    shown, plain = (rendered(each, source, {"name": 1}) for each in (OURS, PLAIN))
    assert shown == plain
    assert not isinstance(shown, str)


LARGE = [
    "{{ 'a' * 10**9 }}",
    "{{ 10**9 * 'a' }}",
    "{{ [value] * 10**9 }}",
    "{{ 9**(9**9) }}",
    "{% for one in range(99999) %}{{ 'a' * 999 }}{% endfor %}",
]
ENDLESS = [
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{% if value %}{{ m() }}{% endif %}{% endmacro %}{{ m() }}",
]


@pytest.mark.parametrize("source", [*LARGE, *ENDLESS])
def test_an_endless_prompt_names_its_file(source, tmp_path, monkeypatch):
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "big.j2").write_text(f"Hello.\n{source}")
    monkeypatch.chdir(tmp_path)
    why = "10,000,000" if source in LARGE else "recursion"
    with pytest.raises(InputError, match=rf"big\.j2, line .*{why}"):
        PromptTemplate("big.j2").render(value="a")


@pytest.mark.parametrize(
    "text",
    [
        "{{ " + "(" * 3_000 + "1" + ")" * 3_000 + " }}",
        "{% for a in [1] %}" * 30 + "{% endfor %}" * 30,
        "{% if 1 %}" * 150 + "{% endif %}" * 150,
    ],
)
def test_a_template_that_is_nested_too_deeply_is_refused_by_its_file(text, tmp_path):
    path = tmp_path / "deep.j2"
    path.write_text(text)
    with pytest.raises(InputError, match=r"deep\.j2, line "):
        check_template(path)
