"""An agent's session with a served finder: thirty requests, and what comes.

python benchmarks/serve/mcp_session.py FINDER
"""

import re
import subprocess
import sys

import anyio
from mcp import Client, StdioServerParameters

REQUESTS = """read the last ten commits of a repository
open a pull request
what is the weather in Oslo tomorrow
send a message to a Slack channel
find flights from Berlin to Lisbon
take a screenshot of a web page
run a SQL query against Postgres
list the tables of a database
create an issue in Jira
remember that my sister is allergic to nuts
what time is it in Tokyo
convert 40 dollars to euros
search the web for news about chips
transcribe a video from YouTube
upload a file to Google Drive
schedule a meeting with Anna on Friday
play the next song on Spotify
turn off the lights in the kitchen
get the price of Bitcoin
restart a pod in Kubernetes
show the logs of a container
generate an image of a cat
translate this letter into French
look up a paper on arXiv
add a row to a Google sheet
delete a branch
fill in a form on a web page
scan a host for open ports
peel three potatoes
forgive my neighbour""".splitlines()


async def session(where):
    async with Client(where) as client:
        print([tool.name for tool in (await client.list_tools()).tools])
        for request in REQUESTS:
            result = await client.call_tool("search_tools", {"query": request, "k": 3})
            found = result.structured_content
            hits = [f"{hit['name']} {hit['score']:.2f}" for hit in found["hits"]]
            print(
                f"{request:48} {'nothing fits' if found['none'] else ', '.join(hits)}"
            )


def main(finder):
    serve = [sys.executable, "-m", "toolbank", "serve", finder]
    print("stdio")
    anyio.run(
        session, StdioServerParameters(command=serve[0], args=[*serve[1:], "--mcp"])
    )
    server = subprocess.Popen(
        [*serve, "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    address = re.search(r"http://\S+", server.stdout.readline())[0]
    print("http")
    anyio.run(session, f"{address}mcp")
    server.terminate()
    server.wait()


if __name__ == "__main__":
    main(sys.argv[1])
