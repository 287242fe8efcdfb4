"""Passing a call of a tool on to whose tool it is, by leave of who runs the server."""
