"""MCP servers as a source: programs that are started, and addresses that are asked."""
