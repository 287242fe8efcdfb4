"""Let Claude find tools with a finder: a custom tool search with tool references.

    python examples/agents/anthropic_search.py finder "middle value of house prices, ignoring blanks"

Needs `pip install anthropic` and ANTHROPIC_API_KEY. All tools (at most 10,000) are sent with
deferred loading: they cost the model nothing until the search refers to them.
"""

import json
import sys

from anthropic import Anthropic

import toolbank

MODEL = "claude-sonnet-5-5"
SEARCH = {
    "name": "search_tools",
    "description": "Find tools by what is to be done. Search before saying that you can't.",
    "input_schema": {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
    },
}


def call(tool, arguments):
    """Replace this by your own call of the tool."""
    return f"{tool.name} was called with {json.dumps(arguments)}"


def use(finder, block):
    """Answer one tool use: a search, or a call of a tool that it found."""
    if block.name == SEARCH["name"]:
        hits = finder.answer(block.input["query"]).hits
        result = [
            {
                "type": "tool_reference",
                "tool_name": finder.function(hit.tool)["function"]["name"],
            }
            for hit in hits
        ] or "No tool is found."
    else:
        result = call(finder.describe(block.name), block.input)
    return {"type": "tool_result", "tool_use_id": block.id, "content": result}


def run(client, finder, request):
    """Work on a request until the model is done, and return its last text."""
    deferred = [
        {**finder.function(tool, "anthropic"), "defer_loading": True}
        for tool in finder.tools
    ]
    messages = [{"role": "user", "content": request}]
    while True:
        answer = client.messages.create(
            model=MODEL, max_tokens=2000, tools=[SEARCH, *deferred], messages=messages
        )
        messages.append({"role": "assistant", "content": answer.content})
        uses = [block for block in answer.content if block.type == "tool_use"]
        if not uses:
            return "".join(
                block.text for block in answer.content if block.type == "text"
            )
        results = [use(finder, block) for block in uses]
        messages.append({"role": "user", "content": results})


if __name__ == "__main__":
    print(run(Anthropic(), toolbank.load(sys.argv[1]), sys.argv[2]))
