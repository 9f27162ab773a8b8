"""Folders and their names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tutorial_lib.paths import REFERENCE_REPOSITORY
from tutorial_lib.repository.findings import Edit
from tutorial_lib.repository.layout import CONFIG, MODEL_NAME
from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.view import DEFAULT_FILES, Listing, ModelView, RepositoryView

LESSON = "04#layout-question"
JUNK = ("__pycache__", "__MACOSX", ".ipynb_checkpoints")
# what a shell takes as one word; Triton starts its Python stub through one, unquoted
PLAIN = re.compile(r"[\w@%+=:,.-]+", re.ASCII)
_MODEL_FILES = {name for names in DEFAULT_FILES.values() for name in names}


@rule("path-level", severity="error", lesson="05#start-question", scope="repository",
      why="Triton takes every folder of the repository for a model.")  # fmt: skip
def path_level(view: RepositoryView) -> Iterator[Problem]:
    numbers = [name for name in view.listing.folders if name.isdecimal()]
    if CONFIG in view.listing.files or (numbers and _holds_model(view.path, numbers)):
        yield Problem(
            "",
            f"the folder of one model ({CONFIG} or version folders at its top)",
            "a folder of model folders",
            f"Give the folder above: {view.path.parent}.",
            file=".",
        )
    elif _MODEL_FILES & {*view.listing.files, *view.listing.folders}:
        yield Problem(
            "",
            "a model file at the top",
            "REPOSITORY/MODEL/1/FILE",
            f"Give the folder two levels above: {view.path.parent.parent}."
            if view.path.name.isdecimal()
            else "Move the file into MODEL/1/.",
            file=".",
        )
    elif view.listing.folders and not view.models:
        deeper = [name for name in view.listing.folders if not name.startswith(".") and _holds_models(view, name)]
        if deeper:
            fix = f"Give {view.path / deeper[0]}."
            yield Problem(
                "", f"no model folder, but {deeper[0]} holds some", "a folder of model folders", fix, file="."
            )
    if not view.listing.folders:
        fix = "Add MODEL/1/ with a model file, or give another folder."
        yield Problem("", "no model folder", "one at least", fix, file=".", severity="warning")


def _holds_model(path, numbers: list[str]) -> bool:
    found = [Listing.of(path / number) for number in numbers[:8]]
    return any(_MODEL_FILES & {*one.files, *one.folders} for one in found)


def _holds_models(view: RepositoryView, name: str) -> bool:
    inner = Listing.of(view.path / name)
    return any(CONFIG in Listing.of(view.path / name / folder).files for folder in inner.folders[:50])


@rule(
    "stray-folder",
    severity="error",
    lesson=LESSON,
    scope="repository",
    why="Triton takes every folder here for a model, and a server that loads all of them stops at one that is none.",
)
def stray_folder(view: RepositoryView) -> Iterator[Problem]:
    if view.listing.folders and not view.models and any(_holds_models(view, name) for name in view.listing.folders):
        return  # the path is one level off: that says it all
    for name in view.listing.folders:
        if name not in view.models:
            hidden = name.startswith(".") or name in JUNK
            what = "a folder that tools make" if hidden else "a folder without a model"
            advice = "Keep the repository apart from git and notebooks." if hidden else ""
            yield Problem(
                "",
                f"{what}: {name}",
                "model folders only",
                f"Move {name} out of the repository. {advice}".strip(),
                file=name,
                model=name,
            )
    for model in view.models.values():
        for name in model.listing.folders:
            if name.startswith(".") or name in JUNK:
                yield Problem(
                    "",
                    f"{name} inside the model folder",
                    "version folders",
                    f"Delete {model.name}/{name}.",
                    file=f"{model.name}/{name}",
                    model=model.name,
                    severity="info",
                    note="Triton passes it over with a warning.",
                )


@rule(
    "unreadable",
    severity="error",
    lesson=LESSON,
    why="What this user cannot read, a server started by it cannot read either.",
)
def unreadable(model: ModelView) -> Iterator[Problem]:
    if model.listing.problem:
        yield Problem(
            "",
            f"its folder: {model.listing.problem}",
            "one that can be read",
            "Check its owner and permissions.",
            file="",
        )
    for version in model.read_versions:
        listing = model._version_listing(version)
        if listing.problem:
            fix = "Check its owner and permissions."
            yield Problem(
                "", f"version folder {version}: {listing.problem}", "one that can be read", fix, file=str(version)
            )
    if CONFIG in (*model.listing.files, *model.listing.folders) and model.config_bytes is None:
        yield Problem(
            CONFIG, "no text file that can be read", "one of at most 4 MiB", "Check what it is, and its permissions."
        )


@rule(
    "name-differs",
    severity="error",
    lesson=LESSON,
    why="The folder's name is the model's; `name` is optional and may only repeat it.",
)
def name_differs(model: ModelView) -> Iterator[Problem]:
    named = model.config.name
    if named and named != model.name:
        yield Problem(
            "",
            f'name: "{named}"',
            f'"{model.name}", or no name at all',
            "Delete the name line: it is optional.",
            at="name",
            edits=_without_name(model),
        )


def _without_name(model: ModelView) -> tuple[Edit, ...]:
    """The whole line goes when nothing else is on it; else the value becomes the folder's name."""
    place, text = model.source.place("name"), model.text
    if place is None:
        return ()
    start = text.rfind("\n", 0, place.start) + 1
    end = text.find("\n", place.value_end)
    end = len(text) if end < 0 else end + 1
    if text[start : place.start].strip("\ufeff \t") or text[place.value_end : end].strip(" ,;\t\r\n"):
        return (Edit(place.value_start, place.value_end, f'"{model.name}"'),)
    return (Edit(start, end, ""),)


