"""predict and reveal in a real kernel with a front end that can type, as JupyterLab is one."""

from __future__ import annotations

import os

import pytest
from jupyter_client.manager import start_new_kernel

from tutorial_lib.course.record import RECORDS_VARIABLE
from tutorial_lib.paths import CHECKOUT, WORKSPACE_VARIABLE

ASK = "from tutorial_lib.course.predict import predict, reveal\npredict('How long?', unit='ms', example=1)"
VIEW = "application/vnd.jupyter.widget-view+json"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run code as a browser does (`allow_stdin`), or as papermill does; gives the messages of its outputs."""
    environment = {name: value for name, value in os.environ.items() if name != RECORDS_VARIABLE}
    environment |= {"PYTHONPATH": str(CHECKOUT), WORKSPACE_VARIABLE: str(tmp_path_factory.mktemp("workspace"))}
    environment |= {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    manager, client = start_new_kernel(kernel_name="python3", env=environment)

    def execute(code, *, person=True):
        outputs = []
        client.execute_interactive(code, allow_stdin=person, timeout=60, output_hook=outputs.append)
        return [message["content"] for message in outputs]

    execute.client = client
    yield execute
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def text(outputs):
    return "".join(output.get("text", "") for output in outputs)


def data(outputs):
    return [kind for output in outputs for kind in output.get("data", {}) if isinstance(output["data"], dict)]


def test_papermill_gets_the_example_and_no_widget(run):
    outputs = run(ASK, person=False)
    assert "example stands in: 1 ms" in text(outputs)
    assert VIEW not in data(outputs)


def test_a_typed_guess_reaches_the_reveal_in_a_later_cell(run):
    outputs = run(ASK)
    assert "example" not in text(outputs)
    assert VIEW in data(outputs)
    (model,) = [
        content["comm_id"]
        for content in outputs
        if content.get("data", {}).get("state", {}).get("placeholder") == "your guess, such as 1"
    ]
    typed = {"method": "update", "state": {"value": "4"}, "buffer_paths": []}
    shell = run.client.shell_channel
    shell.send(run.client.session.msg("comm_msg", {"comm_id": model, "data": typed}))
    outputs = run("reveal(12)")
    assert "You said 4 ms, measured 12 ms: 3 times too low (8 ms too low)." in text(outputs)
    assert "image/png" in data(outputs)
