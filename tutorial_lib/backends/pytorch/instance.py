"""A model instance: requests in, one `forward`, answers out."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple, NoReturn

import torch
import triton_python_backend_utils as pb_utils
from naming import arguments_of, control_names, indexed, input_positions, output_positions
from settings import Settings
from tensors import TRITON_TYPES, Value, as_list, check_types, filled, joined, to_numpy
from torchscript import load

TRIAL_SAMPLES = 3


class Member(NamedTuple):
    """A request that can be run: its place, the outputs asked for, its values in the order of `forward`."""

    index: int
    asked: list[str]
    values: list[Value]


class Instance:
    """One TorchScript module behind one configuration.

    Args:
        args: Triton's strings: `model_config` (JSON), `model_instance_kind`, `model_name`, ….

    Raises:
        TritonModelException: the file or the configuration does not do, in the C++ backend's words.
    """

    def __init__(self, args: dict[str, str]) -> None:
        self.config = json.loads(args["model_config"])
        self.name = args["model_name"]
        kind = args["model_instance_kind"]
        if kind not in ("CPU", "AUTO", "MODEL"):
            refuse(f"instance group of model {self.name} has kind KIND_{kind} but this tier has no GPU")
        self.batching = self.config["max_batch_size"] > 0
        path = model_file(self.config, pb_utils.get_model_dir())
        try:
            self.settings = Settings(self.config, pb_utils.Logger.log_info)
            with torch.inference_mode(self.settings.inference_mode):
                self.module = load(path)
            self.inputs = self.check_inputs()
            self.outputs = self.check_outputs()
            self.joins = self.batching and self.may_join()
        except ValueError as error:
            refuse(str(error))
        except RuntimeError as error:
            refuse(f"failed to load model '{self.name}': {error}")

    def check_inputs(self) -> dict[str, int]:
        """Input name → position among the arguments of `forward`; a ValueError says what does not fit."""
        arguments, self.takes_dictionary = arguments_of(self.module)
        entries, controls = self.config["input"], control_names(self.config)
        for name in controls:
            if indexed(name) is None:
                raise ValueError(f"input '{name}' does not follow <name>__<index> naming convention.")
        expected = len(entries) + len(controls)
        if not self.takes_dictionary and len(arguments) != expected:
            raise ValueError(
                f"unable to load model '{self.name}', configuration expects {expected} inputs, model provides "
                f"{len(arguments)}"
            )
        if not entries:
            raise ValueError("model configuration must contain at least one input, none were specified.")
        check_types(self.name, "input", entries, self.batching)
        names = [entry["name"] for entry in entries]
        if self.takes_dictionary:
            return {name: position for position, name in enumerate(names)}
        positions = input_positions(names, arguments, self.name, pb_utils.Logger.log_warn)
        positions |= {name: indexed(name) for name in controls}
        if sorted(positions.values()) != list(range(len(arguments))):
            # the C++ backend loads such a model and crashes or mixes arguments up at the first request
            raise ValueError(
                f"model '{self.name}': the inputs {', '.join(positions)} stand for arguments "
                f"{sorted(positions.values())} of forward, which has 0 to {len(arguments) - 1}"
            )
        return positions

    def check_outputs(self) -> dict[str, int]:
        """Output name → position among the results of `forward`; how many there are shows in the first run."""
        entries = self.config["output"]
        if not entries:
            raise ValueError("model configuration must contain at least one output, none were specified.")
        check_types(self.name, "output", entries, self.batching)
        self.output_types = {entry["name"]: entry["data_type"] for entry in entries}
        return output_positions([entry["name"] for entry in entries], self.name, pb_utils.Logger.log_warn)

    def may_join(self) -> bool:
        """Whether requests can be run as one and told apart again: whether every output has one row per sample.

        TorchScript does not say; so `forward` is tried with zeros and with ones. A module that these do not suit is
        taken to follow the batch, and only the number of rows is checked, with every run.
        """
        if not {"dynamic_batching", "sequence_batching"} & self.config.keys():
            return True  # they never come together
        for value in (0, 1):
            values: list[Value] = [None] * len(self.inputs)
            for entry in self.config["input"]:
                values[self.inputs[entry["name"]]] = filled(entry, TRIAL_SAMPLES, value)
            try:
                with torch.inference_mode(self.settings.inference_mode), torch.no_grad():
                    results = self.forward(values)
            except Exception:  # also for want of a sequence's control inputs
                return True
            for name, position in self.outputs.items():
                if len(results[position]) != TRIAL_SAMPLES:
                    pb_utils.Logger.log_warn(
                        f"model '{self.name}': outputs do not follow the batch, so every request is run alone: {name} "
                        f"({len(results[position])} rows for {TRIAL_SAMPLES} samples of {value})"
                    )
                    return False
        return True

    def execute(self, requests: list) -> list:
        """Answer every request of the batch; a faulty one is answered alone, with its error.

        Args:
            requests: what Triton's scheduler put together.

        Returns:
            One `InferenceResponse` per request, in order.
        """
        responses, groups = [None] * len(requests), {}
        # the inputs, too, are made inside: a tensor made outside is no inference tensor
        with torch.inference_mode(self.settings.inference_mode), torch.no_grad():
            for index, request in enumerate(requests):
                try:
                    member = Member(index, request.requested_output_names(), self.read(request))
                except Exception as error:
                    responses[index] = failed(error)
                    continue
                # only values of the same shapes behind the batch axis can be joined
                key = tuple(tuple(value.shape[1:]) for value in member.values if isinstance(value, torch.Tensor))
                groups.setdefault(key if self.joins else index, []).append(member)
            for members in groups.values():
                self.answer(members, responses)
        return responses

    def answer(self, members: list[Member], responses: list) -> None:
        """Run a group as one batch; if that fails, each member alone."""
        try:
            for member, response in zip(members, self.run(members), strict=True):
                responses[member.index] = response
        except Exception as error:
            if len(members) == 1:
                responses[members[0].index] = failed(error)
                return
            for member in members:
                self.answer([member], responses)

    def read(self, request: pb_utils.InferenceRequest) -> list[Value]:
        """The request's tensors in the order `forward` takes them; Triton has applied any `reshape` already."""
        values: list[Value] = [None] * len(self.inputs)
        for tensor in request.inputs():
            name, array = tensor.name(), tensor.as_numpy()
            if array.dtype == object:
                value = [text.decode("utf-8") for text in array.ravel()]
            else:
                value = torch.from_numpy(array)
            values[self.inputs[name]] = value
        return values

    def run(self, members: list[Member]) -> list:
        """Join, run once, split along the batch.

        Returns:
            One response per member, in order.
        """
        if len(members) == 1:
            values, sizes = members[0].values, None
        else:
            values = [joined(parts) for parts in zip(*(member.values for member in members), strict=True)]
            sizes = [len(member.values[0]) for member in members]
        results = self.forward(values)
        if sizes is not None:
            for name, position in self.outputs.items():
                # rows that are not one per sample cannot be told apart: splitting would mix up clients
                if len(results[position]) != sum(sizes):
                    raise ValueError(f"output '{name}' has {len(results[position])} rows for a batch of {sum(sizes)}")
        responses, start = [], 0
        for number, member in enumerate(members):
            part = slice(None) if sizes is None else slice(start, start + sizes[number])
            start = part.stop or 0
            tensors = [
                pb_utils.Tensor(name, to_numpy(results[position][part]))
                for name, position in self.outputs.items()
                if name in member.asked
            ]
            responses.append(pb_utils.InferenceResponse(tensors))
        return responses

    def forward(self, values: list[Value]) -> list[Value]:
        """Call the module; its result as a list, checked against config.pbtxt."""
        with torch.jit.optimized_execution(self.settings.optimized):
            try:
                if self.takes_dictionary:
                    answer = self.module({name: values[position] for name, position in self.inputs.items()})
                else:
                    answer = self.module(*values)
                results = as_list(answer)
            except Exception as error:
                raise RuntimeError(f"PyTorch execute failure: {error}") from None
        for name, position in self.outputs.items():
            if position >= len(results):
                raise ValueError(
                    f"The output {name} in the model configuration refers to an output index which doesn't exist. "
                    f"This model has {len(results)} outputs"
                )
            self.check_result(name, results[position])
        return results

    def check_result(self, name: str, result: Value) -> None:
        """Refuse a result that is not of the type config.pbtxt promises."""
        expected = self.output_types[name].removeprefix("TYPE_").replace("STRING", "BYTES")
        if isinstance(result, list):
            provided = "BYTES"
        else:
            provided = TRITON_TYPES.get(result.dtype, f"TYPE_{result.dtype}").removeprefix("TYPE_")
        if provided != expected:
            raise ValueError(
                f"configuration expects datatype TYPE_{expected} for output '{name}', model provides TYPE_{provided}"
            )
        if isinstance(result, torch.Tensor) and result.ndim == 0:
            raise ValueError(f"output '{name}' is a scalar which is not supported.")


def refuse(message: str) -> NoReturn:
    """Refuse to load, in Triton's own kind of error."""
    raise pb_utils.TritonModelException(message)


def failed(error: Exception) -> pb_utils.InferenceResponse:
    """The answer to a request that could not be run."""
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(str(error)))


def model_file(config: dict, version_folder: str) -> Path:
    """The model file of this version; `default_model_filename` may name another than model.pt."""
    folder = Path(version_folder).absolute()
    path = Path(os.path.normpath(folder / (config.get("default_model_filename") or "model.pt")))
    if folder not in path.parents:  # by the name alone: a link to elsewhere is the owner's choice, "../" is not
        refuse(f"default_model_filename '{path}' points outside the version folder {folder}")
    if not path.is_file():
        refuse(f"unable to find '{path}' for model instance '{config['name']}'")
    return path
