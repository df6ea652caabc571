"""Settings of other tools: the same distribution here, and a list of what has no place."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
import torch

from fakes import Bytes, Uniform, session_of
from gptrepl import chain
from gptrepl.api import GptreplError, Notice
from gptrepl.commands import candidates, evaluate
from gptrepl.rows import begin

GONE = float("-inf")
LOGITS = torch.randn(12, 60, generator=torch.Generator().manual_seed(3)) * 2.5
IDS = torch.randint(0, 60, (12, 90), generator=torch.Generator().manual_seed(4)).tolist()


@pytest.fixture
def session():
    return session_of(Uniform(), max_new_tokens=2, top_a=0.2, temperature=0.6)


def bring(session, text):
    """Import, and return what was said."""
    return [event.text for event in evaluate(session, f":import {text}")]


def ours(session, logits, ids):
    """What the session's chain leaves for the first new token."""
    for _, sampler in begin(chain.bind(session.settings.active, Bytes(), len(ids)), 0):
        logits = sampler(logits, ids)
    return logits.softmax(-1)


# --- llama.cpp, written down from its definitions ------------------------------------------------


def softmax(kept):
    top = max(kept.values())
    total = sum(math.exp(value - top) for value in kept.values())
    return {token: math.exp(value - top) / total for token, value in kept.items()}


def penalised(logits, ids, repeat=1.0, presence=0.0, frequency=0.0, last=64):
    kept = dict(enumerate(logits.tolist()))
    for token, count in Counter(ids[-last:] if last else []).items():
        kept[token] = kept[token] * repeat if kept[token] <= 0 else kept[token] / repeat
        kept[token] -= count * frequency + presence
    return kept


def top_n_sigma(kept, n):
    mean = sum(kept.values()) / len(kept)
    sigma = math.sqrt(sum((value - mean) ** 2 for value in kept.values()) / len(kept))
    return {t: value for t, value in kept.items() if value >= max(kept.values()) - n * sigma}


def top_k(kept, k):
    return dict(sorted(kept.items(), key=lambda item: -item[1])[:k])


def typical(kept, share):
    odds = softmax(kept)
    entropy = -sum(p * math.log(p) for p in odds.values())
    order = sorted(odds, key=lambda token: abs(-math.log(odds[token]) - entropy))
    return {token: kept[token] for token in until(order, odds, share)}


def top_p(kept, share):
    odds = softmax(kept)
    return {
        token: kept[token] for token in until(sorted(odds, key=lambda t: -odds[t]), odds, share)
    }


def until(order, odds, share):
    total = 0.0
    for token in order:
        yield token
        total += odds[token]
        if total >= share:
            return


def min_p(kept, share):
    return {t: v for t, v in kept.items() if v >= max(kept.values()) + math.log(share)}


def scaled(kept, temperature):
    return {token: value / temperature for token, value in kept.items()}


def stretched(kept, temperature, reach, exponent):
    if len(kept) < 2:
        return kept
    odds = softmax(kept)
    entropy = -sum(p * math.log(p) for p in odds.values())
    low, high = max(0, temperature - reach), temperature + reach
    return scaled(kept, low + (high - low) * (entropy / math.log(len(kept))) ** exponent)


def defaults(kept):
    return min_p(top_p(top_k(kept, 40), 0.95), 0.05)


