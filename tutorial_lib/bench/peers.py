"""Other serving frameworks, each in an environment of its own under the workspace's cache.

Each app serves the same ONNX file with ONNX Runtime, in the framework's own way of batching and with the
leanest request it takes, so that what differs is the framework.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tutorial_lib.bench.contestants import App, Contestant, json_base64, raw
from tutorial_lib.bench.models import Artifacts
from tutorial_lib.bench.result import Target, at_least
from tutorial_lib.bench.rounds import Rounds
from tutorial_lib.errors import SetupError, WorkshopError
from tutorial_lib.paths import workspace

APPS = Path(__file__).with_name("peer_apps")
INSTALL_TIMEOUT_S = 900.0
LEVELS = (16, 64)


@dataclass(frozen=True)
class Peer:
    """A framework.

    Attributes:
        requirements: what pip installs, with ONNX Runtime and numpy.
        command: after the environment's own python; "{app}" is the app's file.
        contestant: (name, address, picture) → how it is asked.
    """

    name: str
    requirements: tuple[str, ...]
    app: str
    contestant: Callable[[str, str, np.ndarray], Contestant]
    command: tuple[str, ...] = ("{app}",)


def _data(name: str, address: str, picture: np.ndarray) -> Contestant:
    return json_base64(name, address, picture, question=lambda text: {"data": text})


def _list_of_data(name: str, address: str, picture: np.ndarray) -> Contestant:
    return json_base64(name, address, picture, question=lambda text: {"data": [text]})


def _open_inference(name: str, address: str, picture: np.ndarray) -> Contestant:
    def question(text: str) -> dict:
        return {"inputs": [{"name": "data_0", "shape": [1], "datatype": "BYTES", "data": [text]}]}

    return json_base64(name, address, picture, path="/v2/models/resnet/infer", question=question)


def _torchserve(name: str, address: str, picture: np.ndarray) -> Contestant:
    return raw(name, address, picture, path="/predictions/resnet")


PEERS = (
    Peer("LitServe", ("litserve==0.2.19",), "litserve_app.py", _data),
    Peer("MLServer", ("mlserver==1.7.1", "uvloop<0.22"), "mlserver_app.py", _open_inference),
    Peer(
        "BentoML",
        ("bentoml==1.4.40",),
        "bentoml_app.py",
        _list_of_data,
        ("-m", "bentoml", "serve", "bentoml_app:Scores", "--host", "127.0.0.1", "--port", "{port}"),
    ),
    Peer("Ray Serve", ("ray[serve]==2.60.0",), "ray_app.py", raw),
    Peer(
        "TorchServe",
        ("torchserve==0.12.0", "torch-model-archiver==0.12.0", "torch", "setuptools", "pyyaml"),
        "torchserve_app.py",
        _torchserve,
    ),
)


def against_peers(
    ours: Contestant, picture: np.ndarray, scores: np.ndarray, made: Artifacts, rounds: Rounds, *,
    repeats: int, seconds: float, say: Callable[[str], None], factor: float,
) -> list[Target]:  # fmt: skip
    """Measure every peer that can be installed beside our server, one after another.

    Returns:
        A target for each peer and concurrency; one that could not be measured says why.
    """
    targets = []
    for peer in PEERS:
        titles = {level: f"requests/s, times {peer.name}, c={level}" for level in LEVELS}
        try:
            python = environment_of(peer, say)
            command = [part.replace("{app}", str(APPS / peer.app)) for part in peer.command]
            extra = {"BENCH_ONNX": str(made.onnx), "PYTHONPATH": str(APPS), "DO_NOT_TRACK": "1"}
            extra |= {"BENTOML_DO_NOT_TRACK": "True", "RAY_USAGE_STATS_ENABLED": "0"}
            with App(peer.name.replace(" ", "-"), [str(python), *command], extra) as app:
                contestant = peer.contestant(peer.name, app.address, picture)
                app.wait(contestant, scores)
                own = Rounds()
                cells = [(who, level) for level in LEVELS for who in (ours, contestant)]
                own.run(cells, repeats=repeats, seconds=seconds, say=say, title=peer.name)
        except WorkshopError as error:
            reason = f"{error.problem} {error.details[-300:]}".strip()
            say(f"{peer.name}: not measured: {reason}")
            targets += [at_least(title, [], factor, note=reason) for title in titles.values()]
            continue
        targets += [at_least(title, own.ratios(ours.name, peer.name, level), factor) for level, title in titles.items()]
        rounds.samples |= {cell: samples for cell, samples in own.samples.items() if cell[0] == peer.name}
    return targets


def environment_of(peer: Peer, say: Callable[[str], None]) -> Path:
    """The Python of a peer's environment, made when it is not there yet.

    Raises:
        SetupError: it cannot be installed here.
    """
    if peer.name == "TorchServe" and not shutil.which("java"):
        raise SetupError("TorchServe: found no java, which its front end runs on.")
    folder = workspace().cache / "peers" / peer.name.replace(" ", "-").lower()
    requirements = [*peer.requirements, "onnxruntime", "numpy<2"]
    stamp, wanted = folder / "complete", "\n".join(requirements)
    python = folder / "bin" / "python"
    if python.exists() and stamp.is_file() and stamp.read_text() == wanted:
        return python
    say(f"installing {peer.name} into {folder}")
    shutil.rmtree(folder, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "--no-compile", *requirements],
    ):
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=INSTALL_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SetupError(f"{peer.name}: not installed within {INSTALL_TIMEOUT_S:g} s.") from None
        if done.returncode:
            raise SetupError(f"{peer.name}: it cannot be installed here.", details=done.stderr[-800:])
    stamp.write_text(wanted)
    return python
