"""Requests and replies through files of OpenAI's Batch API, by hand or by the hosted API."""
