"""Triton backend "pytorch", written as a Python-based backend.

The Triton in the PyPI wheel ships without the C++ PyTorch backend, so this file takes its place for
`backend: "pytorch"` and `platform: "pytorch_libtorch"`: it reads the same TorchScript `model.pt`, goes by the
same naming conventions and refuses with the same words. One difference is meant: there a request that makes the
model throw fails its whole batch, here the others are run again without it.

It runs inside Triton's stub process and imports nothing of `tutorial_lib`.

Source for the behaviour: https://github.com/triton-inference-server/pytorch_backend (read, not copied);
for the protocol: "Python-based Backends" in https://github.com/triton-inference-server/python_backend
"""

from __future__ import annotations

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """One model instance; what it does is in instance.py."""

    @staticmethod
    def auto_complete_config(auto_complete_model_config: pb_utils.ModelConfig) -> pb_utils.ModelConfig:
        """Nothing can be completed: TorchScript knows neither shapes nor types.

        Triton asks in a process of its own, which therefore must not spend two seconds importing torch.
        """
        name = auto_complete_model_config.as_dict()["name"]
        pb_utils.Logger.log_warn(
            f"skipping model configuration auto-complete for '{name}': not supported for pytorch backend"
        )
        return auto_complete_model_config

    def initialize(self, args: dict[str, str]) -> None:
        """Load the module and check config.pbtxt against its `forward`."""
        from instance import Instance

        self.instance = Instance(args)

    def execute(self, requests: list) -> list:
        """One `InferenceResponse` per request, in order."""
        return self.instance.execute(requests)

    def finalize(self) -> None:
        """Give the module's memory back before Triton ends the stub."""
        self.instance = None
