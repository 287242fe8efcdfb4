"""Asks: requests for one tool at a time, a call a tool."""
