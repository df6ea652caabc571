"""The installed command: receipts, replays, recordings and checks outside of the shell."""

from __future__ import annotations

import json
import shutil

import pytest

from gptrepl import cli, loading
from gptrepl.commands import evaluate
from gptrepl.log import Log
from gptrepl.session import Session
from gptrepl.settings import Settings


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run the command with a data folder of its own; return status, stdout and stderr."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)

    def run(*words):
        status = cli.run(words)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


def lines(*texts):
    return [word for text in texts for word in ("-c", text)]


def test_a_session_is_logged_replayed_and_recorded(run, tmp_path):
    typed = lines(":tokens 20", "ROMEO:", ":temp hot", ":seed random", "JULIET:")
    status, out, _ = run("--keep-going", "--record", "r.txt", *typed)
    assert status == 1
    status, listed, _ = run("log")
    assert status == 0
    assert [row.split()[0] for row in listed.splitlines()] == ["id", "1", "2"]
    assert "JULIET" in run("log", "juliet")[1]
    assert run("log", "nothing like it")[1] == "no receipt holds 'nothing like it'\n"
    status, shown, _ = run("log", "show", "1")
    digest = next(line.split()[1] for line in shown.splitlines() if line.startswith("weights"))
    assert len(digest) == 64
    assert run("log", "export", "all.jsonl")[1] == "2 receipts written to all.jsonl\n"
    status, said, _ = run("replay", "1", "all.jsonl")
    assert (status, said.count("identical: 20 tokens in 1 sample")) == (0, 3)
    assert f":expect model {digest}" in (tmp_path / "r.txt").read_text()
    status, again, _ = run("--script", "r.txt")
    assert (status, again) == (0, out)


@pytest.mark.parametrize(
    "typed",
    [
        (":quantize int8", "ROMEO:", ":more 40", ":samples 3", ":temp 1.5", "ROMEO:"),
        (":quantize int4", "ROMEO:"),
        (":quantize bf16", "ROMEO:"),
        (":draft 3", "ROMEO:", ":draft auto", "ROMEO:"),
        (":chain top_k temperature", ":temp 0.5", ":top_k 4", "ROMEO:"),
        (':stop "a" "the"', ":samples 3", "ROMEO:"),
        (":profile chat", ":mode chat", "hello", "and then?", ":more 5", ":retry", ":undo 2"),
        (":mode story", "Once", " more", ":more 5", ":undo 3", ":retry"),
        (
            ":load project/out char:project/data/shakespeare_char/meta.pkl",
            ":activation gelu_new",
            "ROMEO:",
        ),
        (":dtype bfloat16", "ROMEO:"),
        (":seed random", ":samples 40", ":tokens 3", "x", ":retry"),
        (":mode story", ":load project/out", "Once", ":load shakespeare", " more", ":more 4"),
    ],
    ids=lambda typed: typed[0].removeprefix(":").partition(" ")[2],
)
def test_every_setting_that_changes_a_text_is_replayed(run, tmp_path, golden, typed):
    shutil.copytree(golden / "nanogpt_char", tmp_path / "project")
    assert run(*lines(":load project/out", ":tokens 25", *typed))[0] == 0
    run("log", "export", "all.jsonl")
    count = len((tmp_path / "all.jsonl").read_bytes().splitlines())
    status, said, err = run("replay", "all.jsonl")
    assert (status, err, said.count("identical: ")) == (0, "", count)
    if typed[0].startswith(":quantize"):
        assert said.count(f"{typed[0].removeprefix(':')}: ") == count
    # A session with another model and other settings under its feet says the same.
    options = (
        "--quantize=int8",
        "--activation=gelu_new",
        "--temperature=3",
        "--stop=e",
        "--draft=2",
    )
    status, _, err = run(*options, *lines(":tokens 5", "x", ":mode chat", ":replay all.jsonl"))
    assert (status, err.count("identical: ")) == (0, count)