LLAMA = [
    ("", lambda z, ids: scaled(defaults(penalised(z, ids)), 0.8)),
    (
        '"--temp 0.8 --top-k 40 --min-p 0.05"',
        lambda z, ids: scaled(defaults(penalised(z, ids)), 0.8),
    ),
    (
        "--temp 1.7 --top-k 0 --top-p 1.0 --min-p 0.1",
        lambda z, ids: scaled(min_p(penalised(z, ids), 0.1), 1.7),
    ),
    (
        "--repeat-penalty 1.3 --presence-penalty 0.2 --frequency_penalty=0.1 --repeat-last-n 20",
        lambda z, ids: scaled(defaults(penalised(z, ids, 1.3, 0.2, 0.1, 20)), 0.8),
    ),
    (
        "--repeat-penalty 1.3 --repeat-last-n -1",
        lambda z, ids: scaled(defaults(penalised(z, ids, 1.3, last=1000)), 0.8),
    ),
    (
        "--top-nsigma 1.2 --typical 0.8 --top-k 25",
        lambda z, ids: scaled(
            min_p(top_p(typical(top_k(top_n_sigma(penalised(z, ids), 1.2), 25), 0.8), 0.95), 0.05),
            0.8,
        ),
    ),
    (
        "--temp 1.1 --dynatemp-range 0.6 --dynatemp-exp 1.5",
        lambda z, ids: stretched(defaults(penalised(z, ids)), 1.1, 0.6, 1.5),
    ),
    (
        '--samplers "temperature;top_p" --temp 2 --top-p 0.7 --top-k 3',
        lambda z, ids: top_p(scaled(penalised(z, ids), 2), 0.7),
    ),
    (
        "--sampling-seq tk --temp 2 --top-k 7 --repeat-penalty 2",
        lambda z, ids: top_k(scaled(penalised(z, ids), 2), 7),
    ),
    (
        "-l 7+2.5 -l 9-inf --temp 1 --top-k 0 --top-p 1 --min-p 0",
        lambda z, ids: {
            token: value + 2.5 * (token == 7)
            for token, value in penalised(z, ids).items()
            if token != 9
        },
    ),
]


@pytest.mark.parametrize(("flags", "theirs"), LLAMA, ids=[flags for flags, _ in LLAMA])
def test_the_distribution_is_that_of_llama_cpp(session, flags, theirs):
    bring(session, f"llama.cpp {flags}")
    for logits, ids in zip(LOGITS, IDS, strict=True):
        expected = torch.zeros(60)
        for token, probability in softmax(theirs(logits, ids)).items():
            expected[token] = probability
        torch.testing.assert_close(ours(session, logits, ids), expected, rtol=2e-5, atol=1e-7)


LLAMA_ORDER = [
    *("repetition_penalty", "presence_penalty", "frequency_penalty", "dry", "top_n_sigma"),
    *("top_k", "typical", "top_p", "min_p", "temperature", "dynamic_temperature"),
]


def test_what_was_on_before_is_off_and_it_is_said(session):
    assert bring(session, 'llama.cpp "--top-k 30"') == [
        "imported from llama.cpp",
        "top_a 0.2 -> off",
        "top_k 200 -> 30",
        "top_p off -> 0.95",
        "min_p off -> 0.05",
        "temperature 0.6 -> 0.8",
        f"chain by stage -> {' '.join(LLAMA_ORDER)}",
        "what is not given has llama.cpp's default: --temp 0.8 --top-p 0.95 --min-p 0.05",
    ]


def test_mirostat_replaces_the_chain(session):
    said = bring(session, "llama.cpp --mirostat 2 --mirostat-ent 4 --temp 0.9 --top-k 5")
    assert [name for name, _ in session.settings.active] == ["temperature", "mirostat2"]
    assert session.settings.value("mirostat2") == "4 eta=0.1"
    assert session.settings.value("temperature") == "0.9"
    assert "with mirostat llama.cpp uses no other sampler but the temperature" in said
    bring(session, "llama.cpp --mirostat 1")
    assert session.settings.value("mirostat") == "5 eta=0.1"


def test_dry_and_xtc_keep_their_knobs(session):
    said = bring(
        session,
        "llama.cpp --dry-multiplier 0.8 --dry-sequence-breaker '\\n' --dry-sequence-breaker 'ab' "
        "--xtc-probability 0.5 --xtc-threshold 0.2",
    )
    dry = session.settings.samplers["dry"]
    assert (dry.multiplier, dry.base, dry.allowed_length, dry.window) == (0.8, 1.75, 2, 64)
    assert dry.breakers == "\\n"
    assert session.settings.value("xtc") == "0.5 threshold=0.2"
    assert said[-1] == (
        "left out, with no counterpart here: --dry-sequence-breaker 'ab', which is longer than a "
        "character; xtc before the temperature: here it is the last, which differs unless --temp "
        "is 1"
    )


def test_adaptive_p_counts_only_where_it_is_listed(session):
    bring(session, "llama.cpp --adaptive-target 0.4")
    assert session.settings.value("adaptive_p") == "off"
    bring(session, 'llama.cpp --adaptive-target 0.4 --samplers "min_p;adaptive_p"')
    assert [name for name, _ in session.settings.active] == ["min_p", "adaptive_p"]


