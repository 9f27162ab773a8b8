"""`serve()` on the real Triton: what it starts, what it refuses, what it says."""

from __future__ import annotations

import base64
import socket
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.server.conftest import ECHO_MODEL, save_double, write_echo
from tutorial_lib.errors import ModelLoadError, PortInUseError, RepositoryError, ServerError, SetupError
from tutorial_lib.server import ModelNotLoaded, label, serve, servers
from tutorial_lib.server.control import CONTROL_HEADER, Control
from tutorial_lib.server.launch import attach
from tutorial_lib.server.log import is_noise
from tutorial_lib.versions import EMBEDDED_TRITON

VERSION_MODEL = """
import sys

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        text = np.array([sys.version, sys.prefix], dtype=object)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("RETURNED", text)]) for _ in requests]
"""


def test_the_real_version_and_the_label(shared_server):
    assert shared_server.version == EMBEDDED_TRITON
    assert shared_server.label.startswith(f"Triton {EMBEDDED_TRITON} embedded · CPU ×")
    assert shared_server in servers()


def test_same_arguments_return_the_running_server(shared_server):
    assert serve(shared_server.repositories[0]) is shared_server


def test_it_listens_on_loopback_only(shared_server):
    import psutil

    listening = [c for c in psutil.Process(shared_server.process.pid).net_connections() if c.status == "LISTEN"]
    assert len({c.laddr.port for c in listening}) >= 3
    assert {c.laddr.ip for c in listening} == {"127.0.0.1"} | ({c.laddr.ip for c in listening} & {"::ffff:127.0.0.1"})


def test_ready_in_under_three_seconds_beyond_loading(tmp_path):
    """Loading nothing, so that all of the time is ours and Triton's; the best of three."""
    seconds = []
    for number in range(3):
        started = time.monotonic()
        with serve(write_echo(tmp_path / str(number)), models=[]):
            seconds.append(time.monotonic() - started)
    assert min(seconds) < 3, seconds


def test_it_shows_itself(shared_server):
    html = shared_server._repr_html_()
    for text in (shared_server.label, shared_server.http_address, shared_server.grpc_address, "echo", "READY", "log"):
        assert text in html


def test_the_stub_runs_this_very_interpreter(tmp_path):
    """The stub's libpython is the running interpreter's own, not another patch level's."""
    repository = write_echo(tmp_path)
    (repository / "echo" / "1" / "model.py").write_text(VERSION_MODEL)
    config = repository / "echo" / "config.pbtxt"
    config.write_text(
        config.read_text().replace('"RETURNED" data_type: TYPE_FP32', '"RETURNED" data_type: TYPE_STRING')
    )
    with serve(repository) as server:
        body = {"inputs": [{"name": "SENT", "datatype": "FP32", "shape": [1, 1], "data": [0]}]}
        answer = server.control.infer("echo", body)["outputs"][0]["data"]
    assert answer == [sys.version, sys.prefix]


def test_models_named_are_loaded_and_the_others_are_not(tmp_path):
    repository = write_echo(write_echo(tmp_path), "other")
    with serve(repository, models=["echo"]) as server:
        assert dict(zip(server.models().name, server.models().state, strict=True))["echo"] == "READY"
        assert not server.ready("other")
        server.load("other")
        assert server.health("other")
        server.unload("other")
        assert not server.health("other")


def test_several_repositories(tmp_path):
    with serve([write_echo(tmp_path / "a"), write_echo(tmp_path / "b", "second")]) as server:
        assert server.health("echo") and server.health("second")


def test_a_broken_model_beside_a_good_one(tmp_path):
    repository = write_echo(tmp_path)
    whole = save_double(tmp_path / "whole.onnx").read_bytes()
    (repository / "cut" / "1").mkdir(parents=True)
    (repository / "cut" / "1" / "model.onnx").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "whole.onnx").unlink()
    with pytest.warns(ModelNotLoaded, match=r"not loaded: 'cut'.*model\.onnx failed"), serve(repository) as server:
        assert server.health("echo")
        state = server.models().set_index("name").loc["cut"]
        assert state.state == "UNAVAILABLE" and "failed" in state.reason
        assert not server.ready()  # strict readiness
        with pytest.raises(ModelLoadError, match="'cut': Triton refused to load it"):
            server.load("cut")


