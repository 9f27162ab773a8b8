"""Which versions Triton would load, and the Python file each needs."""

from __future__ import annotations

import pytest

from tutorial_lib.errors import RepositoryError
from tutorial_lib.repository.config import parse_config
from tutorial_lib.repository.layout import models_of
from tutorial_lib.server.weights import require_python_file, served_versions


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("", (3,)),
        ("version_policy { latest { num_versions: 2 } }", (2, 3)),
        ("version_policy { all { } }", (1, 2, 3)),
        ("version_policy { specific { versions: [ 1, 9 ] } }", (1,)),
    ],
)
def test_served_versions(policy, served):
    assert served_versions(parse_config(policy), (1, 2, 3)) == served


@pytest.mark.parametrize(
    ("config", "files", "refused"),
    [
        ('backend: "python"', ["1/model.py"], False),
        ('backend: "python"', ["1/main.py"], True),
        ('backend: "python" default_model_filename: "main.py"', ["1/main.py"], False),
        ('backend: "python"', ["1/main.py", "2/model.py"], False),  # only the newest is served
        ('backend: "python" version_policy { all { } }', ["1/main.py", "2/model.py"], True),
        ('backend: "onnxruntime"', ["1/net.onnx"], False),  # Triton says so itself, at once
        ('backend: "python" platform: "ensemble"', ["1/note.txt"], False),
        ("not a config", ["1/main.py"], False),
    ],
)
def test_a_python_model_needs_its_file(tmp_path, config, files, refused):
    for name in files:
        (tmp_path / "net" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "net" / name).touch()
    (tmp_path / "net" / "config.pbtxt").write_text(config)
    (model,) = models_of(tmp_path)
    if not refused:
        assert require_python_file(model) is None
        return
    with pytest.raises(RepositoryError, match=r"has no model\.py, it holds: main\.py; Triton would load for ever"):
        require_python_file(model)
