import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import StrictUndefined, UndefinedError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from toolbank.llm.sandbox import Sandbox

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
