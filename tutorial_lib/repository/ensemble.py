"""config.pbtxt of an ensemble, from a chain of models in a repository."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tritonclient.grpc import model_config_pb2
from tritonclient.grpc.model_config_pb2 import ModelConfig

from tutorial_lib.errors import RepositoryError
from tutorial_lib.repository.add_model import checked_name, model_folder
from tutorial_lib.repository.config import parse_config, read_config
from tutorial_lib.repository.config_text import Entry, comment, quoted, shape_text, tensors
from tutorial_lib.repository.layout import CONFIG


@dataclass(frozen=True)
class Step:
    """One model of a chain.

    Attributes:
        model: its folder's name.
        inputs: the model's input → the ensemble's tensor, where the chain does not link them by itself.
        outputs: the model's output → how the ensemble calls that tensor.
    """

    model: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Tensor:
    """A tensor inside the ensemble: what it is and who makes it."""

    data_type: str
    shape: tuple[int, ...]  # with the batch axis, where the model that names it has one
    maker: str  # "output 'y' of 'first'", or "" for an input of the ensemble
    user: str = ""  # the first input that reads it

    def __str__(self) -> str:
        return f"{self.maker or self.user} is {self.data_type} {shape_text(self.shape)}"


class _Chain:
    """The links as they are found, step by step."""

    def __init__(self, name: str, repository: Path) -> None:
        self.name, self.repository = name, repository
        self.tensors: dict[str, _Tensor] = {}
        self.used: set[str] = set()
        self.maps: list[tuple[str, dict[str, str], dict[str, str]]] = []
        self.configs: list[ModelConfig] = []

    def add(self, step: Step) -> None:
        config = self._config(step.model)
        for role, given, entries in (("input", step.inputs, config.input), ("output", step.outputs, config.output)):
            unknown = given.keys() - {entry.name for entry in entries}
            if unknown:
                raise RepositoryError(
                    f"ensemble '{self.name}', step '{step.model}': found the {role} {min(unknown)!r} in the map, "
                    f"expected one of {', '.join(entry.name for entry in entries)}.",
                    action="The model's own name comes first, the ensemble's second.",
                )
        linked = self._link(step, config)
        made = {entry.name: self._output(step, config, entry) for entry in config.output}
        self.maps.append((step.model, linked, made))
        self.configs.append(config)

    def _config(self, model: str) -> ModelConfig:
        if model == self.name:
            raise RepositoryError(f"ensemble '{self.name}': found itself among its steps.")
        folder = self.repository / checked_name(model)
        if not folder.is_dir():
            there = ", ".join(sorted(path.name for path in self.repository.glob("[!.]*") if path.is_dir()))
            raise RepositoryError(
                f"ensemble '{self.name}', step '{model}': found no such model in {self.repository}; "
                f"there are: {there or 'none'}."
            )
        config = read_config(folder)
        config.name = model
        if not config.input or not config.output:
            raise RepositoryError(
                f"ensemble '{self.name}', step '{model}': its config.pbtxt does not list its inputs and outputs.",
                action=f"Write them: ./workshop config {folder}/1/model.onnx",
            )
        return config

    def _link(self, step: Step, config: ModelConfig) -> dict[str, str]:
        """Model input → ensemble tensor, for every input that gets one."""
        linked, waiting = dict(step.inputs), []
        for entry in config.input:
            if entry.name in linked:
                continue
            if entry.name in self.tensors and self.tensors[entry.name].maker:
                linked[entry.name] = entry.name
            elif not entry.optional:
                waiting.append(entry.name)
        before = [tensor for tensor in self.maps[-1][2].values() if tensor not in self.used] if self.maps else []
        before = [tensor for tensor in before if tensor not in linked.values()]
        if len(before) == len(waiting) == 1:
            linked[waiting.pop()] = before[0]
        linked |= {name: name for name in waiting}
        for entry in config.input:
            if entry.name in linked:
                self._read(linked[entry.name], entry, step.model, config)
        return {entry.name: linked[entry.name] for entry in config.input if entry.name in linked}

    def _read(self, tensor: str, entry: object, model: str, config: ModelConfig) -> None:
        wanted = _described(entry, config, user=f"input '{entry.name}' of '{model}'")
        found = self.tensors.setdefault(tensor, wanted)
        self.used.add(tensor)
        fits = found.data_type == wanted.data_type and len(found.shape) == len(wanted.shape)
        if not fits or any(-1 not in (a, b) and a != b for a, b in zip(found.shape, wanted.shape, strict=True)):
            raise RepositoryError(
                f"ensemble '{self.name}', tensor '{tensor}': {found}, but {wanted}"
                f"{' (the batch axis counted)' if -1 in (*found.shape[:1], *wanted.shape[:1]) else ''}.",
                action="Put a model between them that converts, or change one of the two; or map other tensors.",
            )

    def _output(self, step: Step, config: ModelConfig, entry: object) -> str:
        tensor = step.outputs.get(entry.name, "")
        if tensor in self.tensors and tensor:
            raise RepositoryError(
                f"ensemble '{self.name}', step '{step.model}': its output {entry.name!r} is to be called {tensor!r}, "
                "which another tensor is called already.",
                action="Choose another name.",
            )
        tensor = tensor or entry.name
        while tensor in self.tensors:
            tensor = f"{step.model}_{tensor}"
        self.tensors[tensor] = _described(entry, config, maker=f"output '{entry.name}' of '{step.model}'")
        return tensor


def _described(entry: object, config: ModelConfig, *, maker: str = "", user: str = "") -> _Tensor:
    lead = (-1,) if config.max_batch_size > 0 else ()
    data_type = model_config_pb2.DataType.Name(entry.data_type)
    return _Tensor(data_type, (*lead, *entry.dims), maker, user)


def ensemble_config(name: str, *steps: Step | str, repository: Path | str, max_batch_size: int | None = None) -> str:
    """The text of a config.pbtxt that chains models of a repository.

    An input takes an earlier step's output of the same name; failing that, the one output of the step before,
    where exactly one is left over on both sides; failing that it becomes an input of the ensemble. What no
    step reads is an output of the ensemble. Types and shapes are compared along every link.

    Args:
        name: the ensemble's name.
        *steps: models in order; a `Step` where tensors are to be linked otherwise.
        repository: where the models are, each with a config.pbtxt.
        max_batch_size: at most the smallest of the steps'; by default that, or 0 when a step has none.

    Raises:
        RepositoryError: a model is missing, or two ends of a link do not fit.
    """
    checked_name(name)
    if not steps:
        raise RepositoryError(f"ensemble '{name}': found no steps, expected one model at least.")
    chain = _Chain(name, Path(repository).expanduser())
    for step in steps:
        chain.add(Step(step) if isinstance(step, str) else step)
    size = _max_batch_size(name, chain.configs, max_batch_size)
    drop = 1 if size else 0

    def entries(chosen: Sequence[str]) -> list[Entry]:
        return [Entry(tensor, chain.tensors[tensor].data_type, chain.tensors[tensor].shape[drop:]) for tensor in chosen]

    first = [tensor for tensor, found in chain.tensors.items() if not found.maker]
    last = [tensor for tensor, found in chain.tensors.items() if found.maker and tensor not in chain.used]
    about = "A chain of models. It has no file of its own, only an empty version folder; Triton passes the tensors on."
    limits = ", ".join(f"{config.max_batch_size}" for config in chain.configs)
    batch = f"At most what every step takes ({limits}). Each step forms its own batches."
    if not size:
        batch = f"No batching: the steps' max_batch_size are {limits}, and dims are the whole shape."
    parts = [comment(about), f"name: {quoted(name)}\n", 'platform: "ensemble"\n\n', comment(batch)]
    parts += [f"max_batch_size: {size}\n\n", tensors("input", entries(first)), tensors("output", entries(last))]
    parts += ["\n", comment("In both maps the key is the model's own tensor, the value the ensemble's.")]
    parts.append("ensemble_scheduling {\n  step [\n" + ",\n".join(_step(*entry) for entry in chain.maps) + "\n  ]\n}\n")
    text = "".join(parts)
    parse_config(text, source=f"the configuration of ensemble '{name}'")
    return text


def add_ensemble(
    name: str,
    *steps: Step | str,
    repository: Path | str,
    max_batch_size: int | None = None,
    replace: bool = False,
) -> Path:
    """Put an ensemble into the repository of its models, with the empty version folder that Triton wants.

    Raises:
        RepositoryError: as `ensemble_config`, or the name is taken.
    """
    text = ensemble_config(name, *steps, repository=repository, max_batch_size=max_batch_size)
    repository = Path(repository).expanduser()
    with model_folder(repository, name, replace=replace) as folder:
        (folder / "1").mkdir()
        (folder / CONFIG).write_text(text, encoding="utf-8")
    return repository / name


def _max_batch_size(name: str, configs: Sequence[ModelConfig], asked: int | None) -> int:
    least = min(configs, key=lambda config: config.max_batch_size)
    if asked is None:
        return least.max_batch_size
    if not 0 <= asked <= least.max_batch_size:
        raise RepositoryError(
            f"ensemble '{name}': max_batch_size {asked} was asked for, but step '{least.name}' takes "
            f"{least.max_batch_size} at most.",
            action=f"Take {least.max_batch_size}, or raise that model's own.",
        )
    return asked


def _step(model: str, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> str:
    lines = [f"model_name: {quoted(model)}", "model_version: -1"]
    for field_name, links in (("input_map", inputs), ("output_map", outputs)):
        lines += [f"{field_name} {{ key: {quoted(key)} value: {quoted(value)} }}" for key, value in links.items()]
    return "    {\n" + "".join(f"      {line}\n" for line in lines) + "    }"
