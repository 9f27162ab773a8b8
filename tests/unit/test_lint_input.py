"""Repositories that no linter would wish for."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.unit.lint_examples import ECHO, NET, PY, X, Y, ensemble, step
from tests.unit.onnx_files import relu
from tests.unit.peak import run_measured
from tutorial_lib.errors import RepositoryError
from tutorial_lib.paths import CHECKOUT
from tutorial_lib.repository.config import parse_config
from tutorial_lib.repository.fix import find_fixes
from tutorial_lib.repository.lint import lint_repository


def python_model(root, name="m", config=PY):
    (root / name / "1").mkdir(parents=True)
    (root / name / "1" / "model.py").write_text(ECHO)
    (root / name / "config.pbtxt").write_bytes(config if isinstance(config, bytes) else config.encode())
    return root / name


def onnx_model(root, name="net"):
    relu(root / name / "1" / "model.onnx")
    (root / name / "config.pbtxt").write_text(NET + X + Y)
    return root / name


def rules_of(root, **options):
    return {f"{one.severity} {one.rule}" for one in lint_repository(root, **options)}


@pytest.mark.parametrize("what", ["missing", "file"])
def test_what_is_no_folder_cannot_be_read(what, tmp_path):
    path = tmp_path / "x"
    if what == "file":
        path.write_text("")
    with pytest.raises(RepositoryError, match="expected a folder of model folders"):
        lint_repository(path)


def test_unknown_release_and_tier(tmp_path):
    with pytest.raises(RepositoryError, match="release"):
        lint_repository(tmp_path, release="19.01")
    with pytest.raises(RepositoryError, match="tier"):
        lint_repository(tmp_path, tier="moon")


def test_empty_repository(tmp_path):
    assert rules_of(tmp_path) == {"warning path-level"}


def test_ten_thousand_files(tmp_path):
    model = python_model(tmp_path)
    for number in range(10_000):
        (model / "1" / f"{number}.txt").touch()
    assert rules_of(tmp_path) == set()


def test_link_loops(tmp_path):
    model = python_model(tmp_path)
    (model / "self").symlink_to(model / "self")
    (model / "up").symlink_to(tmp_path)
    (model / "2").symlink_to(model / "2")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "twin").symlink_to(model)
    assert rules_of(tmp_path) == set()


def test_config_that_links_to_itself(tmp_path):
    model = python_model(tmp_path)
    (model / "config.pbtxt").unlink()
    (model / "config.pbtxt").symlink_to(model / "config.pbtxt")
    assert "error unreadable" in rules_of(tmp_path)


def test_pipes_sockets_and_devices_are_not_opened(tmp_path):
    for name, inner in (("pipe", "1/model.py"), ("config", "config.pbtxt"), ("label", "labels.txt")):
        folder = python_model(tmp_path, name, PY[:-4] + ' label_filename: "labels.txt" } ]')
        (folder / inner).unlink(missing_ok=True)
        os.mkfifo(folder / inner)
    net = onnx_model(tmp_path)
    (net / "1" / "model.onnx").unlink()
    os.mkfifo(net / "1" / "model.onnx")
    endless = onnx_model(tmp_path, "endless")
    (endless / "1" / "model.onnx").unlink()
    (endless / "1" / "model.onnx").symlink_to("/dev/zero")
    python_model(tmp_path, "fine")
    with socket.socket(socket.AF_UNIX) as one:
        os.chdir(tmp_path / "fine" / "1")  # a socket's path may not be long
        try:
            one.bind("s")
        finally:
            os.chdir(CHECKOUT)
        found = {one.model: one.rule for one in lint_repository(tmp_path).errors if one.model != "label"}
    assert found.pop("pipe") in ("label-file", "model-file-name")
    assert found == {"config": "unreadable", "net": "model-file-name", "endless": "model-file-name"}


@pytest.mark.parametrize("what", ["folder", "link to nowhere"])
def test_a_model_file_that_is_none(what, tmp_path):
    for path in (python_model(tmp_path) / "1" / "model.py", onnx_model(tmp_path) / "1" / "model.onnx"):
        path.unlink()
        path.symlink_to(tmp_path / "gone") if what == "link to nowhere" else path.mkdir()
    found = lint_repository(tmp_path).errors
    assert {(one.model, one.rule, one.found) for one in found} == {
        ("m", "model-file-name", f"a {what}"),
        ("net", "model-file-name", f"a {what}"),
    }


def chain_of_ensembles(root, count, steps):
    """Each ensemble made of the one before it, so many times; the last of a Python model."""
    python_model(root, "base")
    for number in range(count):
        before = f"e{number - 1:04}" if number else "base"
        tensors = ["IN", *(f"mid{one}" for one in range(steps - 1)), "OUT"]
        links = ", ".join(step(before, *pair) for pair in zip(tensors, tensors[1:], strict=False))
        (root / f"e{number:04}" / "1").mkdir(parents=True)
        (root / f"e{number:04}" / "config.pbtxt").write_text(ensemble(links))


@pytest.mark.parametrize(("count", "steps"), [(300, 1), (40, 2)])
def test_ensembles_of_ensembles(count, steps, tmp_path):
    """40 with two steps each are 2⁴⁰ ways down; 300 are deeper than most stacks. The base is what is broken."""
    chain_of_ensembles(tmp_path, count, steps)
    assert rules_of(tmp_path) == set()
    (tmp_path / "base" / "1" / "model.py").write_text("class\n")
    found = lint_repository(tmp_path).errors
    assert len({one.model for one in found}) == count + 1
    assert {one.rule for one in found if one.model != "base"} == {"ensemble-step-broken"}


def test_ensembles_that_all_name_each_other(tmp_path):
    for number in range(12):
        (tmp_path / f"e{number:02}" / "1").mkdir(parents=True)
        links = ", ".join(step(f"e{other:02}", "IN", f"t{other}") for other in range(12))
        (tmp_path / f"e{number:02}" / "config.pbtxt").write_text(ensemble(links))
    assert "error ensemble-cycle" in rules_of(tmp_path)


@pytest.fixture
def stranger():
    """Permissions count: as root all can be read."""
    if os.geteuid():
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_this_user_may_not_read(tmp_path_factory, stranger):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        for name in ("closed", "inner", "config", "weights", "script", "open"):
            python_model(root, name)
        onnx_model(root, "weights2")
        shut = [root / "closed", root / "inner" / "1", root / "config" / "config.pbtxt"]
        shut += [root / "weights2" / "1" / "model.onnx", root / "script" / "1" / "model.py"]
        for path in shut:
            path.chmod(0)
        try:
            findings = lint_repository(root)
        finally:
            for path in shut:
                path.chmod(0o700)
        assert {one.model for one in findings.errors} == {"closed", "inner", "config", "weights2", "script"}
        root.chmod(0)
        try:
            with pytest.raises(RepositoryError, match="cannot be read"):
                lint_repository(root)
        finally:
            root.chmod(0o700)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (PY.replace("\n", "\r\n"), set()),
        ("\ufeff" + PY, {"error text-encoding"}),
        (PY.encode("utf-16"), {"error text-encoding"}),
        (PY.encode() + "# größe\n".encode("latin-1"), {"warning text-encoding"}),
        (PY + "# größe 😀\n", set()),
        ("", set()),
        (b"\x00\x01\x02", {"error syntax"}),
        ("{" * 5000, {"error syntax"}),
        ('{ "backend' * 5000, {"error json-config"}),
        ("input [" * 3000, {"error syntax"}),
        ("{%" * 100_000, {"error syntax"}),
        (PY + "${" * 100_000, {"error syntax"}),
        ("{% set batch = 8 %}\n" + PY, {"error placeholder"}),
        ('"' * 9_999, {"error syntax"}),
        ("-" * 9_999, {"error syntax"}),
        (PY + "version_policy { specific { versions: [ 99999999999999999999 ] } }", {"error syntax"}),
        (PY.replace("8", "3000000000"), {"error syntax"}),
    ],
)
def test_texts(config, expected, tmp_path):
    python_model(tmp_path, config=config)
    assert rules_of(tmp_path) == expected


def test_windows_line_ends_keep_their_lines(tmp_path):
    python_model(tmp_path, config=PY.replace("[ 4 ]", "[ 0 ]", 1).replace("\n", "\r\n"))
    assert [one.line for one in lint_repository(tmp_path).errors] == [3]


@pytest.mark.parametrize("name", ["my model", "größe", "модель", "a;b", "$(touch x)", "a'b"])
def test_names_that_a_shell_would_split(name, tmp_path):
    python_model(tmp_path, name)
    onnx_model(tmp_path, f"n{name}")
    assert rules_of(tmp_path) == {"error folder-name"}
    assert "error folder-name" in {
        f"{one.severity} {one.rule}" for one in lint_repository(tmp_path, tier="container").of(name)
    }


def test_name_that_is_not_text(tmp_path):
    os.makedirs(os.fsencode(tmp_path) + b"/caf\xe9/1")
    assert lint_repository(tmp_path).errors
    for encoding in ("utf-8", "ascii"):
        for options in ([], ["--json"]):
            done = subprocess.run(
                [sys.executable, "-m", "tutorial_lib", "lint", str(tmp_path), *options],
                capture_output=True,
                cwd=CHECKOUT,
                env=os.environ | {"PYTHONIOENCODING": encoding},
            )
            assert done.returncode == 1 and not done.stderr, done.stderr
    assert json.loads(done.stdout)[0]["model"] == "caf\udce9"


@pytest.mark.parametrize("name", ["/etc/passwd", "../../../etc/passwd", "a/../../b", "\\0", "x" * 300, ".", "//"])
def test_hostile_default_model_filename(name, tmp_path):
    for backend in ("python", "onnxruntime", "tensorrt"):
        folder = python_model(tmp_path, backend)
        (folder / "config.pbtxt").write_text(f'backend: "{backend}"\ndefault_model_filename: "{name}"\n')
    findings = lint_repository(tmp_path, tier="container")
    assert {one.model for one in findings.errors} == {"python", "onnxruntime", "tensorrt"}


def test_empty_model_file(tmp_path):
    (onnx_model(tmp_path) / "1" / "model.onnx").write_bytes(b"")
    found = lint_repository(tmp_path).errors
    assert [one.rule for one in found] == ["model-file"]
    assert "0 bytes" in found[0].message


def test_three_gigabytes_are_not_read(tmp_path):
    """A sparse file: 3 GB on paper, and no memory for them."""
    path = onnx_model(tmp_path) / "1" / "model.onnx"
    with path.open("r+b") as file:
        file.truncate(3 * 2**30)
    code = """
