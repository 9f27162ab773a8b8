"""README, CONTRIBUTING and the container files agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer.main
import yaml

from tutorial_lib.cli import app
from tutorial_lib.paths import CHECKOUT
from tutorial_lib.runner import appendices, available
from tutorial_lib.server import ServerOptions, compose_text

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
# what Triton itself, not this project, says; each stands in a case's observed.txt or in the server tests
TRITONS_OWN = ("Stub process", "This API is restricted", "unexpected shape for input")


def text_of(name: str) -> str:
    return (CHECKOUT / name).read_text()


def sources() -> str:
    paths = [CHECKOUT / "workshop", *(CHECKOUT / "tutorial_lib").rglob("*.py")]
    joined = "".join(path.read_text() for path in paths)
    return re.sub(r'"\s*\n\s*f?"', "", joined)  # neighbouring string literals are one text


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name):
    text = text_of(name)
    anchors = {
        re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", text, re.M)
    }
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        elif "://" not in target:
            assert (CHECKOUT / target.partition("#")[0]).exists(), target


def test_every_notebook_is_in_the_readme():
    linked = re.findall(r"\(notebooks/(\w+)\.ipynb\)", text_of("README.md"))
    assert linked == [path.stem for path in (*available(), *appendices())]


def test_commands_named_are_commands_and_all_are_named():
    known = set(typer.main.get_command(app).commands)
    named = {word for name in DOCUMENTS for word in re.findall(r"\./workshop ([a-z]+)", text_of(name))}
    assert named == known


def test_the_output_shown_is_of_this_course():
    shown = next(block for block in text_of("README.md").split("```") if "Report: " in block)
    assert re.findall(r"^✓ (\w+) passed in", shown, re.M) == [path.stem for path in (*available(), *appendices())]
    assert "The served model's answer to a real handwritten digit:" in shown


def test_paths_named_exist():
    made = {".venv", "workspace"}
    for name in DOCUMENTS:
        for path in re.findall(r"`((?:[\w.-]+/)+[\w.-]*)`", text_of(name)):
            first = path.partition("/")[0]
            if (CHECKOUT / first).exists() and first not in made and "NN" not in path:
                assert (CHECKOUT / path).exists(), f"{name} names {path}"


def test_troubleshooting_quotes_the_code():
    rows = re.findall(r"^\| (`.*?`) \| ", text_of("README.md").partition("## Troubleshooting")[2], re.M)
    assert len(rows) >= 10
    code = sources()
    for message in [message for row in rows for message in re.findall(r"`([^`]+)`", row)]:
        if message.startswith(TRITONS_OWN):
            continue
        for part in re.split(r"…|'…'|\d+|: found ", message):
            part = part.strip(" .:'")
            assert len(part) < 4 or part in code, f"no message says {part!r} (of {message!r})"


def test_the_compose_file_is_what_the_library_writes():
    path = CHECKOUT / "docker" / "compose.yaml"
    options = ServerOptions(repositories=(Path("../workspace/model_repository"),))
    assert yaml.safe_load(path.read_text()) == yaml.safe_load(compose_text(options))
