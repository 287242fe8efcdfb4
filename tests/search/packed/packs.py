"""A packed finder for the tests, of eight tools, searched by their words."""

from dataclasses import replace

import numpy as np

from toolbank.bank.bank import Bank
from toolbank.bank.records import HttpCall, Tool
from toolbank.retrievers import create_retriever
from toolbank.retrievers.calibration import Calibration
from toolbank.retrievers.settings import Bm25Config
from toolbank.search.catalogue import RequestIndex
from toolbank.search.finder import Finder
from toolbank.search.folder import read_manifest, switch, version_folder, write_manifest

TOOLS = (
    Tool(name="music.play", summary="Play a song.", source="home", tags=("sound",)),
    Tool(name="music.stop", summary="Stop the song.", source="home", tags=("sound",)),
    Tool(name="door.bell", summary="Ring the bell of a house.", source="home"),
    Tool(name="door.lock", summary="Lock the door of a house.", source="home"),
    Tool(
        name="get_weather",
        kind="operation",
        summary="Tell the forecast of a city.",
        source="weather",
        call=HttpCall(method="GET", path="/weather/{city}"),
        aliases=("forecast",),
    ),
    Tool(
        name="GET /storms",
        kind="operation",
        summary="List storms near a city.",
        source="weather",
    ),
    Tool(name="mail.send", summary="Send a letter to a person.", source="post"),
    Tool(name="mail.read", summary="Read the last letter.", source="post"),
)
REQUESTS = (
    ("put some jazz on", ("music.play",)),
    ("will it rain in Oslo", ("get_weather",)),
)


def write_pack(folder, tools=TOOLS, requests=None, calibrate=None):
    """Pack BM25 over these tools; the version."""
    retriever = create_retriever(Bm25Config())
    retriever.fit(Bank(tuple(tools)))
    index = None if requests is None else RequestIndex.of(requests)
    return Finder(retriever, tools, index).pack(folder, calibrate)


FITTING = ("lock the door of my house", "send a letter to my aunt", "play a song")
UNFITTING = ("the house", "a person of few words", "last song of the city hall")
"""Requests that share a word or two with some tools, which do something else."""


def write_calibrated_pack(folder):
    """Pack BM25 over these tools, calibrated: a hit of score 1 is as likely needed as not."""
    calibration = Calibration()
    calibration.centre, calibration.spread = np.zeros(3), np.ones(3)
    calibration.direction, calibration.scale = np.zeros(0), np.array(1.0)
    calibration.fits = np.array([2.0, 0, 0, 0, -2.0])
    calibration.needed = np.array([0.5, 0, 1, 0])
    calibration.threshold = np.array(0.5)
    return write_pack(folder, calibrate=lambda *_: calibration)


def make_0_7_0(folder, version):
    """Turn a pack into what version 0.7.0 wrote, which had no uncalibrated.json; its version."""
    place = version_folder(folder, version)
    manifest = read_manifest(place)
    (place / "uncalibrated.json").unlink()
    files = tuple(file for file in manifest.files if file[0] != "uncalibrated.json")
    manifest = replace(manifest, files=files)
    write_manifest(place, manifest)
    place.rename(version_folder(folder, manifest.version))
    switch(folder, manifest.version)
    return manifest.version
