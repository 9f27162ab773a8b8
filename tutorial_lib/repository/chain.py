"""The tensors between the steps of an ensemble: who writes them, who reads them, and whether both agree."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from tritonclient.grpc import model_config_pb2

from tutorial_lib.repository.config_text import shape_text
from tutorial_lib.repository.proto_fields import name_of
from tutorial_lib.repository.registry import Problem
from tutorial_lib.repository.view import ModelView


@dataclass(frozen=True)
class End:
    """One end of an edge: a model's tensor, mapped to a tensor of the ensemble.

    Attributes:
        owner: "step 1 (resize)", or "the ensemble".
        dims: behind the batch, None when not known; whole: with the batch axis where the owner batches.
        at: the place in the ensemble's config.pbtxt.
    """

    owner: str
    tensor: str
    data_type: str
    dims: tuple[int, ...] | None
    batching: bool
    at: str

    @property
    def whole(self) -> tuple[int, ...]:
        return (-1, *self.dims) if self.batching else tuple(self.dims)

    @property
    def text(self) -> str:
        return f"'{self.tensor}' of {self.owner}"


def tensors_of(model: ModelView, role: str) -> dict[str, tuple[str, tuple[int, ...] | None]] | None:
    """A model's tensors by name; None when neither its configuration nor its graph tells."""
    if model.parse_error:
        return None
    listed = getattr(model.config, role)
    if listed:
        return {
            one.name: (name_of(model_config_pb2.DataType, one.data_type), tuple(one.dims) or None) for one in listed
        }
    if not model.graphs or model.graphs[0].header is None:
        return None
    graph = model.graphs[0]
    known = graph.inputs if role == "input" else graph.outputs
    skip = int(limit_of(model, model.name) > 0)
    return {name: (tensor.data_type, tensor.dims and (tensor.dims[skip:] or (1,))) for name, tensor in known.items()}


def limit_of(model: ModelView, name: str) -> int:
    """max_batch_size of a model of the repository; what Triton completes it to when it has no tensors written."""
    other = model.repository.models.get(name)
    if other is None:
        return 0
    size = other.config.max_batch_size
    if size or other.config.input or not other.graphs:
        return size
    tensors = [*other.graphs[0].inputs.values(), *other.graphs[0].outputs.values()]
    return 4 if tensors and all(tensor.dims and tensor.dims[0] == -1 for tensor in tensors) else 0


def _ends(model: ModelView) -> tuple[dict[str, list[End]], dict[str, list[End]]]:
    """(tensor → who writes it, tensor → who reads it), the ensemble's own inputs and outputs first."""
    batching = model.config.max_batch_size > 0
    writers: dict[str, list[End]] = {}
    readers: dict[str, list[End]] = {}
    for role, ends in (("input", writers), ("output", readers)):
        for number, one in enumerate(getattr(model.config, role)):
            kind = name_of(model_config_pb2.DataType, one.data_type)
            dims = one.reshape.shape if one.HasField("reshape") else one.dims
            end = End("the ensemble", one.name, kind, tuple(dims) or None, batching, f"{role}[{number}]")
            ends.setdefault(one.name, []).append(end)
    for number, step in enumerate(model.config.ensemble_scheduling.step):
        inner = model.repository.models.get(step.model_name)
        owner = f"step {number + 1} ({step.model_name})"
        for role, mapping, ends in (("input", step.input_map, readers), ("output", step.output_map, writers)):
            known = (tensors_of(inner, role) if inner else None) or {}
            at = f"ensemble_scheduling.step[{number}].{role}_map"
            for key, value in mapping.items():
                kind, dims = known.get(key, ("", None))
                end = End(owner, key, kind, dims, limit_of(model, step.model_name) > 0, at)
                ends.setdefault(value, []).append(end)
    return writers, readers


def map_problems(model: ModelView) -> Iterator[Problem]:
    """Maps that do not join; the first broken link of each tensor."""
    if model.parse_error or not model.config.ensemble_scheduling.step:
        return
    broken = list(_wrong_keys(model))
    yield from broken
    writers, readers = _ends(model)
    for name, ends in writers.items():
        steps = [end for end in ends if end.owner != "the ensemble"]
        if len(ends) > 1:
            owners = " and ".join(end.owner for end in ends)
            yield Problem(
                f"tensor '{name}'",
                f"two writers: {owners}",
                "one",
                "Give one of them another value.",
                at=steps[-1].at if steps else "input",
            )
    if broken:
        return  # what follows from a wrong key is no news
    unread = {name: ends for name, ends in writers.items() if name not in readers}
    for name, ends in readers.items():
        if name in writers:
            continue
        end = ends[0]
        near = difflib.get_close_matches(name, list(unread), n=1, cutoff=0.4)
        if end.owner == "the ensemble":
            fix = f'Map a step\'s output to "{name}"' + (
                f', such as "{near[0]}" of {unread[near[0]][0].owner}.' if near else "."
            )
            yield Problem(
                f"output '{name}'", "no step that writes it", f'output_map {{ … value: "{name}" }}', fix, at=end.at
            )
        else:
            unread.pop(near[0], None) if near else None
            fix = (
                f'Write value: "{near[0]}" in both maps.'
                if near
                else "Map it to an input of the ensemble, or to a step's output."
            )
            found = f"the value '{name}' for input {end.text}, which nothing writes"
            yield Problem(
                f"tensor '{name}'", found, f"'{near[0]}'" if near else "a tensor that something writes", fix, at=end.at
            )
    for name, ends in unread.items():
        end = ends[0]
        if end.owner == "the ensemble":
            yield Problem(
                f"input '{name}'",
                "no step that reads it",
                f'input_map {{ … value: "{name}" }}',
                "Map it, or delete the input.",
                at=end.at,
            )
        else:
            fix = f"Delete the output_map of {end.text}, or read it."
            yield Problem(
                f"tensor '{name}'",
                f"no reader for what {end.owner} writes",
                "a step or an output that reads it",
                fix,
                at=end.at,
            )


