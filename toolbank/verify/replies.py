"""Reading the grades of a reply."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from toolbank.bank.bank import Label
from toolbank.llm.chat import ChatReply, Rejection, check_finish, find_answer
from toolbank.system.terminal import one_line

_EXCERPT = 100
_REASON = 400
NOTHING = "none of the candidates is needed"


def read_grades(
    reply: ChatReply, query: str, candidates: Collection[str]
) -> tuple[Label, ...] | Rejection:
    """The labels of a request, by its id, or why the reply gives none.

    Rejected, beside what `check_finish` and `find_answer` say, as `wrong-schema`, `not-offered` (a
    tool that is no candidate), `graded-twice`, or `stands-for-nothing` (an alternative to a tool
    that is not needed). A request that is set aside, or for which nothing is needed, has one
    label. Nothing that a reply can hold raises.
    """
    answer = check_finish(reply) or find_answer(reply.text, ["needed", "aside"])
    if isinstance(answer, Rejection):
        return answer
    aside = answer.get("aside") or ""
    if not isinstance(aside, str):
        return Rejection("wrong-schema", f"aside is {one_line(str(aside), _EXCERPT)}")
    needed, others = answer.get("needed") or [], answer.get("alternatives") or []
    labels: list[Label] = []
    for rows, grade in ((needed, "needed"), (others, "alternative")):
        if not isinstance(rows, list):
            return Rejection("wrong-schema", one_line(str(rows), _EXCERPT))
        for row in rows:
            label = _read(row, grade, query, candidates)
            if isinstance(label, Rejection):
                return label
            labels.append(label)
    if said := one_line(aside, _REASON):
        return (Label(query=query, grade="aside", reason=said),)
    graded = [label.tool for label in labels]
    if twice := [tool for tool in graded if graded.count(tool) > 1]:
        return Rejection("graded-twice", twice[0])
    wanted = {label.tool for label in labels if label.grade == "needed"}
    for label in labels:
        if label.grade == "alternative" and label.stands_for not in wanted:
            return Rejection(
                "stands-for-nothing",
                f"{label.tool} for {one_line(label.stands_for, _EXCERPT)}",
            )
    return tuple(labels) or (Label(query=query, grade="aside", reason=NOTHING),)


def _read(
    row: object, grade: str, query: str, candidates: Collection[str]
) -> Label | Rejection:
    if not isinstance(row, Mapping) or not isinstance(row.get("tool"), str):
        return Rejection("wrong-schema", one_line(str(row), _EXCERPT))
    if row["tool"] not in candidates:
        return Rejection("not-offered", one_line(row["tool"], _EXCERPT))
    reason = one_line(str(row.get("why") or ""), _REASON)
    if grade == "needed":
        return Label(query=query, tool=row["tool"], grade="needed", reason=reason)
    stands_for = str(row.get("for") or "")
    return Label.alternative(query, row["tool"], stands_for, reason)
