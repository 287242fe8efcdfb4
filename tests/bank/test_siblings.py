from toolbank.bank.records import Tool
from toolbank.bank.twins import group_siblings


def tool(name, kind="method", summary="Whether a date is one."):
    return Tool(name=name, kind=kind, summary=summary)


def groups(*tools):
    return [[tool.name for tool in group] for group in group_siblings(tools)]


def test_members_of_several_classes_with_the_same_text_are_siblings():
    assert groups(
        tool("t.Day.is_it"),
        tool("t.Day.parts", summary="Its parts."),
        tool("t.Week.is_it", summary="Whether a date  is one."),
    ) == [["t.Day.is_it", "t.Week.is_it"], ["t.Day.parts"]]


def test_another_text_kind_or_name_makes_another_tool():
    tools = [
        tool("t.Day.is_it"),
        tool("t.Week.is_it", summary="Whether a week is one."),
        tool("t.Year.is_it", "property"),
        tool("t.Year.was_it"),
    ]
    assert groups(*tools) == [[one.name] for one in tools]


def test_functions_of_several_modules_are_no_siblings():
    assert len(groups(tool("t.a.mean", "function"), tool("t.b.mean", "function"))) == 2
