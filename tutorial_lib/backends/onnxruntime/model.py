"""Triton backend "onnxruntime", written as a Python-based backend.

The Triton in the PyPI wheel ships without the C++ ONNX Runtime backend, so this folder takes its
place: Triton puts it in front of every model whose config.pbtxt says `backend: "onnxruntime"` or
`platform: "onnxruntime_onnx"`. It gives the verdicts of the C++ backend, in that backend's words,
because a configuration that loads here has to load in the container too; README.md one folder up
says where the two are the same and where they are not.

It runs inside Triton's stub process and therefore imports nothing of `tutorial_lib`.
What it needs to know about the release it stands in for arrives in the server's environment:
WORKSHOP_ONNX_MAX_IR and WORKSHOP_ONNX_MAX_OPSET (see `tutorial_lib/versions.py`).

Source for the protocol: "Python-based Backends" in the python_backend documentation,
https://github.com/triton-inference-server/python_backend
"""

from __future__ import annotations

import json
from itertools import accumulate

import numpy as np
import onnxruntime as ort
import triton_python_backend_utils as pb_utils
from ort_batch import one_row_per_sample
from ort_checks import check, complete
from ort_file import in_c_words, model_file, open_session, refuse
from ort_ragged import Ragged
from ort_settings import register_operators, run_options, session_options


