"""Repositories of the Hub, fetched from a small hub on this machine."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gptrepl.api import LoadError, LoadOptions
from gptrepl_plugins.models import hub

REPOSITORIES = {
    "org/whole": [
        "README.md",
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer.model",
        "chat_template.jinja",
        "code.py",
        "pytorch_model.bin",
        "consolidated.safetensors",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "onnx/config.json",
    ],
    "org/pickled": ["config.json", "pytorch_model.bin"],
    "org/quantized": ["README.md", "model-q4.gguf"],
}
INDEX = {"weight_map": {"a": REPOSITORIES["org/whole"][9], "b": REPOSITORIES["org/whole"][10]}}


class Hub(http.server.BaseHTTPRequestHandler):
    """Lists and gives files; whatever it does not have needs a token."""

    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        listing = self.path.removeprefix("/api/models/")
        name = "/".join(self.path.split("/")[1:3])
        if listing in REPOSITORIES:
            files = [{"rfilename": file} for file in REPOSITORIES[listing]]
            self.answer(json.dumps({"id": listing, "siblings": files}).encode())
        elif name in REPOSITORIES and "/resolve/" in self.path:
            is_index = self.path.endswith(".index.json")
            self.answer(json.dumps(INDEX).encode() if is_index else b"{}")
        else:
            self.send_response(401)
            self.end_headers()

    do_HEAD = do_GET

    def answer(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("X-Repo-Commit", "c" * 40)
        self.send_header("ETag", f'"{self.path.rpartition("/")[2]}"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What a hub on this machine is asked for; it is the only one that can be reached."""
    from huggingface_hub import constants

    Hub.asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "ENDPOINT", address)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    yield Hub.asked
    server.shutdown()
    server.server_close()


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_only_what_a_model_is_read_from_is_fetched_and_once(
    asked: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    steps: list[str] = []
    options = LoadOptions(progress=lambda what, *_: steps.append(what))
    folder = hub.repository("org/whole", options)
    assert names(folder) == {
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer.model",
        "chat_template.jinja",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    }
    assert "downloading model-00002-of-00002.safetensors of org/whole" in steps
    asked.clear()
    assert hub.repository("org/whole", options) == folder
    assert asked == []
    assert capfd.readouterr() == ("", "")


def test_code_is_fetched_where_it_may_run(asked: list[str]) -> None:
    folder = hub.repository("org/whole", LoadOptions(trust_remote_code=True))
    assert "code.py" in names(folder)


def test_a_part_that_is_missing_is_fetched_again(asked: list[str]) -> None:
    folder = hub.repository("org/whole", LoadOptions())
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert hub.cached("org/whole") is None
    assert hub.repository("org/whole", LoadOptions()) == folder
    assert hub.cached("org/whole") == folder


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("org/pickled", "org/pickled has no weights in safetensors"),
        ("org/quantized", "org/quantized holds GGUF files: download model-q4.gguf"),
        ("org/private", "the hub answers 401 (no such model, or one that needs your HF_TOKEN)"),
    ],
)
def test_what_cannot_be_had_is_one_line(asked: list[str], name: str, message: str) -> None:
    with pytest.raises(LoadError) as caught:
        hub.repository(name, LoadOptions())
    assert message in str(caught.value)
    assert not any("resolve" in path for path in asked)