def test_paths_with_spaces(tmp_path, monkeypatch):
    """Triton starts stubs through an unquoted shell command; left alone it would load for ever."""
    monkeypatch.setenv("WORKSHOP_WORKSPACE", str(tmp_path / "my workspace"))
    with serve(write_echo(tmp_path / "my models"), startup_timeout_s=120) as server:
        assert server.health("echo") and server.repositories == (tmp_path / "my models",)


@pytest.mark.parametrize("name", ["my echo", "größe"])
def test_a_model_name_that_triton_cannot_start_is_refused(tmp_path, name):
    with pytest.raises(RepositoryError, match=f"model '{name}': its name has a space, or"):
        serve(write_echo(tmp_path, name))


def test_exit_on_error_does_not_start(tmp_path):
    repository = write_echo(tmp_path)
    (repository / "echo" / "1" / "model.py").write_text("import nothing_of_this_name\n")
    with pytest.raises(ServerError, match="ended while starting") as caught:
        serve(repository, exit_on_error=True)
    assert "nothing_of_this_name" in caught.value.details


def test_auto_complete_off_takes_the_config_as_written(tmp_path):
    save_double(tmp_path / "bare" / "1" / "model.onnx")
    with pytest.warns(ModelNotLoaded), serve(tmp_path, disable_auto_complete_config=True) as server:
        assert not server.ready("bare")
    with serve(tmp_path) as server:
        assert server.config("bare")["max_batch_size"] == 4


def test_extra_arguments_and_backend_config_pass_through(tmp_path):
    with serve(
        write_echo(tmp_path), extra_arguments=["--log-verbose=1"], backend_config={("python", "grpc-test"): "7"}
    ) as server:
        text = server.process.log_text()
        assert '"grpc-test":"7"' in text and "HTTP request:" in text


def test_an_unknown_flag_says_so(tmp_path):
    with pytest.raises(ServerError, match="ended while starting") as caught:
        serve(write_echo(tmp_path), extra_arguments=["--no-such-flag=1"])
    assert "no-such-flag" in caught.value.details


def test_taken_ports_are_all_named(tmp_path):
    with socket.socket() as first, socket.socket() as second:
        for listener in (first, second):
            listener.bind(("127.0.0.1", 0))
            listener.listen()
        ports = first.getsockname()[1], second.getsockname()[1]
        with pytest.raises(PortInUseError) as caught:
            serve(write_echo(tmp_path), http_port=ports[0], metrics_port=ports[1])
    assert f"http port {ports[0]} is taken" in caught.value.problem
    assert f"metrics port {ports[1]} is taken" in caught.value.problem
    assert "python" in caught.value.problem  # by whom


