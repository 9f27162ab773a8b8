"""The `parameters` of config.pbtxt that Triton's PyTorch backend knows, and what is shared out by default.

Source: "Parameters" in https://github.com/triton-inference-server/pytorch_backend; those that steer a GPU
(ENABLE_CACHE_CLEANING, ENABLE_NVFUSER) and ENABLE_WEIGHT_SHARING (one process holds one instance here) are
checked and then have nothing to do.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

YES, NO = ("true", "on", "1"), ("false", "off", "0")


class Settings:
    """What one model instance runs with.

    Attributes:
        optimized: TorchScript's optimising executor; its first calls are slow.
        inference_mode: no autograd bookkeeping at all.

    Raises:
        ValueError: a parameter is not the kind of value it has to be.
    """

    def __init__(self, config: dict, log: Callable[[str], None]) -> None:
        self._given = {name: entry["string_value"] for name, entry in config.get("parameters", {}).items()}
        name = config["name"]
        self.optimized = not self._flag("DISABLE_OPTIMIZED_EXECUTION", False)
        self.inference_mode = self._flag("INFERENCE_MODE", True)
        if self._given:
            log(f"Optimized execution is {_word(self.optimized)} for model instance '{name}'")
            log(f"Inference Mode is {_word(self.inference_mode)} for model instance '{name}'")
        for parameter in ("ENABLE_CACHE_CLEANING", "ENABLE_WEIGHT_SHARING", "ENABLE_NVFUSER"):
            self._flag(parameter, False)
        for parameter, switch in (
            ("ENABLE_TENSOR_FUSER", torch._C._jit_set_texpr_fuser_enabled),
            ("ENABLE_JIT_PROFILING", torch._C._jit_set_profiling_mode),
            ("ENABLE_JIT_EXECUTOR", torch._C._jit_set_profiling_executor),
        ):
            if parameter in self._given:
                switch(self._flag(parameter, True))
        threads = self._number("INTRA_OP_THREAD_COUNT")
        # Left alone every instance takes all cores and they fight; the C++ backend's instances share one pool
        torch.set_num_threads(threads or max(1, cores() // instances(config)))
        between = self._number("INTER_OP_THREAD_COUNT")
        torch.set_num_interop_threads(between or 1)

    def _flag(self, name: str, default: bool) -> bool:
        text = self._given.get(name, str(default)).lower()
        if text not in YES + NO:
            raise ValueError(f"failed to convert '{self._given[name]}' to boolean (parameter {name})")
        return text in YES

    def _number(self, name: str) -> int:
        text = self._given.get(name, "0").strip()
        if not text.removeprefix("-").isdecimal():
            raise ValueError(f"failed to convert '{text}' to integral number (parameter {name})")
        return max(0, int(text))  # the C++ backend passes over what is not positive


def cores() -> int:
    """Processors this model may use; the server's starter knows of a container's share, too."""
    return int(os.environ.get("WORKSHOP_CPU_COUNT", 0)) or len(os.sched_getaffinity(0))


def instances(config: dict) -> int:
    """How many instances the configuration in force has."""
    return sum(group["count"] for group in config.get("instance_group", [])) or 1


def _word(on: bool) -> str:
    return "enabled" if on else "disabled"