def test_drift_is_status_4_and_the_others_are_replayed_too(run, tmp_path):
    run(*lines(":tokens 20", "ROMEO:", "JULIET:"))
    run("log", "export", "all.jsonl")
    oldest, newest = (tmp_path / "all.jsonl").read_text().splitlines()
    changed = json.loads(oldest)
    changed["samples"][0]["ids"][3] = 7
    (tmp_path / "all.jsonl").write_text(f"{json.dumps(changed)}\n{newest}\n")
    status, out, err = run("replay", "all.jsonl", "gone.jsonl")
    assert status == 4
    assert out.splitlines()[0] == "all.jsonl:1"
    assert "identical: 20 tokens" in out
    assert err.splitlines()[0].startswith("not identical: sample 1 has another token 4: it was ")
    assert err.splitlines()[1] == "cannot read the receipts gone.jsonl: No such file or directory"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"samples": []}, "the receipt holds no samples: there is nothing to draw again"),
        ({"seed": -(2**70)}, ""),
        ({"prompt_ids": []}, ""),
        ({"prompt_ids": [70000]}, "70000"),
        ({"logprobs": []}, ""),
    ],
)
def test_a_receipt_that_cannot_be_is_one_line_and_the_others_follow(run, tmp_path, change, said):
    run(*lines(":tokens 3", "ROMEO:"))
    run("log", "export", "one.jsonl")
    receipt = json.loads((tmp_path / "one.jsonl").read_text())
    sample = receipt["samples"][0]
    receipt |= {name: value for name, value in change.items() if name in receipt}
    sample |= {name: value for name, value in change.items() if name in sample}
    (tmp_path / "odd.jsonl").write_text(json.dumps(receipt))
    status, out, err = run("replay", "odd.jsonl", "1")
    assert status == 1
    assert said in err
    assert len(err.splitlines()) == 1
    assert out.endswith("receipt 1\nidentical: 3 tokens in 1 sample\n")


def test_a_checkpoint_is_held_to_its_text(run, tmp_path, golden):
    shutil.copytree(golden / "nanogpt_char", tmp_path / "project")
    status, out, _ = run("project/out", "--record", "r.txt", *lines(":tokens 20", "ROMEO:"))
    run("log", "export", "kept.jsonl")
    shutil.copytree(tmp_path / "project", tmp_path / "moved")
    assert run("replay", "kept.jsonl", "--model", "moved/out")[0] == 0
    assert run("--script", "r.txt")[:2] == (0, out)

    import torch

    path = tmp_path / "project/out/ckpt.pt"
    checkpoint = torch.load(path, weights_only=True)
    checkpoint["model"]["transformer.wte.weight"] *= 1.5
    torch.save(checkpoint, path)
    status, said, err = run("replay", "kept.jsonl")
    assert status == 4
    assert "not identical: sample 1 has another token" in err
    assert "weights " in said
    status, _, err = run("--script", "r.txt")
    assert status == 4
    assert "expected the model " in err


def test_json_lines_and_no_log(run):
    status, out, err = run("--json", "--no-log", *lines(":tokens 3", "ROMEO:", ":show temp"))
    objects = [json.loads(line) for line in out.splitlines()]
    kinds = [line["event"] for line in objects if line["event"] != "progress"]
    assert (status, err) == (0, "")
    assert kinds == ["notice", "sample_started", *["token"] * 3, "sample_ended", "table"]
    assert run("log")[1] == "there are no receipts yet\n"
    assert json.loads(run("log", "--json")[1])["event"] == "notice"


def test_expectations_decide_the_status(run, tmp_path):
    (tmp_path / "t.txt").write_text(
        ":for t in 0.5 1\n:temp {t}\n:tokens 5\nROMEO:\n:expect tokens 5\n:end\n:expect /JULIET/\n"
    )
    status, out, err = run("--script", "t.txt")
    assert status == 4
    assert out.count("ROMEO:") == 2
    assert err.splitlines()[-1].startswith("t.txt:7: expected text ~ /JULIET/, not 'ROMEO:")
    assert run(*lines(":load nowhere/"))[0] == 3
    assert run("--record", "t.txt", *lines("x"))[0] == 2


