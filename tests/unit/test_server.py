"""The parts of the server package that need no server."""

from __future__ import annotations

import csv
import errno
import os
import shlex
import socket
import string
from pathlib import Path

import pytest
import yaml

from tutorial_lib.errors import PortInUseError, RepositoryError, ServerError, SetupError
from tutorial_lib.paths import REFERENCE_REPOSITORY, WORKSPACE_VARIABLE, workspace
from tutorial_lib.repository.layout import models_of
from tutorial_lib.server import ServerOptions, compose_text, docker_command, serve, shell_text
from tutorial_lib.server import container as containers
from tutorial_lib.server.container import require_docker
from tutorial_lib.server.control import CONTROL_HEADER
from tutorial_lib.server.health import zeros_request
from tutorial_lib.server.locate import Installation, backend_directory, find_installation, server_environment
from tutorial_lib.server.log import decisive_lines, prune, without_stack
from tutorial_lib.server.options import address_arguments
from tutorial_lib.server.plain_path import is_plain, plain_path
from tutorial_lib.server.ports import choose, is_free
from tutorial_lib.server.supervisor import PREFIX, region_prefix, start_ticks
from tutorial_lib.server.tiers import available_tiers
from tutorial_lib.server.view import server_html
from tutorial_lib.server.weights import require_weights


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    monkeypatch.setenv(WORKSPACE_VARIABLE, str(tmp_path / "workspace"))
    return workspace()


OPTIONS = ServerOptions(repositories=(Path("/home/a b/models"), Path("/more")), models=("clip", "clip-core"))


def test_options_become_tritons_flags():
    assert OPTIONS.arguments() == [
        "--model-repository=/home/a b/models",
        "--model-repository=/more",
        "--model-control-mode=explicit",
        "--load-model=clip",
        "--load-model=clip-core",
        "--strict-readiness=true",
        "--exit-on-error=false",
        "--exit-timeout-secs=3",
        "--http-restricted-api=model-repository:workshop-control=1",
    ]


def test_load_model_goes_with_explicit_mode_only():
    """Case 69: --load-model without explicit control ends the server."""
    flags = ServerOptions(repositories=(Path("/m"),), models=("a",), model_control_mode="none").arguments()
    assert not [flag for flag in flags if flag.startswith("--load-model")]
    assert "--load-model=*" in ServerOptions(repositories=(Path("/m"),)).arguments()
    assert not [f for f in ServerOptions(repositories=(Path("/m"),), models=()).arguments() if "load-model" in f]


def test_every_start_keeps_web_pages_from_the_repository_api():
    """Whatever the tier; one's own restriction of it takes the place of ours."""
    ours = f"--http-restricted-api=model-repository:{'='.join(CONTROL_HEADER)}"
    assert ours in OPTIONS.arguments() and ours in docker_command(OPTIONS) and ours in compose_text(OPTIONS)
    own = "--http-restricted-api=statistics,model-repository:who=me"
    flags = ServerOptions(repositories=(Path("/m"),), extra_arguments=(own,)).arguments()
    assert own in flags and ours not in flags


def test_the_listeners_get_their_address():
    flags = address_arguments("127.0.0.1", {"http": 1, "grpc": 2, "metrics": 3})
    assert [flag for flag in flags if flag.endswith("-address=127.0.0.1")] == [
        "--http-address=127.0.0.1",
        "--grpc-address=127.0.0.1",
        "--metrics-address=127.0.0.1",
    ]


def test_docker_command():
    command = docker_command(OPTIONS, gpus="all", ports={"http": 9000, "grpc": 9001, "metrics": 9002})
    assert command[:2] == ["docker", "run"]
    image = command.index("nvcr.io/nvidia/tritonserver:24.10-py3")
    before, after = command[:image], command[image + 1 :]
    assert {"--rm", "--init", "--gpus=all", "--shm-size=1g", "stack=67108864"} <= set(before)
    assert "127.0.0.1:9000:8000" in before and "127.0.0.1:9002:8002" in before
    assert "type=bind,source=/home/a b/models,target=/models,readonly" in before
    assert "type=bind,source=/more,target=/models1,readonly" in before
    assert after[:3] == ["tritonserver", "--model-repository=/models", "--model-repository=/models1"]
    assert "--gpus=all" not in docker_command(OPTIONS)


