"""An MCP server without any library, which does what it is told to do wrong.

python -S -I light_mcp.py FILE [FAULT [PAGE]]: FILE is JSON with the tools as they go into the
answer, PAGE so many of them at once. Beside FILE it writes FILE.pid when it starts, and FILE.asked
when it was asked and hangs.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


def main():
    file, fault, size, *_ = *sys.argv[1:], "", "1000000"
    Path(f"{file}.pid").write_text(str(os.getpid()))
    tools = json.loads(Path(file).read_text("utf-8"))
    if fault == "dies at start":
        print("no licence in", os.environ.get("TOKEN", "here"), file=sys.stderr)
        sys.exit(3)
    if fault == "greets":
        print("Server is ready!", flush=True)
    if fault == "floods stderr":
        for number in range(20_000):
            print("a warning", number, "of", "x" * 200, file=sys.stderr)
    if fault == "floods stdout":
        while True:
            print("not a message" * 10)
    if fault == "endless line":
        while True:
            sys.stdout.write("x" * 65_536)
    if fault == "stays":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        child = [sys.executable, "-S", "-I", "-c", "import time; time.sleep(600)"]
        started = subprocess.Popen(child, stdout=sys.stdout)
        Path(f"{file}.child").write_text(str(started.pid))
    for line in sys.stdin:
        if fault == "hangs":
            Path(f"{file}.asked").touch()
            time.sleep(600)
        answer(json.loads(line), tools, fault, int(size))
    if fault == "stays":
        time.sleep(600)


INITIALIZED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "serverInfo": {"name": "light/server", "version": "1"},
}
NO_METHOD = {"code": -32601, "message": "Method not found"}
NO_DATABASE = {"code": -32000, "message": "no database"}


def answer(asked, tools, fault, size):
    method, number = asked["method"], asked.get("id")
    if number is None:
        return
    if method == "initialize":
        say(number, result=INITIALIZED)
    elif method != "tools/list":
        say(number, error=NO_METHOD)
    elif fault == "wrong answer":
        say(number, result={"tools": {"a": 1}})
    elif fault == "error":
        say(number, error=NO_DATABASE)
    elif fault == "not JSON-RPC":
        write({"tools": tools})
        sys.exit(0)
    elif fault == "huge message":
        huge = {"name": "a", "description": "x" * 40_000_000}
        say(number, result={"tools": [huge]})
    else:
        begin = int((asked.get("params") or {}).get("cursor") or 0)
        page = {"tools": tools[begin : begin + size]}
        if begin + size < len(tools):
            page["nextCursor"] = str(begin + size)
        if fault == "dies in the middle" and begin:
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "repeats a cursor":
            page["nextCursor"] = "0"
        if fault == "pages for ever":
            page = {"tools": tools[:1], "nextCursor": str(begin + 1)}
        if fault == "cursor is a number":
            page["nextCursor"] = 3
        say(number, result=page)


def say(number, **reply):
    write({"jsonrpc": "2.0", "id": number, **reply})


def write(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
