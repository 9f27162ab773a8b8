"""The linter, the log explainer and the real Triton say the same about the same repositories.

The cases hold what the official server of 24.10 said; the examples break each lint rule on purpose, beside the same
model mended. One server judges as many of them as names allow.
"""

from __future__ import annotations

import filecmp
import re
import shutil
from functools import lru_cache
from pathlib import Path

import pytest

from tests.server.conftest import write_echo
from tests.server.judge import CASES, case_folder
from tests.server.judged import ALL, ANSWERS, ELSEWHERE, JUDGED, folder_name
from tests.server.rule_examples import REFUSED
from tests.unit.test_explain import EXPECTED
from tutorial_lib.errors import RepositoryError, ServerError
from tutorial_lib.repository.lint import RULES, lint_repository
from tutorial_lib.server import serve
from tutorial_lib.server.known_incidents import INCIDENTS
from tutorial_lib.server.known_troubles import KNOWN

# served, and yet wrong or slow: what the linter has to say about them, as each case's right outcome has it
WARNED = {
    "04": {"sentence_emb": "batching-without-batch"},
    "29": {"partly": "version-policy"},
    "46": {"control_listed_twice": "sequence-control"},
    "47": {"text_len": "mixed-shapes"},
    "49": {"slowpoke": "queue-delay"},
    "51": {"none": "no-return"},
    "52": {"f64": "python-output"},
    "53": {"crash": "optional-input"},
    "55": {"unicode_dtype": "python-output"},
    "58": {"no_execute": "python-model"},
}
# errors although the server loads the model: it then answers wrongly, or not at all
SERVED_WRONG = {"no-return", "python-model", "python-output", "python-input", "optional-input"}
# refused for a reason that no reading of the files shows
UNSEEN = {("58", "init_raises")}
BROKEN_WHEN_ASKED = {
    "python-model_execute",
    "python-model_arguments",
    "python-output_name",
    "python-input_name",
    "no-return_none",
}
# rules that no repository on this server can show
NOT_HERE = {
    "plan-version": "this server has no TensorRT backend",
    "unreadable": "the tests may run as root, who reads everything; tests/unit has it",
    "path-level": "serve() refuses the path; below",
    "sequence-state": "the whole server may end at it",
    "folder-name": "serve() refuses the name; below",
}


def observed(number: str) -> str:
    return (case_folder(number) / "observed.txt").read_text()


def official(number: str) -> dict[str, bool]:
    """model → whether the official server served it."""
    text = observed(number)
    ready = set(re.findall(r"^\|\s*(\S+)\s*\|\s*\d+\s*\|\s*READY", text, re.M))
    refused = set(re.findall(r"(?:Poll failed for model directory|failed to load(?: model)?) '([^']+)'", text))
    refused |= set(re.findall(r"in ensemble ([^ ,]+),|ensemble (\S+) contains|ensemble '([^']+)' depends", text))
    names = {name for entry in refused for name in ([entry] if isinstance(entry, str) else entry) if name}
    return {name: name in ready for name in names | ready}


@pytest.mark.parametrize("number", JUDGED)
def test_the_running_server_judges_a_case_as_the_official_one_did(judged, number):
    assert {name: verdict.loaded for name, verdict in judged.said[number].items()} == official(number)


@pytest.mark.parametrize("number", JUDGED)
def test_the_log_of_the_running_server_is_explained(judged, number):
    """Every refusal in words, with the rule the case stands for; nothing else of the log is called a cause."""
    refused = {name for name, verdict in judged.said[number].items() if not verdict.loaded}
    words = judged.words[number]
    consequences = {name for item in words.values() for name in item.consequences}
    assert refused == {name for name, item in words.items() if item.severity == "error" and name in refused} | (
        refused & consequences
    )
    for name, item in words.items():
        assert item.known and item.rule == EXPECTED[number][name], str(item)


@pytest.mark.parametrize("number", ANSWERS)
def test_the_running_server_answers_a_case_as_observed(judged, number):
    theirs = observed(number).partition("[client rc=0]\n")[2].partition("\n[")[0]
    assert anywhere(judged.answers[number]) == anywhere(theirs)


def anywhere(text: str) -> list[str]:
    """A client's lines without paths, and without what was cut off because a path was longer."""
    lines = []
    for line in text.splitlines():
        line = re.sub(r"\S*/(?=\w+/\d+/model\.py)", "", line.replace("'], but", "', but"))
        lines.append(line.partition(" / At:")[0].partition(" /  / At")[0].strip())
    return lines


@pytest.mark.parametrize("example", ALL, ids=folder_name)
def test_an_example_is_judged_as_it_says(judged, example):
    name = folder_name(example)
    twin = judged.twins[f"ok_{name}"]
    bad, good = judged.said["rules"][f"bad_{name}"], judged.said["rules"][twin]
    assert bad.loaded == (example.verdict != REFUSED), bad.reason
    assert example.says in bad.reason or bad.loaded
    assert good.loaded, good.reason
    assert judged.health.get(twin, True)
    if name in BROKEN_WHEN_ASKED:
        assert not judged.health[f"bad_{name}"]


