"""A repository and its models as the rules see them: each file is read once, and only when a rule asks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tritonclient.grpc.model_config_pb2 import ModelConfig

from tutorial_lib.repository.graph_view import GraphView
from tutorial_lib.repository.layout import CONFIG
from tutorial_lib.repository.parsed import ParseError, parsed
from tutorial_lib.repository.python_view import PythonView
from tutorial_lib.repository.source import Source
from tutorial_lib.versions import Release, cpu_count

LARGEST_TEXT = 4 * 2**20  # bytes; no configuration is longer
VERSIONS_READ = 4  # served versions whose model files are opened

# Source: "Backend and platform" in Triton's model configuration guide
PLATFORMS = {
    "onnxruntime_onnx": "onnxruntime",
    "tensorrt_plan": "tensorrt",
    "pytorch_libtorch": "pytorch",
    "tensorflow_graphdef": "tensorflow",
    "tensorflow_savedmodel": "tensorflow",
    "ensemble": "ensemble",
}
# the file a backend opens when default_model_filename is not set
DEFAULT_FILES = {
    "onnxruntime": ("model.onnx",),
    "python": ("model.py",),
    "tensorrt": ("model.plan",),
    "pytorch": ("model.pt",),
    "tensorflow": ("model.savedmodel", "model.graphdef"),
    "openvino": ("model.xml",),
}


@dataclass(frozen=True)
class Listing:
    """The names in a folder, and why it could not be read ("" when it could)."""

    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    problem: str = ""

    @classmethod
    def of(cls, path: Path) -> Listing:
        folders, files = [], []
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    try:
                        folder = entry.is_dir()
                    except OSError:  # a link that leads to itself
                        folder = False
                    (folders if folder else files).append(entry.name)
        except OSError as error:
            return cls(problem=error.strerror or str(error))
        return cls(tuple(sorted(folders)), tuple(sorted(files)))


class RepositoryView:
    """A model repository, and what it is checked for.

    Args:
        tier: "embedded" or "container".
        gpus: how many GPUs the server will have.
    """

    def __init__(self, path: Path, *, tier: str, gpus: int, release: Release) -> None:
        self.path = path
        self.tier = tier
        self.gpus = gpus
        self.release = release
        self.listing = Listing.of(path)
        self.errors: dict[str, tuple[str, ...]] = {}  # model → rules it breaks, as far as the linter has come

    def errors_of(self, name: str) -> tuple[str, ...]:
        return self.errors.get(name, ())

    @cached_property
    def cores(self) -> int:
        return cpu_count()

    @cached_property
    def models(self) -> dict[str, ModelView]:
        """All folders that are models, or meant to be."""
        views = (ModelView(self, name) for name in self.listing.folders)
        return {view.name: view for view in views if not view.stray}


class ModelView:
    """One folder of a repository.

    Args:
        text: a configuration to judge in place of the one in the folder.
    """

    def __init__(self, repository: RepositoryView, name: str, *, text: str | None = None) -> None:
        self.repository = repository
        self.name = name
        self.path = repository.path / name
        self.listing = Listing.of(self.path)
        if text is not None:
            self.__dict__["config_bytes"] = text.encode()

    @property
    def stray(self) -> bool:
        """Nothing in it says that it is a model: no configuration, no version folder with a file."""
        if self.name.startswith(".") or self.name == "__pycache__":
            return True
        if self.listing.problem or CONFIG in self.listing.files:
            return False
        meant = [name for name in self.listing.files if "pbtx" in name.lower() or name.startswith("model.")]
        return not meant and not any(self.files_of(version) for version in self.versions)

    @cached_property
    def versions(self) -> tuple[int, ...]:
        """The version folders that Triton takes."""
        names = [name for name in self.listing.folders if name.isascii() and name.isdecimal() and len(name) < 20]
        return tuple(sorted(int(name) for name in names if name == str(int(name)) and int(name) < 2**63))

    @cached_property
    def served(self) -> tuple[int, ...]:
        """The versions that the version policy chooses."""
        policy = self.config.version_policy
        kind = policy.WhichOneof("policy_choice")
        if kind == "all":
            return self.versions
        if kind == "specific":
            return tuple(version for version in self.versions if version in policy.specific.versions)
        count = policy.latest.num_versions if kind == "latest" else 1
        return self.versions[-count:] if count > 0 else ()

    @property
    def read_versions(self) -> tuple[int, ...]:
        """The versions whose files are looked into: those served, or the newest when none is."""
        return (self.served or self.versions[-1:])[-VERSIONS_READ:]

    def files_of(self, version: int) -> tuple[str, ...]:
        listing = self._version_listing(version)
        return (*listing.files, *listing.folders)

    def _version_listing(self, version: int) -> Listing:
        known = self.__dict__.setdefault("_listings", {})
        if version not in known:
            known[version] = Listing.of(self.path / str(version))
        return known[version]

    @cached_property
    def config_bytes(self) -> bytes | None:
        """What is in config.pbtxt; None when there is none, or it cannot be read."""
        path = self.path / CONFIG
        try:
            if not is_file(path) or path.stat().st_size > LARGEST_TEXT:
                return None
            return path.read_bytes()
        except OSError:
            return None

    @cached_property
    def utf8(self) -> bool:
        try:
            (self.config_bytes or b"").decode("utf-8")
        except UnicodeDecodeError:
            return False
        return True

    @cached_property
    def text(self) -> str:
        """The configuration's text with its own line ends; "" when there is none."""
        return (self.config_bytes or b"").decode("utf-8", errors="replace")

    @cached_property
    def source(self) -> Source:
        return Source.of(self.text)

    @cached_property
    def _parsed(self) -> tuple[ModelConfig, ParseError | None]:
        return parsed(self.source)

    @property
    def config(self) -> ModelConfig:
        """The configuration; an empty one when it cannot be parsed."""
        return self._parsed[0]

    @property
    def parse_error(self) -> ParseError | None:
        return self._parsed[1]

    @property
    def batching(self) -> bool:
        return self.config.max_batch_size > 0

    @property
    def ensemble(self) -> bool:
        return self.config.platform == "ensemble" or self.config.HasField("ensemble_scheduling")

    @cached_property
    def backend(self) -> str:
        """The backend that runs it, found as Triton finds it; "" when nothing tells."""
        config = self.config
        if self.ensemble:
            return "ensemble"
        named = config.backend or PLATFORMS.get(config.platform, "")
        if named or config.platform:
            return named
        there = {config.default_model_filename} if config.default_model_filename else set()
        for version in self.read_versions:
            there |= set(self.files_of(version))
        for backend, files in DEFAULT_FILES.items():
            if there & set(files):
                return backend
        return self.name.rpartition(".")[2] if "." in self.name else ""

    @property
    def file_names(self) -> tuple[str, ...]:
        """The model file the backend will open in a version folder; several where it takes any of them."""
        chosen = self.config.default_model_filename
        return (chosen,) if chosen and not self.ensemble else DEFAULT_FILES.get(self.backend, ())

    def model_files(self) -> Iterator[tuple[int, Path]]:
        """The model file of each version that is looked into, when it is a file inside its version folder."""
        for version in self.read_versions:
            folder = self.path / str(version)
            for name in self.file_names:
                path = folder / name
                if inside(name) and is_file(path):
                    yield version, path
                elif inside(name) and self.backend == "onnxruntime" and is_file(path / "model.onnx"):
                    yield version, path / "model.onnx"  # a folder with the file and its weights

    @cached_property
    def graphs(self) -> tuple[GraphView, ...]:
        """The ONNX graphs that it would serve."""
        if self.backend != "onnxruntime":
            return ()
        return tuple(GraphView(path, version) for version, path in self.model_files())

    @cached_property
    def scripts(self) -> tuple[PythonView, ...]:
        """The Python files that it would serve."""
        if self.backend != "python":
            return ()
        return tuple(PythonView(path, version) for version, path in self.model_files())

    def relative(self, path: Path) -> str:
        return path.relative_to(self.path).as_posix()


def inside(name: str) -> bool:
    """Whether a file name of a configuration stays inside the folder it belongs to."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return bool(parts) and not name.startswith("/") and ".." not in parts and "\0" not in name


def is_file(path: Path) -> bool:
    """Whether it is a file that can be seen; a name that is too long, or a closed folder, has none."""
    return os.path.isfile(path)