def runs_in_stub(model: ModelView) -> bool:
    """Whether a Python process runs it: the embedded server has no other backends."""
    return model.backend == "python" or (model.repository.tier == "embedded" and model.backend != "ensemble")


@rule(
    "folder-name",
    severity="error",
    lesson=LESSON,
    why="Triton starts Python stubs through a shell with the bare path: the model stays 'loading' for ever.",
)
def folder_name(model: ModelView) -> Iterator[Problem]:
    if MODEL_NAME.fullmatch(model.name):
        return
    stub = runs_in_stub(model)
    spaces = model.name != model.name.strip()
    what = "a space at one end" if spaces else "a space, or a character beyond ASCII letters, digits and _-."
    yield Problem(
        "",
        f"{what} in the folder's name {model.name!r}",
        "letters, digits, _, - and .",
        "Rename the folder.",
        file="",
        severity="" if stub else "warning",
    )


@rule(
    "version-folder",
    severity="error",
    lesson=LESSON,
    why="Triton looks for model files only in folders whose name is a number without leading zeros.",
)
def version_folder(model: ModelView) -> Iterator[Problem]:
    wrong = [name for name in model.listing.folders if _meant_as_version(name) is not None]
    loose = sorted(_MODEL_FILES & {*model.listing.files, *model.listing.folders})
    for name in model.listing.folders:
        if name.isascii() and name.isdecimal() and int(name) >= 2**63:
            note = "It does not fit into 64 bits, and the whole server ends at it."
            yield Problem("", f"folder {name}", "a smaller number", "Rename it.", file=name, note=note)
    if model.versions:
        for name in wrong:
            fix = f"Rename {name} to {_meant_as_version(name)}, or delete it."
            yield Problem("", f"folder {name}", "a plain number", fix, file=name, severity="warning")
        return
    if model.listing.problem:
        return
    if wrong:
        for name in wrong:
            meant = _meant_as_version(name)
            move = (f"{model.name}/{name}", f"{model.name}/{meant}") if len(wrong) == 1 else None
            yield Problem("", f"folder {name}", str(meant), f"Rename {name} to {meant}.", file=name, move=move)
    elif loose and not model.ensemble:
        move = (f"{model.name}/{loose[0]}", f"{model.name}/1/{loose[0]}") if len(loose) == 1 else None
        fix = f"Move {loose[0]} into {model.name}/1/."
        yield Problem(
            "", f"{loose[0]} beside {CONFIG}", f"it in a version folder: 1/{loose[0]}", fix, file=loose[0], move=move
        )
    elif model.repository.path == REFERENCE_REPOSITORY:
        # git holds no weights
        yield Problem(
            "", "no weights yet", "1/model.onnx", "Run notebooks 01 and 02, or catch_up().", file="", severity="info"
        )
    else:
        what = "an empty folder 1, which an ensemble needs too" if model.ensemble else "1/ with the model file"
        yield Problem("", "no version folder", what, f"Make {model.name}/1/.", file="")


def _meant_as_version(name: str) -> int | None:
    """1 for "01", "v1" or "version_1"; None for a version folder and for anything else."""
    match = re.fullmatch(r"(?:v|ver|version)?[-_.]?(\d{1,18})", name, re.IGNORECASE | re.ASCII)
    return int(match[1]) if match and name != str(int(match[1])) else None


@rule(
    "version-policy",
    severity="error",
    lesson=LESSON,
    why="Only the versions that version_policy chooses are served; without one, the newest alone.",
)
def version_policy(model: ModelView) -> Iterator[Problem]:
    policy = model.config.version_policy
    kind = policy.WhichOneof("policy_choice")
    if kind == "latest" and policy.latest.num_versions == 0 and model.versions:
        fix = "Write latest { num_versions: 1 }."
        yield Problem("version_policy", "latest { num_versions: 0 }", "1 or more", fix, at="version_policy.latest")
    elif kind == "specific" and model.versions:
        missing = [str(one) for one in policy.specific.versions if one not in model.versions]
        there = ", ".join(map(str, model.versions))
        if not policy.specific.versions:
            fix = f"Write versions: [ {there} ]."
            yield Problem("version_policy", "specific { } without versions", "one at least", fix, at="version_policy")
        elif missing:
            yield Problem(
                "version_policy",
                f"versions that have no folder: {', '.join(missing)}",
                f"some of the folders there: {there}",
                f"Write versions: [ {there} ], or add the folder.",
                at="version_policy.specific.versions",
                severity="warning" if model.served else "error",
            )
    elif kind is None and len(model.versions) > 1:
        newest = model.versions[-1]
        yield Problem(
            "",
            f"{len(model.versions)} versions and no version_policy",
            f"that version {newest} alone is served",
            "To serve all: version_policy: { all { } }.",
            severity="info",
        )


@rule(
    "config-name",
    severity="warning",
    lesson=LESSON,
    why="Triton reads MODEL/config.pbtxt and no other file; it would guess the configuration.",
)
def config_name(model: ModelView) -> Iterator[Problem]:
    if CONFIG in model.listing.files or model.listing.problem:
        return
    near = [
        name
        for name in model.listing.files
        if re.fullmatch(r"config\.pbtx?t?(\.txt)?|config\.txt|model\.pbtxt", name, re.I)
    ]
    inner = [f"{version}/{CONFIG}" for version in model.versions if CONFIG in model.files_of(version)]
    for name in (*near, *inner):
        yield Problem("", f"a configuration in {name}", CONFIG, f"Move it to {model.name}/{CONFIG}.", file=name)
