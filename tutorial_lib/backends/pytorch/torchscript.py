"""Opening `model.pt`: TorchScript only, and what another kind of file is, in words.

`torch.jit.load` reads code and tensors with its own reader; nothing in the file is unpickled by Python.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import torch

MAKE_ONE = "Write one with torch.jit.save(torch.jit.trace(model.eval(), example), 'model.pt')."


def load(path: Path) -> torch.jit.ScriptModule:
    """The TorchScript module of a file, on the CPU and in evaluation mode as it was saved.

    Raises:
        RuntimeError: torch refuses the file; in the C++ reader's first line, then what the file is.
    """
    try:
        return torch.jit.load(str(path), map_location="cpu")
    except Exception as error:  # RuntimeError for most, but a bad archive raises others
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise RuntimeError(f"{first} ({path.name} is {kind_of(path)}. {MAKE_ONE})") from None


def kind_of(path: Path) -> str:
    """What a file that is no TorchScript is instead; looked at, never executed."""
    with path.open("rb") as file:
        head = file.read(64)
    if not head:
        return "an empty file"
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the model; git lfs pull fetches it"
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            names = {name.partition("/")[2] for name in archive.namelist()}
        if "constants.pkl" in names:
            return "a TorchScript archive that is damaged, or that a newer torch wrote"
        if "archive_format" in names or any(name.startswith("models/") for name in names):
            return "a torch.export program (.pt2), not TorchScript"
        if "data.pkl" in names:
            return "a checkpoint of torch.save, such as a state_dict: weights without the code that uses them"
        return "a zip archive without TorchScript in it"
    if head.startswith(b"PK"):
        return "an archive that is cut off; copy it again"
    if head[:1] == b"\x80":
        return "a pickle, such as an old torch.save writes, and pickles are never loaded here"
    return "no TorchScript archive"
