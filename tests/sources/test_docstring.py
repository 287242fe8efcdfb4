import json
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolbank.sources.python.docstring import plain, plain_line, read_docstring
from toolbank.sources.typetext import parameters_schema

FRAGMENTS = st.lists(
    st.sampled_from(
        [
            *("Parameters\n----------\n", "Returns\n-------\n", "See Also\n--------\n"),
            *("Notes\n-----\n", "Args:\n", "Returns:\n", "    x (int): A number.\n"),
            *(":param x: A number.\n", "x : {'a', 'b'}, optional\n    Which.\n"),
            *("f(x, [y, z=1])\n", ".. deprecated:: 1.0\n    Gone.\n", ".. note::\n"),
            *("name : text, other\n", "::\n", "\n", "`", "``", "*", ":func:`~a.b`"),
            *("Some words.", "\t", "===\n"),
        ]
    )
    | st.text(max_size=12)
).map("".join)


@given(FRAGMENTS | st.text())
def test_no_docstring_is_refused(text: str) -> None:
    documented = read_docstring(text)
    assert "\n" not in documented.summary
    parameters_schema(documented.parameters)
    json.dumps([item.model_dump() for item in documented.see_also])


@given(FRAGMENTS | st.text())
def test_no_markup_is_refused(text: str) -> None:
    plain(text)
    assert "\n" not in plain_line(text)


def test_links_and_roles_leave_their_words() -> None:
    text = ":func:`the sum <numpy.sum>`, :mod:`!os`, `a page <https://a.b>`_ and **so**"
    assert plain(text) == "the sum, os, a page and so"


def test_numpydoc_sections_become_fields() -> None:
    documented = read_docstring(
        """
        clip(a, low, /)

        Limit the *values* of ``a``, see :func:`~numpy.minimum`.

        More words [1]_.

        .. versionadded:: 1.2

        Parameters
        ----------
        a, b : array_like
            What to `limit`.
        \\*args
            Further.

        Returns
        -------
        out : ndarray
            The result.

        See Also
        --------
        numpy.fmin, fmax : Ignoring gaps.
        other

        Notes
        -----
        A note.

        Examples
        --------
        >>> clip([1], 2)
        """
    )
    assert documented.signature == "clip(a, low, /)"
    assert documented.summary == "Limit the values of a, see minimum."
    assert documented.description == "More words."
    assert [
        (item.name, item.classifier, item.description) for item in documented.parameters
    ] == [
        ("a", "array_like", "What to limit."),
        ("b", "array_like", "What to limit."),
        ("*args", "", "Further."),
    ]
    assert [(item.name, item.type) for item in documented.returns] == [
        ("out", "ndarray")
    ]
    assert [(item.name, item.description) for item in documented.see_also] == [
        ("numpy.fmin", "Ignoring gaps."),
        ("fmax", "Ignoring gaps."),
        ("other", ""),
    ]
    assert documented.notes == "A note."
    assert documented.examples == ">>> clip([1], 2)"


def test_a_broken_section_costs_only_itself() -> None:
    documented = read_docstring(
        """Do it.

        Parameters
        ----------
        x : int
            A number.

        See Also
        --------
        this is : : not a list of names !!
        ` `

        Returns
        -------
        y : int

        Returns
        -------
        z : int
        """
    )
    assert documented.summary == "Do it."
    assert [item.name for item in documented.parameters] == ["x"]
    assert [item.name for item in documented.returns] == ["y"]


GOOGLE = """Send a message.

    It is queued first.

    Args:
        to (str): Who gets it.
        body: The words, which may
            go on.
        urgent (bool, optional): At once.

    Returns:
        bool: Whether it was sent.

    Raises:
        ValueError: No receiver.
    """

FIELDS = """Send a message.

    It is queued first.

    :param str to: Who gets it.
    :param body: The words, which may
        go on.
    :param urgent: At once.
    :type urgent: bool, optional
    :returns: Whether it was sent.
    :rtype: bool
    """


