"""The front end of other programs: every line is an object that the schema describes."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from importlib import resources
from typing import get_args

import jsonschema
import pytest

from fakes import Interrupted, Speller, Uniform, session_of
from gptrepl import api
from gptrepl.api import Failure, GptreplError, Progress
from gptrepl.jsonlines import JsonScript, object_of
from gptrepl.scripting import read

SCHEMA = json.loads(resources.files("gptrepl").joinpath("events.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def run(text, model=None, *, keep_going=False, **changes):
    """Run a script; return its status, the objects it wrote, and stderr."""
    out, err = io.StringIO(), io.StringIO()
    session = session_of(model or Speller("héllo"), **{"max_new_tokens": 6, **changes})
    status = JsonScript(session, out, err).run(
        read(io.BytesIO(text.encode())), "s.txt", keep_going=keep_going
    )
    assert out.getvalue().isascii()
    objects = [json.loads(line) for line in out.getvalue().splitlines()]
    for line in objects:
        VALIDATOR.validate(line)
    return status, objects, err.getvalue()


def kinds(objects):
    return [line["event"] for line in objects]


def test_the_schema_is_one():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_the_schema_knows_every_event_and_each_of_its_fields():
    described = {
        variant["properties"]["event"]["const"]: set(variant["properties"]) - {"event"}
        for variant in SCHEMA["oneOf"]
    }
    assert described.pop("error") == {"text", "status"}
    for event in get_args(api.Event):
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).lower()
        assert described.pop(name) == {field.name for field in dataclasses.fields(event)}
    assert not described


def test_a_sample_is_what_its_tokens_and_its_tail_say():
    status, objects, err = run(":temp 0\n:samples 2\nx\n", max_new_tokens=2)
    assert (status, err) == (0, "")
    assert kinds(objects)[:2] == ["notice", "notice"]
    for index in range(2):
        own = [line for line in objects if line.get("index") == index]
        assert kinds(own) == ["sample_started", "token", "token", "sample_ended"]
        started, *tokens, ended = own
        said = "".join(token["text"] for token in tokens)
        assert started["prompt"] + said + ended["tail"] == ended["text"] == "xh\ufffd"
        assert [token["token"] for token in tokens] == [*"hé".encode()][:2]
        assert ended["seed"] == started["seed"] == 1337 + index


def test_tables_and_progress_are_lines_too():
    assert kinds(run(":show\n:profile\n")[1]) == ["table", "table"]
    VALIDATOR.validate(object_of(Progress("loading", 3, None)))


def test_an_error_is_on_both_streams_and_is_the_status():
    status, objects, err = run("x\n:nope\nx\n")
    assert status == 1
    assert objects[-1] == {
        "event": "error",
        "text": "s.txt:2: no command :nope, see :help",
        "status": 1,
    }
    assert err == "s.txt:2: no command :nope, see :help\n"


def test_every_error_of_a_script_that_goes_on_is_a_line():
    text = ":nope\n:load nowhere/\nx\n:expect /y/\n:expect tokens two"
    status, objects, err = run(text, keep_going=True)
    assert status == 1
    assert [line["status"] for line in objects if line["event"] == "error"] == [1, 3, 4, 1]
    assert len(err.splitlines()) == 4
    assert object_of(Failure("x", True, 4)) == {"event": "error", "text": "x", "status": 4}


@pytest.mark.parametrize("error", [GptreplError, ZeroDivisionError])
def test_a_sample_that_fails_is_ended_first(error):
    status, objects, _ = run("x\n", Interrupted("hello", 2, error))
    assert status == 1
    assert kinds(objects)[-1] == "error"


def test_a_measured_token_is_described():
    session = session_of(Uniform(), max_new_tokens=1)
    session.measure = True
    for event in session.stream("x"):
        VALIDATOR.validate(json.loads(json.dumps(object_of(event))))