def _wrong_keys(model: ModelView) -> Iterator[Problem]:
    """Keys that are no tensor of their step, inputs without a key, steps without a map."""
    for number, step in enumerate(model.config.ensemble_scheduling.step):
        at, subject = f"ensemble_scheduling.step[{number}]", f"step {number + 1} ({step.model_name})"
        inner = model.repository.models.get(step.model_name)
        for role, mapping in (("input", step.input_map), ("output", step.output_map)):
            if not mapping:
                yield Problem(subject, f"no {role}_map", f"one {role}_map at least", f"Add {role}_map.", at=at)
            known = tensors_of(inner, role) if inner is not None and inner is not model else None
            if known is None:
                continue
            for key, value in mapping.items():
                if key in known:
                    continue
                swapped = value in known
                listed = ", ".join(known)
                near = difflib.get_close_matches(key, list(known), n=1, cutoff=0.6)
                fix = (
                    f'Write key: "{value}" value: "{key}".'
                    if swapped
                    else f'Write key: "{near[0]}".'
                    if near
                    else f"Use one of {listed}."
                )
                found = f'{role}_map key: "{key}" value: "{value}"'
                note = "Key and value are swapped." if swapped else ""
                yield Problem(
                    subject, found, f"a key of {step.model_name}: {listed}", fix, at=f"{at}.{role}_map", note=note
                )
        needed = tensors_of(inner, "input") if inner is not None and inner is not model else None
        optional = {one.name for one in inner.config.input if one.optional} if inner is not None else set()
        missing = [name for name in needed or () if name not in step.input_map and name not in optional]
        wrong = any(key not in needed for key in step.input_map) if needed else True
        if missing and step.input_map and not wrong:
            fix = f'Add input_map {{ key: "{missing[0]}" value: "…" }}.'
            yield Problem(subject, f"no input_map for {', '.join(missing)}", "every input of the step", fix, at=at)


def type_problems(model: ModelView) -> Iterator[Problem]:
    """Edges whose ends have different types."""
    for name, one, other in _edges(model):
        if one.data_type and other.data_type and one.data_type != other.data_type:
            found = f"{one.data_type} from {one.text} and {other.data_type} for {other.text}"
            fix = _where(one, other, "data_type")
            yield Problem(f"tensor '{name}'", found, "one type", fix, at=other.at)


def shape_problems(model: ModelView) -> Iterator[Problem]:
    """Edges whose ends have different shapes, with and without the batch axis."""
    for name, one, other in _edges(model):
        if one.dims is None or other.dims is None or _match(one.whole, other.whole):
            continue
        found = f"{shape_text(one.whole)} from {one.text} and {shape_text(other.whole)} for {other.text}"
        if _match(one.dims, other.dims):
            # Triton loads this: it compares dims alone as well
            note = "Triton loads it, and requests fail."
            fix = "Give both the same batching: max_batch_size above 0, or dims with the batch axis."
            yield Problem(f"tensor '{name}'", found, "one shape", fix, at=other.at, severity="warning", note=note)
        else:
            yield Problem(f"tensor '{name}'", found, "one shape", _where(one, other, "dims"), at=other.at)


def _where(one: End, other: End, field: str) -> str:
    """Which of the two configurations to change: the ensemble's own entry before a model's."""
    own = next((end for end in (one, other) if end.owner == "the ensemble"), None)
    if own is None:
        return f"Make {one.text} and {other.text} agree, or put a step between them that converts."
    step = other if own is one else one
    value = step.data_type if field == "data_type" else shape_text(step.dims or ())
    return f"Write {field}: {value} for '{own.tensor}' of the ensemble."


def _edges(model: ModelView) -> Iterator[tuple[str, End, End]]:
    """(tensor, writer, reader) for each pair."""
    if model.parse_error or not model.config.ensemble_scheduling.step:
        return
    writers, readers = _ends(model)
    for name, ends in writers.items():
        for reader in readers.get(name, []):
            yield name, ends[0], reader


def _match(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return len(one) == len(other) and all(a == b or -1 in (a, b) for a, b in zip(one, other, strict=True))


def model_cycle(model: ModelView) -> list[str]:
    """The models on a way from an ensemble back to itself."""
    waiting, above = [model.name], {model.name: ""}
    while waiting:
        name = waiting.pop()
        inner = model.repository.models.get(name)
        for step in inner.config.ensemble_scheduling.step if inner is not None else ():
            if step.model_name == model.name:
                path = [model.name]
                while name:
                    path.append(name)
                    name = above[name]
                return path[::-1]
            if step.model_name not in above:
                above[step.model_name] = name
                waiting.append(step.model_name)
    return []


def tensor_cycle(model: ModelView) -> list[str]:
    """Tensors of the ensemble that need each other; [] when the steps have an order."""
    steps = list(model.config.ensemble_scheduling.step)
    written = {value for step in steps for value in step.output_map.values()}
    ready = {one.name for one in model.config.input}
    while True:
        runnable = [
            step for step in steps if all(value in ready or value not in written for value in step.input_map.values())
        ]
        if not runnable:
            break
        steps = [step for step in steps if step not in runnable]
        ready |= {value for step in runnable for value in step.output_map.values()}
    return sorted({value for step in steps for value in step.output_map.values() if _is_read(value, steps)})


def _is_read(tensor: str, steps: list) -> bool:
    return any(tensor in step.input_map.values() for step in steps)
