"""Requests of a bank: write, check, judge, verify and measure them."""
