"""Let clients of a FastMCP server find its tools with a finder instead of BM25.

Needs `pip install fastmcp`. Pack the finder from a run whose source is this server: see
docs/sources.md. In your server:

    server.add_transform(FinderSearch(toolbank.load("finder")))
"""

import asyncio

from fastmcp.server.transforms.search import BM25SearchTransform


class FinderSearch(BM25SearchTransform):
    """FastMCP's `search_tools` and `call_tool`, with a finder's search.

    It returns only tools that both the finder and the client's view of the server contain.
    """

    def __init__(self, finder, **options):
        super().__init__(**options)
        self._finder = finder

    async def _search(self, tools, query):
        seen = {tool.name: tool for tool in tools}
        k = min(len(self._finder.tools), self._max_results + 20)
        answer = await asyncio.to_thread(self._finder.answer, query, k)
        names = [getattr(hit.tool.call, "tool", hit.tool.name) for hit in answer.hits]
        return [seen[name] for name in names if name in seen][: self._max_results]
