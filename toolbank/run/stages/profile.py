"""The stage that profiles the requests of the bank."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolbank.bank.bank import PROFILE, Bank
from toolbank.bank.files import write_records
from toolbank.bank.profile import QueryProfile, describe_classes
from toolbank.config.assets import Asset
from toolbank.config.base import shape
from toolbank.encoders.location import encoder_identity
from toolbank.requests.judge.summary import find_files
from toolbank.requests.write.prompts import find_examples, load_examples
from toolbank.run.stage import (
    Outcome,
    Stage,
    bank_hashes,
    hash_file,
    label_hashes,
    missing_hashes,
)
from toolbank.run.stages.generate import GenerateStage
from toolbank.system.files import write_json
from toolbank.system.numbers import count
from toolbank.system.version import __version__

if TYPE_CHECKING:
    from toolbank.encoders.config import EncoderConfig


class ProfileStage(Stage):
    """Writes the classes of the requests to bank/profile.parquet, and copies.json."""

    kind = "profile"
    needs = ("dataset", "generate", "asks", "missing", "verify")

    def depends(self) -> dict[str, Any]:
        """The bank and its labels, the examples, other sets, and the encoder."""
        recipe, folder = self.recipe, self.folder
        return {
            "bank": bank_hashes(folder, recipe),
            **label_hashes(folder, recipe),
            **missing_hashes(folder, recipe),
            "config": shape(recipe.profile),
            "against": [hash_file(path) for path in self.files()],
            "examples": [asset.sha256 for asset in self.assets()],
            "encoders": [encoder_identity(one) for one in self.encoders],
            "toolbank": __version__,
        }

    def work(self) -> Outcome:
        """Class every request, and look for copies."""
        from toolbank.requests.profile.classes import profile_bank
        from toolbank.requests.profile.copies import Copies, count_copies

        recipe, folder = self.recipe, self.folder
        bank, limits = Bank.load(folder.bank), recipe.profile.copies
        encoder = recipe.plain_encoder
        rows = list(profile_bank(bank, encoder))
        write_records(folder.bank / PROFILE, QueryProfile, rows)
        examples = [
            example.query
            for example in (load_examples(recipe.domain_name) if self.assets() else ())
        ]
        sets = count_copies(bank, limits, examples, encoder)
        label = encoder.label if encoder and limits.cosine is not None else ""
        copies = Copies(limits.jaccard, limits.cosine, label, sets)
        write_json(folder.copies, asdict(copies))
        files = folder.bank / PROFILE, folder.copies
        found = (
            *describe_classes(pair for row in rows for pair in row.classes().items()),
            *(one.describe() for one in sets if one.total),
        )
        return Outcome(count(len(rows), "request"), files, problems=found)

    def files(self) -> tuple[Path, ...]:
        """The sets in which copies are looked for."""
        places = self.recipe.profile.copies.against
        return tuple(path for place in places for path in find_files(place))

    def assets(self) -> tuple[Asset, ...]:
        """The examples in the prompts, if a model reads them."""
        stages = GenerateStage.of(self.recipe, self.folder)
        if not any(stage.reads_assets for stage in stages):
            return ()
        return (find_examples(self.recipe.domain_name),)

    @property
    def encoders(self) -> tuple[EncoderConfig, ...]:
        """The encoder of `descriptions`, if there is one on this machine."""
        encoder = self.recipe.plain_encoder
        return (encoder,) if encoder else ()
