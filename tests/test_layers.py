"""Imports point down, never up, and the heavy libraries stay in their rooms."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "repl/gptrepl"
PLUGINS = ROOT / "plugins/gptrepl_plugins"

# A module may import those of the lines above its own, and those before it in its line.
ORDER = [
    ["__init__"],
    ["errors", "events", "knobs", "api"],
    ["values", "contract", "plugins", "chain", "devices", "stops", "settings", "document"],
    ["arguments", "report", "scripting", "fingerprint"],
    ["profiles", "saving", "configuration", "draw", "rows", "together", "generate", "drafting"],
    [
        "prompts",
        "preload",
        "loading",
        "samples",
        "streams",
        "prefill",
        "generation",
        "writing",
        "starts",
        "remarks",
        "session",
        "clipboard",
        "speakers",
        "chat",
        "turns",
        "outside",
    ],
    ["receipts", "records", "log", "recording", "replay"],
    ["offers", "command", "commands"],
    [
        "catalogue",
        "skeleton",
        "builtins",
        "watching",
        "editing",
        "expectations",
        "script_commands",
        "advice",
        "profile_commands",
    ],
    ["log_commands", "bench"],
    ["script", "jsonlines"],
    [
        "keyboard",
        "interrupts",
        "looks",
        "clock",
        "pager",
        "statusbar",
        "screen",
        "history",
        "completion",
        "draft",
        "appearance",
        "keys",
        "suggestion",
        "toolbar",
    ],
    ["prompt", "terminal"],
    ["cli"],
    ["__main__"],
]
PLACE = {name: place for place, name in enumerate(name for line in ORDER for name in line)}


def imports(path: Path) -> list[tuple[str, bool]]:
    """Every module that a file imports, and whether it does so when it is imported itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        at_import = node in tree.body
        if isinstance(node, ast.Import):
            found += [(alias.name, at_import) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            dots = "." * node.level
            names = [alias.name for alias in node.names]
            full = [f"{dots}{node.module}"] if node.module else [f"{dots}{n}" for n in names]
            found += [(name, at_import) for name in full]
    return found


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: path.stem)
def test_the_core_imports_downwards_and_no_plugin(path):
    for name, _ in imports(path):
        assert "gptrepl_plugins" not in name
        inner = name.lstrip(".").split(".")[0]
        if name.startswith(".") and inner != "__version__" and path.parent == CORE:
            assert PLACE[inner] < PLACE[path.stem], f"{path.stem} imports {inner}"


def test_script_and_terminal_do_not_know_each_other():
    for path in (CORE / "script.py", CORE / "terminal.py", CORE / "completion.py"):
        if path.exists():
            names = {name for name, _ in imports(path)}
            assert not names & {".script", ".terminal"}, path


@pytest.mark.parametrize("path", sorted(PLUGINS.rglob("*.py")), ids=lambda path: path.stem)
def test_plugins_know_nothing_of_the_core_but_its_api(path):
    for name, _ in imports(path):
        assert not name.startswith("gptrepl.") or name == "gptrepl.api", path
        assert name != "gptrepl", path


ROOMS = {
    "prompt_toolkit": {
        "prompt",
        "appearance",
        "completion",
        "history",
        "keys",
        "screen",
        "suggestion",
    },
    "yaml": {"document"},
    "click": set(),  # in the rooms of cli alone
    "rich": {"screen"},
}


@pytest.mark.parametrize("path", sorted(CORE.rglob("*.py")), ids=lambda path: path.stem)
def test_libraries_stay_in_their_rooms(path):
    for name, at_import in imports(path):
        library = name.split(".")[0]
        if path.parent.name == "cli" and library == "click":
            continue
        assert path.stem in ROOMS.get(library, {path.stem}), f"{path.stem} imports {library}"
        if library in ("torch", "transformers", "tiktoken") and at_import:
            assert path.stem in ("draw", "rows", "generate", "drafting"), (
                f"{path.stem} imports {library} when it is imported"
            )


def test_nothing_heavy_is_imported_before_it_is_needed():
    code = (
        "import sys, gptrepl.cli, gptrepl.session, gptrepl.commands as commands\n"
        "session = gptrepl.session.Session()\n"
        "for line in (':help', ':temp 0.7', ':profile creative', ':chain', ':show', ':plugins'):\n"
        "    list(commands.evaluate(session, line))\n"
        "list(commands.candidates(session, ':'))\n"
        "gptrepl.cli.run(['--help'])\n"
        "heavy = {'torch', 'transformers', 'tiktoken', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
