"""Let OpenAI's models find tools with a finder: a tool search executed by the client.

    python examples/agents/openai_search.py finder "middle value of house prices, ignoring blanks"

Needs `pip install openai` and OPENAI_API_KEY. The model sees none of the tools but those that the
search gives it.
"""

import json
import sys

from openai import OpenAI

import toolbank

MODEL = "gpt-5.5"
SEARCH = {
    "type": "tool_search",
    "execution": "client",
    "description": "Find tools by what is to be done. Search before saying that you can't.",
    "parameters": {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
        "additionalProperties": False,
    },
}


def call(tool, arguments):
    """Replace this by your own call of the tool."""
    return f"{tool.name} was called with {json.dumps(arguments)}"


def use(finder, item):
    """Answer a search, or a call of a tool that it found."""
    if item.type == "tool_search_call":
        hits = finder.answer(item.arguments["query"]).hits
        functions = [finder.function(hit.tool)["function"] for hit in hits]
        return {
            "type": "tool_search_output",
            "call_id": item.call_id,
            "execution": "client",
            "status": "completed",
            "tools": [
                {"type": "function", "defer_loading": True, **one} for one in functions
            ],
        }
    output = call(finder.describe(item.name), json.loads(item.arguments))
    return {"type": "function_call_output", "call_id": item.call_id, "output": output}


def run(client, finder, request):
    """Work on a request until the model is done, and return its last text."""
    items = [{"role": "user", "content": request}]
    while True:
        answer = client.responses.create(model=MODEL, tools=[SEARCH], input=items)
        items += answer.output
        uses = [
            item
            for item in answer.output
            if item.type in {"tool_search_call", "function_call"}
        ]
        if not uses:
            return answer.output_text
        items += [use(finder, item) for item in uses]


if __name__ == "__main__":
    print(run(OpenAI(), toolbank.load(sys.argv[1]), sys.argv[2]))
