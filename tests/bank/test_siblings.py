from toolbank.bank.records import Tool, group_siblings


def tool(name, kind="method", summary="Whether a date is one."):
    return Tool(name=name, kind=kind, summary=summary)


def groups(*tools):
    return [[tool.name for tool in group] for group in group_siblings(tools)]


def test_members_of_several_classes_with_the_same_text_are_siblings():
    siblings = [
        tool("t.Day.is_it"),
        tool("t.Hour.is_it", summary="Whether a date  is one."),
    ]
    others = [
        tool("t.Week.is_it", summary="Whether a week is one."),
        tool("t.Year.is_it", "property"),
        tool("t.Year.was_it"),
        tool("t.a.mean", "function"),
        tool("t.b.mean", "function"),
    ]
    assert groups(*siblings, *others) == [
        [one.name for one in siblings],
        *([one.name] for one in others),
    ]