def test_what_has_no_place_is_listed(session):
    said = bring(
        session,
        "llama.cpp llama-cli -m model.gguf --grammar 'root ::= x' --no-warmup -n -1 "
        '--samplers "top_k;infill" -s 42 -r "User:" --temp 0',
    )
    assert said[-1] == (
        "left out, with no counterpart here: llama-cli; -m model.gguf; --grammar root ::= x; "
        "--no-warmup; the sampler infill; --predict -1, a text without a limit"
    )
    assert session.settings.seed == 42
    assert session.settings.stop == ("User:",)
    (warning,) = [e for e in evaluate(session, ":import llama.cpp --x") if getattr(e, "warning", 0)]
    assert isinstance(warning, Notice)


# --- transformers, by its recorded outputs --------------------------------------------------------

KEYS = {
    "RepetitionPenaltyLogitsProcessor": ("repetition_penalty", "penalty"),
    "NoRepeatNGramLogitsProcessor": ("no_repeat_ngram_size", "ngram_size"),
    "TemperatureLogitsWarper": ("temperature", "temperature"),
    "TopKLogitsWarper": ("top_k", "top_k"),
    "TopPLogitsWarper": ("top_p", "top_p"),
    "MinPLogitsWarper": ("min_p", "min_p"),
    "TypicalLogitsWarper": ("typical_p", "mass"),
    "EpsilonLogitsWarper": ("epsilon_cutoff", "epsilon"),
    "EtaLogitsWarper": ("eta_cutoff", "epsilon"),
}


def config(folder, **values):
    (folder / "generation_config.json").write_text(json.dumps(values))
    return folder / "generation_config.json"


def test_the_distribution_is_that_of_transformers(session, golden, tmp_path):
    recorded = json.loads((golden / "samplers/stacks.json").read_text())
    inputs = json.loads((golden / "samplers/inputs.json").read_text())
    tried = 0
    for case in recorded["cases"]:
        keys = [KEYS[link["class"]] for link in case["stack"]]
        values = {
            key: link["params"][name] for link, (key, name) in zip(case["stack"], keys, strict=True)
        }
        path = config(tmp_path, do_sample=True, **{"top_k": 0, **values})
        bring(session, str(path))
        rows = zip(inputs["logits"], inputs["input_ids"], case["outputs"], strict=True)
        for logits, ids, outputs in rows:
            expected = torch.tensor([GONE if value is None else value for value in outputs])
            logits = torch.tensor([GONE if value is None else value for value in logits])
            torch.testing.assert_close(ours(session, logits, ids), expected.softmax(-1))
            tried += 1
    assert tried >= 50


def test_a_top_k_that_is_not_there_is_50(session, tmp_path):
    said = bring(session, str(config(tmp_path, do_sample=True, temperature=0.7, top_k=None)))
    assert session.settings.value("top_k") == "50"
    assert "top_k is not given: transformers takes 50" in said


def test_without_do_sample_it_is_greedy(session, tmp_path):
    said = bring(
        session, str(config(tmp_path, temperature=0.7, top_p=0.9, _from_model_config=True))
    )
    assert [name for name, _ in session.settings.active] == ["temperature"]
    assert session.settings.value("temperature") == "0"
    assert said[-1] == (
        "do_sample is not true: transformers decodes greedily, so temperature 0.7, top_p 0.9 have "
        "no effect"
    )


def test_the_rest_of_a_generation_config(session, tmp_path):
    path = config(
        tmp_path,
        do_sample=True,
        top_k=0,
        max_new_tokens=30,
        num_return_sequences=3,
        stop_strings=["\n\n"],
        suppress_tokens=[3],
        bad_words_ids=[[4], [5, 6]],
        sequence_bias=[[[7], 2.0]],
        eos_token_id=50256,
        pad_token_id=50256,
        num_beams=4,
        length_penalty=1.0,
        guidance_scale=1.5,
        min_new_tokens=2,
        output_attentions=False,
    )
    session._loaded.tokenizer.encode = lambda text: [255]
    said = bring(session, str(path.parent))
    settings = session.settings
    assert (settings.max_new_tokens, settings.num_samples, settings.stop) == (30, 3, ("\n\n",))
    assert settings.value("logit_bias") == "7=2, 3=-inf, 4=-inf"
    assert settings.stop_at_end is True
    assert settings.value("min_new_tokens").startswith("2 ")
    assert said[-1] == (
        "left out, with no counterpart here: bad_words_ids of [5, 6], which is not one token; "
        "num_beams 4; guidance_scale 1.5"
    )