class TritonPythonModel:
    """One model instance: one ONNX Runtime session."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: pb_utils.ModelConfig) -> pb_utils.ModelConfig:
        """Fill in what config.pbtxt leaves out: tensors, batching, dynamic batching."""
        config = auto_complete_model_config.as_dict()
        if (config["input"] or config.get("batch_input")) and config["output"]:
            pb_utils.Logger.log_info(
                f"skipping model configuration auto-complete for '{config['name']}': inputs and outputs already "
                "specified"
            )
            return auto_complete_model_config
        # no optimisation: only names, types and shapes are read from this session
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        register_operators(config, options)
        complete(auto_complete_model_config, open_session(model_file(config, pb_utils.get_model_dir()), options))
        return auto_complete_model_config

    def initialize(self, args: dict[str, str]) -> None:
        """Open the session and check config.pbtxt against the model's own tensors.

        Args:
            args: Triton's strings: `model_config` (JSON), `model_instance_kind`, `model_name`, ….
        """
        config, kind = json.loads(args["model_config"]), args["model_instance_kind"]
        if kind not in ("CPU", "AUTO", "MODEL"):
            refuse(f"instance group of model {args['model_name']} has kind KIND_{kind} but this tier has no GPU")
        options = session_options(config)
        self.session = open_session(model_file(config, pb_utils.get_model_dir()), options)
        self.run_options = run_options(config)
        inputs, outputs = check(config, self.session)
        self.batching = config["max_batch_size"] > 0
        self.ragged = Ragged(config)
        self.outputs = list(outputs)
        self.joins = self.batching and self.may_join(args["model_name"], config)
        self.scalars = {name for name, tensor in inputs.items() if tensor.shape == []}
        self.strings = {name for name, tensor in inputs.items() if tensor.type == "tensor(string)"}
        self.string_outputs = {name for name, tensor in outputs.items() if tensor.type == "tensor(string)"}
        self.scalar_dims = {
            entry["name"]: [int(dim) for dim in entry["dims"]]
            for entry in config["output"]
            if outputs[entry["name"]].shape == []
        }

    def may_join(self, model: str, config: dict) -> bool:
        """Whether requests of this model can be run as one and told apart again."""
        if self.ragged or not {"dynamic_batching", "sequence_batching"} & config.keys():
            return True  # cut apart by their own sizes; or they never come together
        joins, against = one_row_per_sample(self.session, [entry["name"] for entry in config["output"]])
        if not joins:
            pb_utils.Logger.log_warn(
                f"model '{model}': outputs do not follow the batch, so every request is run alone: {against}"
            )
        return joins

    def execute(self, requests: list) -> list:
        """Answer every request of the batch; a faulty one is answered alone, with its error.

        Args:
            requests: what Triton's scheduler put together.

        Returns:
            One `InferenceResponse` per request, in order.
        """
        if len(requests) == 1 and not self.ragged:
            return [self.alone(requests[0])]
        responses = [None] * len(requests)
        groups = {}
        for index, request in enumerate(requests):
            try:
                feeds = self.read(request)
            except Exception as error:
                responses[index] = failed(error)
                continue
            key = self.companions(index, feeds) if len(requests) > 1 else index
            groups.setdefault(key, []).append((index, request.requested_output_names(), feeds))
        for members in groups.values():
            self.answer(members, responses)
        return responses

    def alone(self, request: pb_utils.InferenceRequest) -> pb_utils.InferenceResponse:
        """Answer the only request there is: nothing to join, nothing to split.

        What `run` does would give the same; this took a lone request's time from 1.24 to 1.15 of that of a backend
        which computes nothing (./workshop bench backend --part lone).
        """
        try:
            asked = request.requested_output_names()
            results = self.session.run(asked, self.read(request), self.run_options)
            tensors = [self.tensor(name, result) for name, result in zip(asked, results, strict=True)]
            return pb_utils.InferenceResponse(tensors)
        except Exception as error:
            return failed(error)

    def companions(self, index: int, feeds: dict[str, np.ndarray]) -> object:
        """A key that requests share when they can be run as one: the same tensors, of the same shapes behind the
        batch axis. A scalar belongs to one request alone."""
        if not self.joins or not self.scalars.isdisjoint(feeds):
            return index
        return tuple((name, None if name in self.ragged.inputs else array.shape[1:]) for name, array in feeds.items())

    def answer(self, members: list[tuple], responses: list) -> None:
        """Run one group as one batch; if that fails, each member alone."""
        try:
            for (index, _, _), response in zip(members, self.run(members), strict=True):
                responses[index] = response
        except Exception as error:
            if len(members) == 1:
                responses[members[0][0]] = failed(error)
            else:
                for member in members:
                    self.answer([member], responses)

    def read(self, request: pb_utils.InferenceRequest) -> dict[str, np.ndarray]:
        """The request's tensors as arrays; Triton has applied any `reshape` already."""
        feeds = {}
        for tensor in request.inputs():
            name, array = tensor.name(), tensor.as_numpy()
            if name in self.strings:
                array = decoded(array)
            if name in self.scalars:
                array = array.ravel()[:1].reshape(())  # of a batch the C++ backend takes the first, too
            feeds[name] = array
        return feeds

    def run(self, members: list[tuple]) -> list:
        """Concatenate, run once, split; the split parts are views into the result.

        Args:
            members: (index, requested output names, feeds) of requests that fit together.

        Returns:
            One response per member, in order.
        """
        parts = [feeds for _, _, feeds in members]
        wanted = [name for name in self.outputs if any(name in asked for _, asked, _ in members)]
        if self.ragged:
            feeds = self.ragged.feeds(parts)
        elif len(parts) == 1:
            feeds = parts[0]
        else:
            feeds = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        results = dict(zip(wanted, self.session.run(wanted, feeds, self.run_options), strict=True))
        pieces = {name: self.split(name, result, parts) for name, result in results.items()}
        return [
            pb_utils.InferenceResponse([self.tensor(name, pieces[name][row]) for name in wanted if name in asked])
            for row, (_, asked, _) in enumerate(members)
        ]

    def split(self, name: str, result: np.ndarray, parts: list[dict[str, np.ndarray]]) -> list[np.ndarray]:
        """One piece of a result per request."""
        if name in self.ragged.sources:
            return self.ragged.scatter(name, result, parts)
        if len(parts) == 1:
            return [result]
        ends = list(accumulate(len(next(iter(feeds.values()))) for feeds in parts))
        # rows that are not one per sample cannot be told apart: splitting would mix up clients
        if np.shape(result)[:1] != (ends[-1],):
            raise ValueError(f"output '{name}' has {np.shape(result)[:1]} rows for a batch of {ends[-1]}")
        return [result[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def tensor(self, name: str, array: np.ndarray) -> pb_utils.Tensor:
        """One output tensor; Triton applies any `reshape` to it."""
        if name in self.scalar_dims:
            array = np.reshape(array, self.scalar_dims[name])
        if name in self.string_outputs:
            array = np.array([text.encode("utf-8") for text in array.ravel()], dtype=object).reshape(array.shape)
        return pb_utils.Tensor(name, array)

    def finalize(self) -> None:
        """Give the session's memory back before Triton ends the stub."""
        self.session = None


def failed(error: Exception) -> pb_utils.InferenceResponse:
    """The answer to a request that could not be run."""
    return pb_utils.InferenceResponse(error=pb_utils.TritonError(in_c_words(error)))


def decoded(array: np.ndarray) -> np.ndarray:
    """BYTES as ONNX Runtime's Python binding takes them: str, up to the first NUL, where C ends a string."""
    try:
        texts = [text.decode("utf-8").partition("\0")[0] for text in array.ravel()]
    except UnicodeDecodeError:  # bytes pass as they are, padded to the longest, which is why this is not the rule
        return np.array(array.ravel().tolist(), dtype="S").reshape(array.shape)
    return np.array(texts, dtype=object).reshape(array.shape)
