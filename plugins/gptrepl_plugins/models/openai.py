"""Attaches a model of a server that speaks the protocol of OpenAI: `http://host:8000/v1 NAME`.

vLLM, llama.cpp's server, `transformers serve` and others speak it. Which of them it is decides
what it understands of the samplers; nothing is sent before the load.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from gptrepl.api import GptreplError, LoadError, LoadOptions, Model, Tokenizer
from gptrepl_plugins.models.connection import KEY, Connection
from gptrepl_plugins.models.server import Pieces, ServerModel, refuse_unlisted

_OWNERS = {"vllm": "vllm", "llamacpp": "llama.cpp"}
"""The kind of server by the owner that it gives its models."""


def sources() -> Iterable[str]:
    """Return no names: a server is known by its address."""
    return ()


def accepts(source: str) -> bool:
    """Return whether *source* begins with the address of a server."""
    return source.lower().startswith(("http://", "https://"))


def load(source: str, options: LoadOptions) -> tuple[Model, Tokenizer]:
    """Ask a server for its models and attach the one that *source* names, or its only one."""
    url, _, name = source.replace("#", " ", 1).partition(" ")
    _check_address(url)
    connection = Connection(url)
    name = name.strip()
    try:
        models = _models(connection)
        kind = _kind(connection, models)
        listed = [model["id"] for model in models]
        if not name and len(listed) == 1:
            name = listed[0]
        if not name or (name not in listed and kind != "transformers"):
            refuse_unlisted(connection.url, name, listed)
    except GptreplError as error:
        raise LoadError(str(error)) from None
    if connection.has_key and urlsplit(url).scheme == "http" and not _is_here(url):
        options.note(f"the key in {KEY} travels unencrypted to {url}")
    if options.tokenizer is not None:
        options.note("the tokenizer has no effect: a server has its own")
    model = ServerModel(connection, name, kind, Pieces())
    model.siblings = [f"{connection.url} {other}" for other in listed]
    return model, model.pieces


def _check_address(url: str) -> None:
    parts = urlsplit(url)
    if not parts.hostname:
        raise LoadError(f"'{url}' is no address of a server: they read http://HOST:PORT/v1")
    if parts.username or parts.password:
        raise LoadError(f"the address holds a password: keys come from the variable {KEY} alone")


def _models(connection: Connection) -> list[dict[str, Any]]:
    """Return what a server says of its models."""
    found = connection.read("models")
    listed = found.get("data") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        raise GptreplError(f"{connection.url} is no server of models: it lists none")
    return [model for model in listed if isinstance(model, dict) and "id" in model]


def _kind(connection: Connection, models: list[dict[str, Any]]) -> str:
    """Return the kind of a server: what it says of its models, or of its own paths."""
    for model in models:
        if model.get("owned_by") in _OWNERS:
            return _OWNERS[model["owned_by"]]
    try:
        described = connection.read("/openapi.json")
    except GptreplError:
        return "openai"
    paths = described.get("paths", {}) if isinstance(described, dict) else {}
    return "transformers" if "/load_model" in paths else "openai"


def _is_here(url: str) -> bool:
    """Whether an address is this machine's own."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
