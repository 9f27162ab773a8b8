"""What the PyTorch backend reads: TorchScript, whose tensors have to be written into config.pbtxt."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.view import ModelView

SEPARATOR = "__"


@rule(
    "torchscript-file",
    severity="error",
    lesson="04#server-question",
    why="The PyTorch backend reads TorchScript: code and weights. It loads no pickle, and a state_dict has no code.",
)
def torchscript_file(model: ModelView) -> Iterator[Problem]:
    if model.backend != "pytorch":
        return
    for _, path in model.model_files():
        found = _instead_of_torchscript(path)
        if found:
            file = model.relative(path)
            fix = "Write it with tutorial_lib.export.export_torchscript, or torch.jit.trace and torch.jit.save."
            yield Problem(file, found, "a TorchScript archive", fix, file=file)


@rule(
    "torchscript-tensors",
    severity="error",
    lesson="04#tensors-question",
    why="TorchScript keeps neither types nor shapes, so nothing is completed, and names say which argument is meant.",
)
def torchscript_tensors(model: ModelView) -> Iterator[Problem]:
    if model.backend != "pytorch":
        return
    for role in ("input", "output"):
        entries = getattr(model.config, role)
        if not entries:
            name = f"{role.upper()}{SEPARATOR}0"
            fix = f'Write {role} [ {{ name: "{name}" data_type: TYPE_FP32 dims: [ … ] }} ].'
            yield Problem("", f"no {role}", f"every {role} with name, type and dims", fix)
        seen: dict[str, str] = {}
        for number, entry in enumerate(entries):
            _, separator, index = entry.name.partition(SEPARATOR)
            if separator and index.isdecimal() and role == "input":
                if index in seen:
                    found = f"'{seen[index]}' and '{entry.name}' for one argument"
                    fix = "Number the inputs from 0 in the order of forward's arguments."
                    yield Problem("input", found, "an index for each", fix, at=f"{role}[{number}]")
                seen[index] = entry.name


def _instead_of_torchscript(path: Path) -> str:
    """What a file is that is no TorchScript; "" when it is, or when another rule says more (empty, Git LFS)."""
    try:
        with path.open("rb") as file:
            head = file.read(64)
        if not head or head.startswith(b"version https://git-lfs"):
            return ""
        if not zipfile.is_zipfile(path):
            return "an archive that is cut off" if head.startswith(b"PK") else "no archive"
        with zipfile.ZipFile(path) as archive:
            names = {name.partition("/")[2] for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile) as error:
        return f"a file that cannot be read ({error})"
    if "constants.pkl" in names:
        return ""
    if "archive_format" in names:
        return "a torch.export program (.pt2)"
    return "a checkpoint of torch.save, such as a state_dict" if "data.pkl" in names else "an archive of something else"
