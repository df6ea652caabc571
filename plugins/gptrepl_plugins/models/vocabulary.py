"""Which tokenizer belongs to a model of a given vocabulary; never a guess that prints gibberish."""

from __future__ import annotations

from pathlib import Path

from gptrepl.api import LoadError, LoadOptions, Tokenizer
from gptrepl_plugins.tokenizers import CharTokenizer, TiktokenTokenizer

GPT2_SIZES = (50257, 50304)
"""The vocabulary of GPT-2, and the same padded to a multiple of 64 as nanoGPT does."""


def choose(checkpoint: Path, dataset: str | None, size: int, options: LoadOptions) -> Tokenizer:
    """Return the tokenizer for a model of *size* ids that lies in *checkpoint*.

    The user's own choice comes first, then the meta.pkl of the data it was trained on, then
    GPT-2's if the size is GPT-2's. Raise LoadError when none of them fits.
    """
    if options.tokenizer is not None:
        return _fitting(options.tokenizer, size)
    places = _places(checkpoint, dataset)
    found = next((place for place in places if place.is_file()), None)
    if size in GPT2_SIZES:
        if found is not None and CharTokenizer(str(found)).vocab_size != size:
            options.note(
                f"the model has {size} ids, so its text is taken to be GPT-2's: {found} is not used"
                f" (:tokenizer char:{found} changes that)"
            )
        return TiktokenTokenizer()
    if found is None:
        looked = ", ".join(map(str, places))
        raise LoadError(
            f"{checkpoint} has a vocabulary of {size} and no alphabet: looked for {looked};"
            " put its meta.pkl beside it, or name it behind the source: char:PATH"
        )
    tokenizer = CharTokenizer(str(found))
    if tokenizer.vocab_size > size:
        raise LoadError(
            f"{found} lists {tokenizer.vocab_size} characters and the model in {checkpoint} knows"
            f" {size}: name the model's own behind the source: char:PATH"
        )
    if tokenizer.vocab_size < size:
        options.note(f"{found} lists {tokenizer.vocab_size} characters of the model's {size} ids")
    return tokenizer


def _fitting(tokenizer: Tokenizer, size: int) -> Tokenizer:
    if tokenizer.vocab_size > size:
        raise LoadError(
            f"the chosen tokenizer has {tokenizer.vocab_size} ids and the model {size}:"
            " choose another with :tokenizer, or :tokenizer auto for the model's own"
        )
    return tokenizer


def _places(checkpoint: Path, dataset: str | None) -> list[Path]:
    """Return where a meta.pkl may lie: beside, in the working folder's data, in the project's."""
    places = [checkpoint.parent / "meta.pkl"]
    if dataset:
        name = Path("data") / dataset / "meta.pkl"
        places += [name, *(parent / name for parent in checkpoint.absolute().parents)]
    return list({place.absolute(): place for place in places}.values())
