"""config.pbtxt as text: what protobuf cannot read, and why."""

from __future__ import annotations

from collections.abc import Iterator

from tutorial_lib.repository import syntax
from tutorial_lib.repository.findings import Edit
from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.source import BOM
from tutorial_lib.repository.view import ModelView
from tutorial_lib.versions import TARGET

LESSON = "04#fields-question"


def _cause(name: str, model: ModelView) -> Iterator[Problem]:
    found = syntax.diagnose(model)
    if found is not None and found.rule == name:
        yield found.problem


@rule("syntax", severity="error", why="Triton cannot read the file, so the model does not exist for it.", lesson=LESSON)
def other_syntax(model: ModelView) -> Iterator[Problem]:
    yield from _cause("syntax", model)


@rule(
    "unknown-field",
    severity="error",
    lesson=LESSON,
    why="One field that protobuf does not know makes the whole file unreadable.",
)
def unknown_field(model: ModelView) -> Iterator[Problem]:
    yield from _cause("unknown-field", model)
    if model.repository.release.tag <= TARGET:
        for owner, name, at in (
            (model.config, "model_metrics", "model_metrics"),
            (model.config.ensemble_scheduling, "max_inflight_requests", "ensemble_scheduling.max_inflight_requests"),
        ):
            if model.source.place(at) and name in owner.DESCRIPTOR.fields_by_name:
                release = model.repository.release.tag
                yield Problem(
                    f"field '{name}'", f"a field that Triton {release} does not know", "it for newer releases only",
                    f"Delete {name}, or serve with a newer Triton.", at=at,
                )  # fmt: skip


@rule("type-alias", severity="error", lesson=LESSON, why="An enum has exactly the names that Triton gave it.")
def type_alias(model: ModelView) -> Iterator[Problem]:
    yield from _cause("type-alias", model)


@rule(
    "missing-comma",
    severity="error",
    lesson=LESSON,
    why="Inside [ ] entries need a comma between them; blocks repeated without [ ] do not.",
)
def missing_comma(model: ModelView) -> Iterator[Problem]:
    yield from _cause("missing-comma", model)


@rule(
    "json-config",
    severity="error",
    lesson=LESSON,
    why="config.pbtxt is protobuf text, not JSON or YAML: field names stand bare and enums unquoted.",
)
def json_config(model: ModelView) -> Iterator[Problem]:
    yield from _cause("json-config", model)


@rule("field-twice", severity="error", lesson=LESSON, why="A field that is no list may be written once.")
def field_twice(model: ModelView) -> Iterator[Problem]:
    yield from _cause("field-twice", model)


@rule(
    "placeholder",
    severity="error",
    lesson=LESSON,
    why="The template was copied, but the step that fills it in was not run.",
)
def placeholder(model: ModelView) -> Iterator[Problem]:
    for match in syntax.placeholders(model.text):
        line = model.source.line_at(match.start())
        column = match.start() - model.source.offset(line) + 1
        failed = model.parse_error is not None
        yield Problem(
            f"line {line}, column {column}",
            f"the placeholder {match[0]}",
            "a value",
            f"Write the value in place of {match[0]}, or render the template.",
            at=line,
            severity="" if failed else "warning",  # inside a string Triton takes it as it stands
        )


@rule(
    "text-encoding",
    severity="error",
    lesson=LESSON,
    why="Triton reads config.pbtxt as UTF-8 without a byte order mark.",
)
def text_encoding(model: ModelView) -> Iterator[Problem]:
    yield from _cause("text-encoding", model)
    raw = model.config_bytes or b""
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        yield Problem("config.pbtxt", "UTF-16", "UTF-8", "Save the file as UTF-8 without a byte order mark.", at=1)
    elif model.text.startswith(BOM):
        yield Problem(
            "config.pbtxt",
            "a byte order mark",
            "UTF-8 without one",
            "Save the file as UTF-8 without a byte order mark.",
            at=1,
            edits=(Edit(0, 1, ""),),
        )
    elif not model.utf8:
        before = raw.decode("utf-8", errors="replace").partition("\ufffd")[0]
        yield Problem(
            "config.pbtxt",
            "bytes that are not UTF-8",
            "UTF-8 text",
            "Save the file as UTF-8.",
            at=before.count("\n") + 1,
            severity="warning",
            note="In a comment they do no harm; in a text Triton cannot pass it on.",
        )