import sys
from tutorial_lib.repository.lint import lint_repository
before = peak_kib()
print(*{one.rule for one in lint_repository(sys.argv[1]).errors}, peak_kib() - before)
"""
    *rules, grown_kib = run_measured(code, str(tmp_path)).split()
    assert rules == ["model-file"] and int(grown_kib) < 200_000


def test_shapes_of_a_large_model_without_its_weights(tmp_path):
    """The weight of 2.5 GB is a hole in the file; its graph is judged all the same."""
    from onnx import TensorProto, helper

    rows = 5 * 2**27
    weight = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3, rows // 3])
    weight.raw_data = b""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["b", s]) for n, s in (("x", 3), ("y", None)))
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    entries = {"location": "w.bin", "offset": "0", "length": str(rows // 3 * 12)}
    for key, value in entries.items():
        weight.external_data.add(key=key, value=value)
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], [weight]), ir_version=9,
                              opset_imports=[helper.make_opsetid("", 17)])  # fmt: skip
    folder = onnx_model(tmp_path)
    (folder / "1" / "model.onnx").write_bytes(model.SerializeToString())
    with (folder / "1" / "w.bin").open("wb") as file:
        file.truncate(rows // 3 * 12)
    found = lint_repository(tmp_path).errors
    assert [one.rule for one in found] == ["tensor-shape"]
    assert f"[ {rows // 3} ]" in found[0].expected  # as ONNX Runtime infers it


def test_large_label_file_and_config(tmp_path):
    folder = python_model(tmp_path, config=PY[:-4] + ' label_filename: "l" } ]')
    (folder / "l").write_bytes(b"x\n" * 3 * 2**20)
    other = python_model(tmp_path, "other")
    with (other / "config.pbtxt").open("r+b") as file:
        file.truncate(2**33)
    assert rules_of(tmp_path) == {"warning label-file", "error unreadable"}


def test_random_bytes_never_raise(tmp_path):
    random = np.random.default_rng(0)
    for number in range(60):
        folder = python_model(tmp_path, f"m{number}", bytes(random.integers(0, 256, 200, dtype=np.uint8)))
        (folder / "1" / "model.py").write_bytes(bytes(random.integers(0, 256, 200, dtype=np.uint8)))
        cut = bytearray(NET.encode() + (X + Y).encode())
        for place in random.integers(0, len(cut), 3):
            cut[place] = random.integers(32, 127)
        net = onnx_model(tmp_path, f"n{number}")
        (net / "config.pbtxt").write_bytes(cut)
        data = bytearray((net / "1" / "model.onnx").read_bytes())
        data[random.integers(0, len(data))] = random.integers(0, 256)
        (net / "1" / "model.onnx").write_bytes(data)
    findings = lint_repository(tmp_path)
    assert {f"m{number}" for number in range(60)} <= {one.model for one in findings.errors}


def test_whatever_protobuf_cannot_read_is_an_error(tmp_path):
    """A typing mistake anywhere: silence means that the text can still be read, and mending never makes it worse."""
    random = np.random.default_rng(1)
    whole = (
        PY
        + 'dynamic_batching { preferred_batch_size: [ 4, 8 ] }\nparameters { key: "a" value { string_value: "b" } }\n'
    )
    whole += "instance_group [ { count: 1 kind: KIND_CPU }, { } ]\nversion_policy: { specific { versions: [ 1 ] } }\n"
    broken = set()
    for number in range(300):
        text, place = list(whole), int(random.integers(0, len(whole)))
        new = str(random.choice(list("{}[]<>:,;\"'#$%-0a\n ")))
        text[place : place + int(random.integers(0, 2))] = [new] if random.integers(0, 3) else []
        python_model(tmp_path, f"m{number}", "".join(text))
        try:
            parse_config("".join(text))
        except RepositoryError:
            broken.add(f"m{number}")
    assert len(broken) > 50
    assert broken <= {one.model for one in lint_repository(tmp_path).errors}
    fixes = find_fixes(tmp_path)
    fixes.apply()
    assert {f"m{number}" for number in range(300)} - broken
    for number in range(300):
        if f"m{number}" not in broken:
            parse_config((tmp_path / f"m{number}" / "config.pbtxt").read_text())
