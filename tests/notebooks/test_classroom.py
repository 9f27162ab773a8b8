"""Two learners on one host and in one clone: each with a workspace, a progress file, notebooks, a lab, a server."""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from jupyter_client import BlockingKernelClient

from tests.notebooks.test_run import processes_naming, wait_for
from tutorial_lib.course.progress import PROGRESS_VARIABLE
from tutorial_lib.paths import CHECKOUT, NOTEBOOKS, WORKSPACE_VARIABLE
from tutorial_lib.server.ports import is_free

SERVE = """
from tutorial_lib import serve, workspace
from tutorial_lib.course.checks_01 import check_throughput

workspace().seed()
server = serve(models=["ink_meter"], http_port={port})
check_throughput(lambda callers, latency_ms: callers * 1000 / latency_ms)
print(workspace().root, server.http_address, server.ready("ink_meter"))
"""


@dataclass
class Learner:
    """A learner's lab and what was asked for it."""

    home: Path
    port: int
    server_port: int
    process: subprocess.Popen
    output: Path
    client: BlockingKernelClient | None = None

    def ask(self, path, **body):
        token = re.search(r"token=(\w+)", self.output.read_text())[1]
        method = "POST" if body else "GET"
        headers = {"Authorization": f"token {token}"}
        url = f"http://127.0.0.1:{self.port}/api/{path}"
        return httpx.request(method, url, headers=headers, json=body or None, trust_env=False, timeout=30).json()

    def start_kernel(self):
        kernel = self.ask("kernels", name="python3")["id"]
        (connection,) = (self.home / "workspace" / "lab" / "runtime").glob(f"kernel-{kernel}.json")
        self.client = BlockingKernelClient(connection_file=str(connection))
        self.client.load_connection_file()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def execute(self, source):
        """Run a cell in the learner's kernel; what it printed."""
        printed = []

        def take(message):
            content = message["content"]
            printed.append(content.get("text", "") + "\n".join(content.get("traceback", ())))

        self.client.execute_interactive(source, timeout=90, output_hook=take, allow_stdin=False)
        return "".join(printed)


def free_ports(count):
    """Below those that Linux gives to whoever asks for any: other tests' kernels and servers take of these."""
    return list(itertools.islice((port for port in random.sample(range(20_000, 30_000), 1000) if is_free(port)), count))


@pytest.fixture
def learners(tmp_path):
    ports, found = free_ports(4), []
    for name, port, server_port in zip(("anna", "ben"), ports[:2], ports[2:], strict=True):
        home = tmp_path / name
        (home / "notebooks").mkdir(parents=True)
        shutil.copyfile(NOTEBOOKS / "00_start_here.ipynb", home / "notebooks" / "00_start_here.ipynb")
        settings = {WORKSPACE_VARIABLE: str(home / "workspace"), PROGRESS_VARIABLE: str(home / "progress.json")}
        output = home / "output"
        command = [sys.executable, "-m", "tutorial_lib", "lab", "--no-browser", "--port", str(port)]
        with output.open("w") as file:
            process = subprocess.Popen(
                [*command, "--notebooks", str(home / "notebooks")],
                cwd=CHECKOUT,
                env=os.environ | settings,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        found.append(Learner(home, port, server_port, process, output))
    yield found
    for learner in found:
        if learner.client:
            learner.client.stop_channels()
        learner.process.terminate()
    for learner in found:
        learner.process.wait(timeout=60)
    wait_for(lambda: not processes_naming(str(tmp_path)), what="the end of all labs, kernels and servers")


def test_two_learners_at_once_have_nothing_in_common(learners):
    for learner in learners:
        output, process = learner.output, learner.process
        wait_for(lambda: process.poll() is not None or "Ctrl-C" in output.read_text(), what="a lab")  # noqa: B023
        assert f"http://127.0.0.1:{learner.port}/" in output.read_text(), output.read_text()
        learner.start_kernel()
    for learner in learners:
        said = learner.execute(SERVE.format(port=learner.server_port))
        assert f"{learner.home / 'workspace'} 127.0.0.1:{learner.server_port} True" in said, said
    for learner in learners:  # both servers run now
        ready = f"http://127.0.0.1:{learner.server_port}/v2/models/ink_meter/ready"
        assert httpx.get(ready, trust_env=False).status_code == 200
        assert "throughput" in (learner.home / "progress.json").read_text()
        assert [entry["name"] for entry in learner.ask("contents")["content"]] == ["00_start_here.ipynb"]
        assert not (learner.home / "workspace" / "progress.json").exists()
    anna, ben = learners
    reset = [sys.executable, "-m", "tutorial_lib", "reset"]
    settings = {WORKSPACE_VARIABLE: str(anna.home / "workspace"), PROGRESS_VARIABLE: str(anna.home / "progress.json")}
    told = subprocess.run(reset, cwd=CHECKOUT, env=os.environ | settings, capture_output=True, text=True)
    assert told.returncode == 1 and "a server of it runs" in told.stderr
    anna.execute("server.stop()")
    told = subprocess.run(reset, cwd=CHECKOUT, env=os.environ | settings, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr  # Ben's server is none of hers
    assert "throughput" not in (anna.home / "progress.json").read_text()
    assert "throughput" in (ben.home / "progress.json").read_text()
    assert "True" in ben.execute("print(bool(server.health('ink_meter')))")