# --- ollama --------------------------------------------------------------------------------------

MODELFILE = '''
# a comment with PARAMETER top_k 3
FROM llama3
PARAMETER temperature 1.2
parameter top_k 30
PARAMETER min_p 0.02
PARAMETER repeat_last_n -1
PARAMETER stop "User:"
PARAMETER stop "\\n\\n"
PARAMETER num_ctx 4096
TEMPLATE """{{ .Prompt }}
PARAMETER top_p 0.1
"""
'''


def test_a_modelfile_filters_around_the_temperature(session, tmp_path):
    (tmp_path / "Modelfile").write_text(MODELFILE)
    said = bring(session, str(tmp_path / "Modelfile"))
    assert session.settings.stop == ("User:", "\n\n")
    assert said[-2:] == [
        "what is not given has Ollama's default: top_p 0.9, repeat_penalty 1.1",
        "left out, with no counterpart here: PARAMETER num_ctx 4096; FROM; TEMPLATE",
    ]
    for logits, ids in zip(LOGITS, IDS, strict=True):
        kept = scaled(top_k(penalised(logits, ids, 1.1, last=1000), 30), 1.2)
        expected = torch.zeros(60)
        for token, probability in softmax(min_p(top_p(kept, 0.9), 0.02)).items():
            expected[token] = probability
        torch.testing.assert_close(ours(session, logits, ids), expected, rtol=2e-5, atol=1e-7)


def test_parameters_can_stand_in_one_line(session):
    bring(session, r'ollama "PARAMETER temperature 0 PARAMETER stop \"A B\" PARAMETER seed -1"')
    assert session.settings.value("temperature") == "0"
    assert session.settings.stop == ("A B",)
    assert session.settings.seed == "random"
    bring(session, "ollama PARAMETER mirostat 1 PARAMETER num_predict 12")
    assert [name for name, _ in session.settings.active] == ["temperature", "mirostat"]
    assert session.settings.max_new_tokens == 12


# --- faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("llama.cpp --temp", "--temp needs a value"),
        ("llama.cpp --temp hot", "--temp must be a number, not 'hot'"),
        ("llama.cpp --top-k 1.5", "--top-k must be a whole number, not '1.5'"),
        ("llama.cpp -l x", "--logit-bias must be an id and an amount such as 15043-1, not 'x'"),
        ("llama.cpp --mirostat 3", "mirostat must be 0, 1 or 2, not 3"),
        ("llama.cpp --temp 'x", "the flags cannot be read: no closing quotation"),
        ("llama.cpp --repeat-penalty 1 --presence-penalty 900", "presence_penalty"),
        ("llama.cpp -l 999+1", "logit_bias has no token 999: the vocabulary has 256"),
        ("ollama PARAMETER top_k many", "top_k must be a number, not 'many'"),
        ("ollama nowhere/Modelfile", "cannot read the Modelfile 'nowhere/Modelfile'"),
        ("nowhere.json", "cannot read 'nowhere.json': No such file"),
        ("vllm temperature=1", "cannot import from 'vllm'"),
        ("vllm", "cannot tell what 'vllm' is"),
        ("transformers README.json", "cannot read"),
    ],
)
def test_a_fault_is_one_line_and_changes_nothing(session, line, message):
    before = session.settings
    with pytest.raises(GptreplError) as refused:
        bring(session, line)
    assert str(refused.value).startswith(message)
    assert session.settings is before


@pytest.mark.parametrize(
    ("text", "message"), [("{", "is no JSON"), ("[]", "an object"), ('{"top_k": "x"}', "")]
)
def test_a_broken_file_is_named(session, tmp_path, text, message):
    (tmp_path / "generation_config.json").write_text(text)
    if message:
        with pytest.raises(GptreplError, match=message):
            bring(session, str(tmp_path))
    else:
        bring(session, str(tmp_path))  # greedy: what it says of top_k has no effect


def test_tab_offers_the_tools(session):
    offered = {candidate.text for candidate in candidates(session, ":import ")}
    assert {"llama.cpp", "ollama", "transformers"} <= offered