def test_given_ports_are_used(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with serve(write_echo(tmp_path), http_port=port) as server:
        assert server.http_address == f"127.0.0.1:{port}"


@pytest.mark.parametrize("port", [0, -1, 70000, "8000", True])
def test_absurd_ports(tmp_path, port):
    with pytest.raises(PortInUseError, match="expected a whole number from 1 to 65535"):
        serve(write_echo(tmp_path), http_port=port)


def test_an_unknown_model_lists_those_there_are(tmp_path):
    with pytest.raises(RepositoryError, match="'eco': found no such folder.*there are: echo"):
        serve(write_echo(tmp_path), models=["eco"])


def test_numpy_2_is_refused_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr("tutorial_lib.server.locate.importlib.metadata.version", lambda _: "2.1.0")
    with pytest.raises(SetupError, match=r"numpy 2\.1\.0.*silently empty.*numpy < 2"):
        serve(write_echo(tmp_path))


def test_a_binary_that_is_not_there(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKSHOP_TRITONSERVER", "/nowhere/tritonserver")
    with pytest.raises(SetupError, match="/nowhere/tritonserver"):
        serve(write_echo(tmp_path))


def test_attached(shared_server, monkeypatch):
    monkeypatch.setenv("TRITON_GRPC_URL", f"grpc://{shared_server.grpc_address}")
    attached = serve(url=shared_server.http_address)  # without a scheme
    assert attached.tier == "attached" and attached.grpc_address == shared_server.grpc_address
    assert "attached" in attached.label and "echo" in attached._repr_html_()
    assert attached.health("echo")
    attached.stop()
    assert shared_server.running and shared_server.health("echo")


def test_attaching_to_the_wrong_port_says_which_is_right(shared_server):
    with pytest.raises(ServerError, match="8001 is gRPC"):
        attach(f"http://{shared_server.grpc_address}")


def test_a_model_that_answers_nothing_is_found_out_in_time(tmp_path):
    """Case 51: execute() without a return; Triton says ready and never answers."""
    repository = write_echo(tmp_path)
    (repository / "echo" / "1" / "model.py").write_text(ECHO_MODEL.replace("return answers", "pass"))
    with serve(repository) as server:
        assert server.ready("echo")
        health = server.health("echo", timeout_s=1)
        assert not health and health.ready and "no answer within 1 s" in health.detail
    assert not server.running


def test_a_dead_stub_is_ready_but_not_healthy_and_heals(tmp_path):
    import psutil

    with serve(write_echo(tmp_path)) as server:
        for child in psutil.Process(server.process.pid).children():
            child.kill()
        health = server.health("echo", timeout_s=10)
        assert health.ready and not health and health.detail
        server.unload("echo")
        server.load("echo")
        assert server.health("echo")


def test_a_server_killed_from_outside_is_noticed(tmp_path):
    import os
    import signal

    from tutorial_lib.server.heal import instances

    with serve(write_echo(tmp_path)) as server:
        assert len(instances(server, "echo")) == 1
        os.kill(server.process.pid, signal.SIGKILL)
        server.process._supervisor.wait(15)
        assert instances(server, "echo") == []
        assert not server.running and "stopped" in repr(server)
        with pytest.raises(ServerError, match="Is the server running"):
            server.models()
    assert server not in servers()


def test_a_proxy_setting_does_not_come_between(shared_server, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert Control(shared_server.http_url).alive()


def test_startup_time_out_shows_the_log_and_leaves_nothing(tmp_path):
    repository = write_echo(tmp_path)
    slow = "import threading\nthreading.Event().wait(30)\n"
    (repository / "echo" / "1" / "model.py").write_text(slow + ECHO_MODEL)
    before = len(servers())
    with pytest.raises(ServerError, match="no answer within 2 s"):
        serve(repository, startup_timeout_s=2)
    assert len(servers()) == before


def test_nothing_is_written_beside_the_models(tmp_path):
    repository = write_echo(tmp_path)
    before = sorted(path for path in repository.rglob("*") if "__pycache__" not in path.parts)
    with serve(repository) as server:
        assert server.health("echo")
    assert sorted(path for path in repository.rglob("*") if "__pycache__" not in path.parts) == before


def test_label_without_a_server():
    code = "from tutorial_lib.server import label; print(label())"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("no server · CPU ×")


def test_a_learner_may_turn_warnings_into_errors(tmp_path):
    save_double(tmp_path / "bare" / "1" / "model.onnx", ir=11)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModelNotLoaded, match="max supported IR version: 10"):
            serve(tmp_path)
    assert all(tmp_path not in server.repositories for server in servers())
    assert label()


def test_a_web_page_cannot_load_a_model(shared_server):
    """What a page's script can send without the server's consent: a POST of plain text, from anywhere."""
    url = f"{shared_server.http_url}/v2/repository"
    page = {"Origin": "http://example.org", "Content-Type": "text/plain"}
    code = base64.b64encode(ECHO_MODEL.encode()).decode()
    bodies = {
        f"{url}/index": {},
        f"{url}/models/echo/unload": {},
        f"{url}/models/planted/load": {"parameters": {"config": '{"backend":"python"}', "file:1/model.py": code}},
    }
    for address, body in bodies.items():
        refused = httpx.post(address, json=body, headers=page, trust_env=False)
        assert refused.status_code == 403 and "restricted" in refused.text
        asked = httpx.options(address, headers=page | {"Access-Control-Request-Headers": CONTROL_HEADER[0]})
        assert asked.status_code != 200 and "access-control-allow-headers" not in asked.headers
    assert shared_server.health("echo") and "planted" not in set(shared_server.models().name)


def test_ones_own_restriction_stands_beside_ours_or_takes_its_place(tmp_path):
    repository = write_echo(tmp_path)
    with serve(repository, extra_arguments=["--http-restricted-api=statistics:who=me"]) as server:
        assert httpx.post(f"{server.http_url}/v2/repository/index", trust_env=False).status_code == 403
        assert httpx.get(f"{server.http_url}/v2/models/stats", trust_env=False).status_code == 403
    ours = f"--http-restricted-api=statistics,model-repository:{'='.join(CONTROL_HEADER)}"
    with serve(repository, extra_arguments=[ours]) as server:
        assert server.health("echo") and server.statistics("echo")


def test_metrics_are_where_the_server_says(shared_server):
    assert "nv_inference_request_success" in httpx.get(shared_server.metrics_url, trust_env=False).text


def test_paths_with_letters_beyond_ascii(tmp_path):
    """The stub takes paths as ASCII, whatever the locale."""
    repository = write_echo(tmp_path / "modèles")
    with serve(repository, startup_timeout_s=120) as server:
        assert server.repositories == (repository,) and server.health("echo")


def test_another_server_on_the_port_is_not_taken_for_ours(tmp_path, shared_server, monkeypatch):
    """The port is stolen between choosing it and Triton listening on it: the start is tried again."""
    from tutorial_lib.server import launch

    stolen = int(shared_server.http_address.rpartition(":")[2])
    choose, calls = launch.choose, []

    def first_the_stolen_one(wanted):
        calls.append(choose(wanted))
        return calls[-1] | ({"http": stolen} if len(calls) == 1 else {})

    monkeypatch.setattr(launch, "choose", first_the_stolen_one)
    with serve(write_echo(tmp_path, "mine")) as server:
        assert len(calls) == 2 and server.health("mine") and server.running


def test_attaching_to_what_is_no_triton(shared_server):
    with pytest.raises(ServerError, match="8002 metrics"):
        attach(shared_server.metrics_url.removesuffix("/metrics"))
    for url in ("http://127.0.0.1:abc", "http://[::1"):
        with pytest.raises(ServerError, match="not an address"):
            attach(url)


def test_weights_may_be_a_link_to_elsewhere(tmp_path):
    weights = save_double(tmp_path / "elsewhere" / "weights.onnx")
    (tmp_path / "models" / "double" / "1").mkdir(parents=True)
    (tmp_path / "models" / "double" / "1" / "model.onnx").symlink_to(weights)
    with serve(tmp_path / "models") as server:
        assert server.health("double")


def test_modules_beside_the_notebook_are_not_the_servers(tmp_path, monkeypatch):
    for name in ("json", "numpy", "triton_python_backend_utils"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('a learner wrote this for something else')")
    write_echo(tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    with serve("models", startup_timeout_s=120) as server:
        assert server.health("echo") and server.repositories == (tmp_path / "models",)


def test_relative_paths_are_taken_from_here(tmp_path, monkeypatch):
    write_echo(tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    trace = "--trace-config=triton,file=./trace.json", "--trace-config=rate=1", "--trace-config=level=TIMESTAMPS"
    trace += ("--trace-config=triton,log-frequency=1",)  # written at once, not only where Triton ends in time
    with serve("models", extra_arguments=trace) as server:
        assert server.health("echo")
    assert list(tmp_path.glob("trace.json*"))


def test_a_stray_folder_is_no_model(tmp_path):
    """Jupyter makes .ipynb_checkpoints wherever a file is opened; for --load-model=* it is a model that fails."""
    repository = write_echo(tmp_path)
    for name in (".ipynb_checkpoints", "__pycache__"):
        (repository / name).mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with serve(repository) as server:
            assert server.ready() and server.health("echo")
    for everything in ({"model_control_mode": "none"}, {"models": ["*"]}):
        with pytest.warns(ModelNotLoaded, match=r"'\.ipynb_checkpoints'"), serve(repository, **everything) as server:
            assert server.health("echo")


@pytest.mark.parametrize("mode", ["none", "poll"])
def test_models_named_without_explicit_control(tmp_path, mode):
    with pytest.raises(ServerError, match=f"model_control_mode '{mode}', which loads all"):
        serve(write_echo(tmp_path), models=["echo"], model_control_mode=mode)


def test_the_same_repository_twice_is_one(tmp_path):
    repository = write_echo(tmp_path / "models")
    (tmp_path / "link").symlink_to(repository)
    with serve([repository, tmp_path / "link", f"{repository}/../models"]) as server:
        assert server.repositories == (repository,) and server.health("echo")


@pytest.mark.parametrize("name", ["a+b", "a@b", "a=b", "a,b", "a:b", "a%b"])
def test_a_model_name_that_no_address_holds_is_refused(tmp_path, shared_server, name):
    with pytest.raises(RepositoryError, match="its name has a space, or"):
        serve(write_echo(tmp_path, name))
    for ask in (shared_server.load, shared_server.unload, shared_server.health, shared_server.ready):
        with pytest.raises(ServerError, match="not a name that an address can hold"):
            ask(name)


def test_load_on_a_server_that_has_stopped_says_so(tmp_path):
    server = serve(write_echo(tmp_path))
    server.stop()
    with pytest.raises(ServerError, match=r"was stopped\. Start it again with serve") as caught:
        server.load("echo")
    assert not isinstance(caught.value, ModelLoadError)


def test_a_start_does_not_keep_others_waiting(tmp_path):
    """While one server loads for seconds, other threads ask for the label and start theirs."""
    slow = write_echo(tmp_path / "slow")
    go = tmp_path / "go"
    wait = f"import os, threading\nwhile not os.path.exists({str(go)!r}):\n    threading.Event().wait(0.05)\n"
    (slow / "echo" / "1" / "model.py").write_text(wait + ECHO_MODEL)
    with ThreadPoolExecutor() as pool:
        starting = [pool.submit(serve, slow) for _ in range(2)]
        try:
            pool.submit(label).result(timeout=5)
            with pool.submit(serve, write_echo(tmp_path / "other")).result(timeout=20) as other:
                assert other in servers() and not any(start.done() for start in starting)
        finally:
            go.touch()
        first, second = (start.result(timeout=30) for start in starting)
    with first:
        assert first is second and first.health("echo")


def test_credentials_of_an_attached_server_are_used_and_not_shown(shared_server, monkeypatch):
    monkeypatch.setenv("TRITON_GRPC_URL", f"grpc://anna:secret@{shared_server.grpc_address}")
    monkeypatch.setenv("TRITON_METRICS_URL", shared_server.metrics_url.replace("//", "//anna:secret@"))
    attached = attach(f"http://anna:secret@{shared_server.http_address}")
    request = attached.control._client.build_request("GET", "/v2")
    assert attached.control._client._build_request_auth(request) is not None
    shown = repr(attached) + attached._repr_html_() + attached.label + attached.http_url + attached.grpc_address
    assert "secret" not in shown and "anna" not in shown and attached.health("echo")
    attached.stop()
    with pytest.raises(ServerError) as caught:
        attach(f"http://anna:secret@{shared_server.grpc_address}")
    assert "secret" not in str(caught.value)


def test_a_server_killed_while_starting_names_the_signal(tmp_path):
    code = write_echo(tmp_path) / "echo" / "1" / "model.py"
    code.write_text("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n" + ECHO_MODEL)
    with pytest.raises(
        ServerError, match=r"ended while starting \(killed by SIGKILL, perhaps for want of memory\)"
    ) as caught:
        serve(tmp_path, startup_timeout_s=120)
    assert caught.value.details and not [line for line in caught.value.details.splitlines() if is_noise(line)]


def test_a_long_log_is_not_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("tutorial_lib.server.process.LOG_LIMIT_BYTES", 2000)
    with serve(write_echo(tmp_path), extra_arguments=["--log-verbose=1"]) as server:
        assert server.log_path.stat().st_size > 4000
        text = server.process.log_text()
        assert len(text) <= 2000 and server.log_path.read_text()[: -len(text)].endswith("\n")
        (tmp_path / "echo" / "1" / "model.py").write_text("import nothing_of_this_name\n")
        with pytest.raises(ModelLoadError) as caught:
            server.load("echo")
    assert "nothing_of_this_name" in str(caught.value)
