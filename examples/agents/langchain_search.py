"""Show a LangChain agent the tools for its request; works with any model.

    python examples/agents/langchain_search.py finder "middle value of house prices, ignoring blanks"

Needs `pip install langchain langchain-openai` and OPENAI_API_KEY.
"""

import json
import sys

from langchain.agents import create_agent
from langchain.agents.middleware import wrap_model_call
from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI

import toolbank

MODEL = "gpt-5.5"


def call(tool, arguments):
    """Replace this by your own call of the tool."""
    return f"{tool.name} was called with {json.dumps(arguments)}"


def as_langchain(finder, tool):
    """Convert a tool of the finder to LangChain's."""
    function = finder.function(tool)["function"]

    def run_tool(**arguments):
        return call(tool, arguments)

    return StructuredTool(
        name=function["name"],
        description=function["description"],
        args_schema=function["parameters"],
        func=run_tool,
    )


def make_agent(model, finder, k=5):
    """Build an agent with all tools that sees the top k for the last request."""
    tools = {tool.name: as_langchain(finder, tool) for tool in finder.tools}

    @wrap_model_call
    def show_what_fits(request, handler):
        asked = [one.text for one in request.messages if isinstance(one, HumanMessage)]
        hits = finder.answer(asked[-1], k).hits
        return handler(request.override(tools=[tools[hit.tool.name] for hit in hits]))

    return create_agent(model, list(tools.values()), middleware=[show_what_fits])


def run(model, finder, request):
    """Work on a request until the model is done, and return its last text."""
    agent = make_agent(model, finder)
    return agent.invoke({"messages": [HumanMessage(request)]})["messages"][-1].text


if __name__ == "__main__":
    print(run(ChatOpenAI(model=MODEL), toolbank.load(sys.argv[1]), sys.argv[2]))
