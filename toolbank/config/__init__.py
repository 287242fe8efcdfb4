"""Recipes as configuration: reading, checking, explaining."""