@pytest.mark.parametrize("example", [one for one in ALL if one.verdict == REFUSED], ids=folder_name)
def test_an_examples_refusal_is_explained(judged, example):
    words, name = judged.words["rules"], f"bad_{folder_name(example)}"
    item = words.get(name) or next(item for item in words.values() if name in item.consequences)
    if name in item.consequences:
        assert example.rule == "ensemble-step-broken" and item.known
        return
    assert item.known and item.cause and item.fix
    assert item.rule in {example.rule, *example.also, ""}, str(item)


@pytest.mark.parametrize("number", JUDGED)
def test_the_linter_judges_a_case_as_the_server_did(judged, number):
    """An error for what is refused, with the case's rule; none for what is served, unless it fails when asked."""
    found = lint(judged.repositories[number])
    for name, verdict in judged.said[number].items():
        reported = {item.rule: item.severity for item in found if item.model == name or subject(item) == name}
        errors = {rule for rule, severity in reported.items() if severity == "error"}
        if (number, name) in UNSEEN:
            assert not errors
        elif not verdict.loaded:
            wanted = EXPECTED[number].get(name, "ensemble-step-broken")
            assert wanted in errors, f"{name}: {reported}, Triton: {verdict.reason}"
        else:
            wanted = WARNED.get(number, {}).get(name)
            assert wanted is None or wanted in reported, f"{name}: {reported}"
            assert errors <= {wanted} & SERVED_WRONG, f"{name}: {errors}"


def subject(finding) -> str:
    """The folder a finding about the repository itself speaks of."""
    return finding.file.strip("/") if not finding.model else ""


@lru_cache
def lint(repository: Path):
    return lint_repository(repository)


@pytest.mark.parametrize("example", ALL, ids=folder_name)
def test_the_linter_judges_an_example_as_the_server_did(judged, example):
    found = lint(judged.repositories["rules"])
    name = folder_name(example)
    bad = {item.rule: item.severity for item in found if f"bad_{name}" in (item.model, subject(item))}
    twin = judged.twins[f"ok_{name}"]
    good = {item.rule: item.severity for item in found if twin in (item.model, subject(item))}
    assert example.rule in bad, bad
    refused = not judged.said["rules"][f"bad_{name}"].loaded
    assert "error" in bad.values() if refused else name in BROKEN_WHEN_ASKED or "error" not in bad.values(), bad
    assert example.rule not in good and "error" not in good.values(), good


def test_every_rule_has_an_example():
    shown = {example.rule for example in ALL} | NOT_HERE.keys()
    assert shown == RULES.keys()
    words = {known.rule for known in (*KNOWN, *INCIDENTS)} - {""}
    assert words <= RULES.keys()


def test_what_serve_refuses_by_its_path_or_name_is_an_error(tmp_path):
    repository = write_echo(tmp_path / "models")
    with pytest.raises(RepositoryError, match="one level too deep"):
        serve(repository / "echo")
    assert "path-level" in {item.rule for item in lint_repository(repository / "echo").errors}
    write_echo(repository, "my echo")
    with pytest.raises(RepositoryError, match="its name has a space"):
        serve(repository)
    assert {item.rule for item in lint_repository(repository).errors} == {"folder-name"}


def test_a_python_model_without_its_file_would_load_for_ever(tmp_path, monkeypatch):
    """Triton 2.51 prints one informal line and waits; so the launcher refuses, and the linter calls it an error."""
    (repository := write_echo(tmp_path) / "echo" / "1" / "model.py").rename(repository.with_name("main.py"))
    with pytest.raises(RepositoryError, match=r"has no model\.py, it holds: main\.py"):
        serve(tmp_path)
    assert "model-file-name" in {item.rule for item in lint_repository(tmp_path).errors}
    monkeypatch.setattr("tutorial_lib.server.models.require_python_file", lambda model: None)
    for limit_s in (4, 15, 60):
        with pytest.raises(ServerError, match=f"no answer within {limit_s} s") as caught:
            serve(tmp_path, startup_timeout_s=limit_s)
        if "echo: there is no " in caught.value.details:
            break
    assert "echo: there is no " in caught.value.details and "waits for its stub for ever" in caught.value.details


@pytest.mark.parametrize("number", [number for number in JUDGED if (case_folder(number) / "expected_config").is_dir()])
def test_the_linter_finds_nothing_wrong_with_the_right_configuration(judged, tmp_path, number):
    repository = shutil.copytree(judged.repositories[number], tmp_path / "models")
    for right in (case_folder(number) / "expected_config").glob("*.pbtxt"):
        shutil.copyfile(right, repository / right.stem / "config.pbtxt")
        assert [item for item in lint_repository(repository).errors if item.model == right.stem] == []


def test_no_case_is_left_out():
    assert set(JUDGED) | set(ELSEWHERE) == {folder.name[:2] for folder in CASES.iterdir()}
    echo = case_folder("60") / "model_repository"
    for number in (number for number, reason in ELSEWHERE.items() if "case 60's" in reason):
        same = filecmp.dircmp(echo / "echo", case_folder(number) / "model_repository" / "echo")
        assert same.left_only == same.right_only == same.diff_files == [], number
