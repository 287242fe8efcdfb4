"""What who starts a server is shown of the calls that it lets through."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from toolbank.bank.records import HttpCall, McpCall, Tool
from toolbank.calls.addresses import is_private
from toolbank.calls.caller import Caller
from toolbank.system.secrets import mask_command


def describe_leave(caller: Caller, tools: Iterable[Tool]) -> list[str]:
    """Lines on where the calls of tools go, and what to write down for those that go nowhere.

    The caller has learnt which servers there are.
    """
    counts: dict[str, int] = {}
    targets = caller.targets
    kept: dict[str, int] = {}
    lacks: dict[str, dict[str, object]] = {}
    used: set[str] = set()
    for tool in tools:
        call = tool.call
        if not caller.allows(tool) or not isinstance(call, HttpCall | McpCall):
            continue
        target = caller.find_target(tool)
        if target is None:
            first, *plainer = caller.keys(tool)
            lacks.setdefault(plainer[0] if plainer else first, _propose(call))
            continue
        used |= {name for name, one in targets.items() if one is target}
        place = target.url or target.mcp or " ".join(mask_command(target.command))
        found = counts if caller.lets(tool) else kept
        found[place] = found.get(place, 0) + 1
    lines = [
        f"calls of {count:,} tools go to {place}" for place, count in counts.items()
    ]
    lines += [
        f"{count:,} tools of {place} may change something, and are called with --call-writes alone"
        for place, count in kept.items()
    ]
    if lacks:
        proposed = yaml.safe_dump(
            {"sources": lacks}, sort_keys=False, allow_unicode=True
        )
        lines.append(
            "calls of these sources go nowhere yet; what their descriptions propose, for "
            f"--call-config FILE, to be looked at first:\n{proposed}"
        )
    if not counts and not kept and not lacks:
        lines.append("no tool that can be called fits --call")
    for name, target in targets.items():
        if name not in used:
            lines.append(
                f"--call-config: {name} is the source of no tool that fits --call and can be "
                "called so"
                + (f"; is it one of {', '.join(lacks)} by now?" if lacks else "")
            )
        if is_private(target.url or target.mcp) and not target.private:
            lines.append(
                f"--call-config: {name}: the address is not a public one; without `private: true` "
                "its calls will fail"
            )
        if unset := target.unset():
            lines.append(
                f"--call-config: {name}: {', '.join(unset)} not set; its calls will fail"
            )
    return lines


def _propose(call: HttpCall | McpCall) -> dict[str, object]:
    if isinstance(call, McpCall):
        return {"command": ["..."]}
    return {"url": call.server or "https://..."}