@pytest.mark.parametrize("text", [GOOGLE, FIELDS])
def test_other_styles_say_the_same(text: str) -> None:
    documented = read_docstring(text)
    assert documented.summary == "Send a message."
    assert documented.description == "It is queued first."
    assert [
        (item.name, item.classifier, item.description) for item in documented.parameters
    ] == [
        ("to", "str", "Who gets it."),
        ("body", "", "The words, which may go on."),
        ("urgent", "bool, optional", "At once."),
    ]
    assert [(item.type, item.description) for item in documented.returns] == [
        ("bool", "Whether it was sent.")
    ]


def test_plain_words_are_summary_and_description() -> None:
    documented = read_docstring("Do it\nquickly.\n\nOr not.\n")
    assert (documented.summary, documented.description) == ("Do it quickly.", "Or not.")
    assert read_docstring(None) == read_docstring("")


def test_a_long_first_paragraph_gives_its_first_sentence() -> None:
    more = (
        "It goes on, e.g. like this, for many more words than a summary may have. " * 3
    )
    documented = read_docstring(f"Do it well. {more}")
    assert documented.summary == "Do it well."
    assert documented.description == more.strip()


def test_directives_that_say_something_keep_their_words() -> None:
    text = dedent(
        """
        Before.

        .. note::
           Mind `this`.

        .. math:: x^2

        .. code-block:: python
           :linenos:

           f(x)

        After.
        """
    )
    assert plain(text).split("\n\n") == ["Before.", "Mind this.", "f(x)", "After."]


def test_the_title_of_a_module_is_no_section() -> None:
    documented = read_docstring(
        "Fourier transforms\n==================\n\nFor signals.\n"
    )
    assert documented.summary == "Fourier transforms"
    assert documented.description == "For signals."


def test_exceptions_and_warnings_of_numpydoc_are_read() -> None:
    found = read_docstring(
        """Divide.

        Raises
        ------
        ValueError
            If `b` is zero.

        Warns
        -----
        RuntimeWarning
            It may be slow.
        """
    )
    assert [(item.type, item.description) for item in found.raises] == [
        ("ValueError", "If b is zero."),
        ("RuntimeWarning", "It may be slow."),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Divide.\n\nRaises:\n    ValueError: If `b` is\n        zero.\n    a.OddError: Else.",
        "Divide.\n\n:raises ValueError: If `b` is\n    zero.\n:raise a.OddError: Else.",
    ],
)
def test_exceptions_of_other_styles_are_read(text: str) -> None:
    assert [(item.type, item.description) for item in read_docstring(text).raises] == [
        ("ValueError", "If b is zero."),
        ("a.OddError", "Else."),
    ]


def test_version_notes_name_the_parameter_that_they_stand_in() -> None:
    found = read_docstring(
        """Divide.

        .. versionadded:: 1.2

        .. deprecated:: 2.0.0
           Use `multiply`
           instead.

        Parameters
        ----------
        a, b : int
            Numbers.

            .. versionchanged:: 1.5 May be zero.

        Returns
        -------
        int
            The ratio.
        """
    )
    assert [
        (note.change, note.version, note.description, note.parameter)
        for note in found.versions
    ] == [
        ("added", "1.2", "", ""),
        ("deprecated", "2.0.0", "Use multiply instead.", ""),
        ("changed", "1.5", "May be zero.", "a"),
        ("changed", "1.5", "May be zero.", "b"),
    ]


def test_a_parameter_without_a_blank_before_its_colon_keeps_name_and_type() -> None:
    documented = read_docstring(
        """Copy it.

        Parameters
        ----------
        copy: bool
            Whether to copy.
        how: {'a', 'b'}, optional
            In which way.
        u, v: dict of str : int
            Two of them.
        last : int
            As it should be.
        """
    )
    assert [(item.name, item.classifier) for item in documented.parameters] == [
        ("copy", "bool"),
        ("how", "{'a', 'b'}, optional"),
        ("u", "dict of str : int"),
        ("v", "dict of str : int"),
        ("last", "int"),
    ]
    assert documented.parameters[0].description == "Whether to copy."