def test_profiles_are_checked_shown_and_joined(run, tmp_path):
    (tmp_path / "good.yaml").write_text("extends: creative\nseed: 4\ncommands: [':temp 1']\n")
    (tmp_path / "bad.yaml").write_text("temp: hot\nseeed: 4\n")
    (tmp_path / "worse.yaml").write_text("commands:\n- ':tmep 1'\n")
    assert run("profile", "check", "good.yaml") == (0, "", "")
    status, out, err = run("profile", "check", "good.yaml", "bad.yaml", "worse.yaml", "gone.yaml")
    assert (status, out) == (1, "")
    assert [line.split(": ")[0] for line in err.splitlines()] == [
        "bad.yaml:1",
        "bad.yaml:2",
        "worse.yaml:2",
        "cannot read the profile gone.yaml",
    ]
    assert "creative" in run("profile")[1]
    assert "seed" in run("profile", "show", "good.yaml")[1]
    assert run("profile", "rubbish")[0] == 2
    options = ("--profile", "creative", "--profile", "good.yaml", "--top-k", "3")
    shown = run(*options, *lines(":show profile temp seed top_k"))[2]
    assert [" ".join(line.split()) for line in shown.splitlines()[1:]] == [
        "setting value from",
        "profile creative+good.yaml",
        "temperature off typed",
        "seed 4 profile creative+good.yaml",
        "top_k 3 command line",
    ]


def test_a_model_of_a_folder_is_found_wherever_it_is_asked_from(run, tmp_path, golden, monkeypatch):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    for name in ("out", "data"):
        shutil.copytree(golden / "nanogpt_char" / name, tmp_path / "one" / name)
    monkeypatch.chdir(tmp_path / "one")
    tokenizer = "char:data/shakespeare_char/meta.pkl"
    run("out/", *lines(":tokens 5", "O", f":load out {tokenizer}", "O"))
    run("sample", "--num_samples=2", "--max_new_tokens=5", f"--tokenizer={tokenizer}")
    run("log", "export", "../two/all.jsonl")
    assert run("replay", "all.jsonl")[0] == 1  # it is in the other folder
    monkeypatch.chdir(tmp_path / "two")
    for words in (["1", "2", "3"], ["all.jsonl"]):
        status, said, err = run("replay", *words)
        assert (status, err, said.count("identical: ")) == (0, "", 3)
    shown = run("log", "show", "1")[1]
    assert [" ".join(line.split()) for line in shown.splitlines()[2:4]] == [
        "model out/",
        f"place {tmp_path}/one/out",
    ]
    # Another model of that name is not the one; where the one is gone it is all there is.
    shutil.copytree(golden / "nanogpt_char/data", tmp_path / "two/data")
    shutil.copytree(golden / "nanogpt_char/out", tmp_path / "two/out")
    assert run("out/", *lines(":tokens 5", "O", ":replay 1", ":replay 3"))[0] == 0
    (tmp_path / "one").rename(tmp_path / "three")
    assert run("replay", "1", "2", "3")[0] == 0
    shutil.rmtree(tmp_path / "two/out")
    assert run("replay", "1", "--model", "nowhere/out")[0] == 3
    assert run("replay", "1", "2", "3", "--model", "../three/out")[0] == 0


def test_the_model_in_memory_is_used_if_it_is_the_one(run, tmp_path, golden, monkeypatch):
    for name in ("out", "data"):
        shutil.copytree(golden / "nanogpt_char" / name, tmp_path / "one" / name)
    monkeypatch.chdir(tmp_path / "one")
    tokenizer = "char:data/shakespeare_char/meta.pkl"
    session = Session(Settings().but(model="out/", max_new_tokens=5, tokenizer=tokenizer))
    session.recorders.append(Log())
    list(evaluate(session, "O"))
    monkeypatch.setattr(loading, "open_source", lambda *_: pytest.fail("it was loaded again"))
    for line in (":replay 1", ":temp 0.3", "O", ":replay 2"):
        list(evaluate(session, line))