def test_shell_text_is_the_same_command():
    command = docker_command(OPTIONS, gpus="all")
    assert shlex.split(shell_text(command).replace("\\\n", " ")) == command


def test_compose_is_the_same_start():
    service = yaml.safe_load(compose_text(OPTIONS, gpus="all"))["services"]["triton"]
    command = docker_command(OPTIONS, gpus="all")
    assert service["image"] in command and service["command"] == command[command.index(service["image"]) + 1 :]
    assert service["shm_size"] == "1g" and service["ulimits"]["stack"] == 67108864
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert [(volume["source"], volume["target"]) for volume in service["volumes"]] == [
        ("/home/a b/models", "/models"),
        ("/more", "/models1"),
    ]
    assert all(volume["type"] == "bind" and volume["read_only"] for volume in service["volumes"])
    assert service["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]
    assert "deploy" not in yaml.safe_load(compose_text(OPTIONS))["services"]["triton"]


def test_docker_hears_of_the_cores():
    options = ServerOptions(repositories=(Path("/m"),), cores=(0, 2))
    command = docker_command(options)
    assert command.index("--cpuset-cpus=0,2") < command.index("tritonserver")
    assert yaml.safe_load(compose_text(options))["services"]["triton"]["cpuset"] == "0,2"
    assert not any("cpuset" in part for part in (*docker_command(OPTIONS), compose_text(OPTIONS)))


def test_a_container_sets_the_policy_itself():
    options = ServerOptions(repositories=(Path("/m"),), sched_batch=True)
    (service,) = yaml.safe_load(compose_text(options))["services"].values()
    command = docker_command(options)
    assert command[command.index(service["image"]) + 1 :] == service["command"]
    assert service["command"][:4] == ["chrt", "--batch", "0", "tritonserver"]
    assert "\n  chrt \\\n  --batch 0 \\\n  tritonserver \\\n" in shell_text(command)
    assert "chrt" not in docker_command(OPTIONS)


@pytest.mark.parametrize("name", ["a:b", "a,b", "a$b", 'a"b', "a=b", "$HOME,:x"])
def test_a_repository_whose_path_means_something_to_docker(name):
    options = ServerOptions(repositories=(Path("/m") / name,))
    command = docker_command(options)
    assert "-v" not in command
    (fields,) = csv.reader([command[command.index("--mount") + 1]])  # Docker reads a mount as a line of CSV
    assert fields == ["type=bind", f"source=/m/{name}", "target=/models", "readonly"]
    written = yaml.safe_load(compose_text(options))["services"]["triton"]["volumes"][0]["source"]
    assert string.Template(written).substitute() == f"/m/{name}"  # as compose replaces variables
    assert shlex.split(shell_text(command).replace("\\\n", " ")) == command


def test_the_same_repository_twice_is_mounted_once():
    options = ServerOptions(repositories=(Path("/a"), Path("/a"), Path("/b")))
    assert containers.mounts(options) == {Path("/a"): "/models", Path("/b"): "/models1"}


@pytest.mark.parametrize(
    ("gpus", "flag", "device"),
    [
        ("all", "--gpus=all", {"count": "all"}),
        ("2", "--gpus=2", {"count": 2}),
        (2, "--gpus=2", {"count": 2}),
        ("device=0", "--gpus=device=0", {"device_ids": ["0"]}),
        ("device=0,GPU-1f", '--gpus="device=0,GPU-1f"', {"device_ids": ["0", "GPU-1f"]}),
        ('"device=0,1"', '--gpus="device=0,1"', {"device_ids": ["0", "1"]}),
    ],
)
def test_gpus_as_docker_takes_them(gpus, flag, device):
    assert flag in docker_command(OPTIONS, gpus=gpus)
    service = yaml.safe_load(compose_text(OPTIONS, gpus=gpus))["services"]["triton"]
    (written,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert written == {"driver": "nvidia", **device, "capabilities": ["gpu"]}


@pytest.mark.parametrize("gpus", ["every", "0", "-1", "device=", "device=0,", "count=1", "1.5"])
def test_gpus_that_docker_would_not_take(gpus):
    for make in (docker_command, compose_text):
        with pytest.raises(ServerError, match="gpus: found .*expected 'all', a number"):
            make(OPTIONS, gpus=gpus)


def fake_docker(folder: Path, monkeypatch, script: str) -> Path:
    path = folder / "docker"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return path


def test_docker_without_an_engine(tmp_path, monkeypatch):
    fake_docker(tmp_path, monkeypatch, "echo 'Cannot connect to the Docker daemon' >&2; exit 1")
    with pytest.raises(SetupError, match="its engine does not answer: Cannot connect"):
        require_docker()
    row = available_tiers().loc["container"]
    assert not row["here"] and "engine" in row["why not"]


def test_no_docker_at_all(monkeypatch):
    monkeypatch.setattr(containers.shutil, "which", lambda _: None)
    with pytest.raises(SetupError, match="found no 'docker' command"):
        require_docker()


def test_decisive_lines_leave_noise_and_consequences_out():
    log = "\n".join(
        [
            'I1130 03:17:43.373117 6720 server.cc:1] "fine"',
            'E1130 03:17:43.373495 6720 server.cc:241] "CudaDriverHelper has not been initialized."',
            "Error: Failed to initialize NVML",
            "[libprotobuf ERROR text_format.cc:337] Error parsing: 3:17: Expected integer, got: $",
            "E1130 03:17:44.000000 6720 lifecycle.cc:642] \"failed to load 'net' version 1: Internal: broken\\n\"",
            "E1130 03:17:44.000001 6720 lifecycle.cc:642] \"failed to load 'net' version 1: Internal: broken\\n\"",
            'E1130 03:17:45.000000 6720 tritonserver.cc:2607] "Internal: failed to load all models"',
        ]
    )
    assert decisive_lines(log) == [
        "[libprotobuf ERROR text_format.cc:337] Error parsing: 3:17: Expected integer, got: $",
        "failed to load 'net' version 1: Internal: broken",
    ]
    assert decisive_lines("I1130 all is well") == []
    assert decisive_lines(log.splitlines()[-1]) == ["Internal: failed to load all models"]


def test_old_logs_of_ended_processes_are_pruned(tmp_path):
    dead = 2**22 + 1  # above any process number
    names = [f"triton-20260101-0000{n:02}-{dead}-{n}.log" for n in range(4)] + [f"lab-20260101-000004-{dead}.log"]
    names += [f"triton-20260101-000005-{os.getpid()}-1.log", "notes.log"]
    for age, name in enumerate(names):  # the first is the newest
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    prune(tmp_path, keep=2)
    assert {path.name for path in tmp_path.iterdir()} == {*names[:2], *names[-2:]}
    prune(tmp_path / "not there")


def test_a_reason_without_the_stubs_stack():
    assert without_stack("Internal: no such file\n\nAt:\n  /a/model.py(3): initialize\n") == "Internal: no such file"


def test_free_ports_are_different_and_free():
    ports = choose({"http": None, "grpc": None, "metrics": None})
    assert len(set(ports.values())) == 3 and all(is_free(port) for port in ports.values())


def test_the_same_port_twice():
    with pytest.raises(PortInUseError, match="given twice"):
        choose({"http": 18123, "grpc": 18123, "metrics": None})


def test_a_taken_port_is_not_free():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        assert not is_free(listener.getsockname()[1])


def test_zeros_request_fits_the_metadata():
    metadata = {
        "name": "m",
        "inputs": [
            {"name": "x", "datatype": "FP32", "shape": [-1, 2, 3]},
            {"name": "s", "datatype": "BYTES", "shape": ["-1", "1"]},
        ],
    }
    x, s = zeros_request(metadata)["inputs"]
    assert (x["shape"], x["data"]) == ([1, 2, 3], [0] * 6) and (s["shape"], s["data"]) == ([1, 1], [""])
    metadata["inputs"][0]["shape"] = [4096, 4096]
    with pytest.raises(ServerError, match="too large to probe"):
        zeros_request(metadata)


def test_a_server_card_escapes_what_it_shows():
    html = server_html("Triton", {"log": "<script>"}, [{"name": "<b>", "state": "UNAVAILABLE", "reason": "a & b"}])
    assert "<script>" not in html and "<b>" not in html and "a &amp; b" in html


def test_weights_that_are_not_made_name_the_call_that_makes_them(scratch):
    scratch.seed()
    (model,) = [model for model in models_of(scratch.model_repository) if model.name == "densenet_onnx"]
    with pytest.raises(RepositoryError, match=r'weights are not made yet.*catch_up\("05"\)'):
        require_weights(model)
    with pytest.raises(RepositoryError, match="weights are not made yet"):
        serve(models=["densenet_onnx"])
    (model.path / "1").mkdir()
    (model.path / "1" / "model.onnx").write_bytes(b"x")
    require_weights(models_of(scratch.model_repository)[0])


def test_seeding_keeps_what_a_learner_changed(scratch):
    repository = scratch.seed()
    config = repository / "densenet_onnx" / "config.pbtxt"
    assert config.read_text() == (REFERENCE_REPOSITORY / "densenet_onnx" / "config.pbtxt").read_text()
    config.write_text("# mine")
    (repository / "densenet_onnx" / "labels.txt").unlink()
    scratch.seed()
    assert config.read_text() == "# mine" and (repository / "densenet_onnx" / "labels.txt").exists()


def test_the_backend_directory_is_made_once_of_real_files(scratch):
    installation = find_installation()
    folder = backend_directory(installation)
    assert backend_directory(installation) == folder
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {"python/libtriton_python.so", "python/triton_python_backend_stub", "onnxruntime/model.py"} <= files
    assert not [path for path in folder.rglob("*") if path.is_symlink()]
    assert os.access(folder / "python" / "triton_python_backend_stub", os.X_OK)


def test_a_full_disk_names_the_goal_and_leaves_nothing(scratch, monkeypatch):
    def full(source, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source), None, str(target))

    monkeypatch.setattr("shutil.copy2", full)
    with pytest.raises(SetupError, match=rf"^{scratch.cache}/backends/.*: could not be written: its disk is full"):
        backend_directory(find_installation())
    assert list((scratch.cache / "backends").iterdir()) == []


def test_an_ngc_image_is_used_as_it_is(tmp_path, monkeypatch):
    binary = tmp_path / "bin" / "tritonserver"
    for path in (binary, tmp_path / "backends" / "onnxruntime" / "libtriton_onnxruntime.so"):
        path.parent.mkdir(parents=True)
        path.touch(mode=0o755)
    monkeypatch.setenv("WORKSHOP_TRITONSERVER", str(binary))
    found = find_installation()
    assert found.tier == "installed" and backend_directory(found) == tmp_path / "backends"
    assert server_environment(found) == dict(os.environ)


def test_this_interpreters_own_library_comes_first(monkeypatch):
    import sysconfig

    monkeypatch.setenv("LD_LIBRARY_PATH", "/elsewhere")
    environment = server_environment(Installation(Path("/t"), "embedded", Path("/t"), (Path("/libs"),), None))
    assert environment["LD_LIBRARY_PATH"].split(":") == [sysconfig.get_config_var("LIBDIR"), "/libs", "/elsewhere"]


@pytest.mark.parametrize("name", ["a b", "a'b", "a$(b)", "a;b", "ä"])
def test_a_path_a_shell_would_split_gets_a_link(tmp_path, monkeypatch, name):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / name
    folder.mkdir()
    link = plain_path(folder)
    assert is_plain(str(link)) and link.resolve() == folder.resolve() and plain_path(folder) == link
    assert plain_path(tmp_path) == tmp_path


def test_links_are_not_put_into_a_strangers_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"c2t-{os.getuid()}").mkdir()
    (tmp_path / f"c2t-{os.getuid()}").chmod(0o777)
    with pytest.raises(SetupError, match="of this user's own"):
        plain_path(tmp_path / "a b")


def test_a_region_prefix_names_its_process():
    match = PREFIX.match(region_prefix(os.getpid()) + "anything")
    assert int(match["pid"]) == os.getpid() and int(match["started"]) == start_ticks(os.getpid())
    assert start_ticks(2**22 + 1) is None


@pytest.mark.parametrize("wrong", [{"tier": "cloud"}, {"model_control_mode": "manual"}, {"tier": "attached"}])
def test_wrong_words_name_the_right_ones(wrong):
    with pytest.raises(ServerError, match="expected one of|Give url="):
        serve("/tmp", **wrong)
