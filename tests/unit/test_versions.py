"""The compatibility table against independent facts, and what is built on it."""

from __future__ import annotations

import dataclasses
import math
import os
import platform
import tomllib
from importlib import metadata
from pathlib import Path

import onnx
import pytest

from tutorial_lib import versions
from tutorial_lib.errors import ExportError, SetupError
from tutorial_lib.versions import (
    EMBEDDED_TRITON,
    RELEASES,
    TARGET,
    Release,
    capability_line,
    check_onnx,
    cpu_count,
    image,
    installed,
    release_of_triton,
    target,
)

ROOT = Path(__file__).resolve().parents[2]
EVERY_RELEASE = pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)

# The highest opset that each PyPI wheel loads with ALLOW_RELEASED_ONNX_OPSET_ONLY at its default, measured by
# loading one-node graphs of rising opset until it refused; onnx itself knows which IR came with that opset.
HIGHEST_OPSET_LOADED = {"1.18.0": 21, "1.18.1": 21, "1.19.2": 21, "1.20.1": 21, "1.21.0": 22, "1.22.0": 22}


@pytest.fixture(autouse=True)
def no_target_variable(monkeypatch):
    monkeypatch.delenv(versions.TARGET_VARIABLE, raising=False)


def month_number(tag: str) -> int:
    year, month = tag.split(".")
    return int(year) * 12 + int(month)


# the table


@EVERY_RELEASE
def test_ir_and_opset_are_a_pair_that_onnx_released(release):
    released = {(row[1], row[2]) for row in onnx.helper.VERSION_TABLE}
    assert (release.max_ir, release.max_opset) in released
    assert release.max_opset == HIGHEST_OPSET_LOADED[release.onnxruntime]


@EVERY_RELEASE
def test_triton_moves_one_minor_version_a_month(release):
    # anchor: Triton's README of January 2024, "2.41.0 … corresponds to the 23.12 container release"
    assert release.triton == f"2.{41 + month_number(release.tag) - month_number('23.12')}.0"


@EVERY_RELEASE
def test_driver_branch_is_the_one_cuda_was_released_with(release):
    # NVIDIA's "CUDA Toolkit and Corresponding Driver Versions" (CUDA release notes), Linux, GA of each minor
    branch = {"12.4": 550, "12.5": 555, "12.6": 560, "12.8": 570, "12.9": 575}
    assert release.min_driver == branch[release.cuda.rpartition(".")[0]]
    for driver in release.compat_drivers or ():
        assert int(driver.partition(".")[0]) < release.min_driver


@EVERY_RELEASE
def test_tensorrt_and_python_look_like_versions(release):
    assert release.tensorrt is None or release.tensorrt.startswith("10.")
    # the images moved from Ubuntu 22.04 to 24.04 (its Python is 3.12) at the end of 2024
    assert release.python == ("3.10" if month_number(release.tag) <= month_number("24.10") else "3.12")


def test_table_is_keyed_by_tag_and_rises_in_time():
    assert [release.tag for release in RELEASES.values()] == list(RELEASES)
    months = [month_number(tag) for tag in RELEASES]
    assert months == sorted(set(months))
    for field in ("triton", "onnxruntime", "cuda"):
        numbers = [tuple(map(int, getattr(r, field).split("."))) for r in RELEASES.values()]
        assert numbers == sorted(numbers), field


def test_rows_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RELEASES[TARGET].max_opset = 99


def test_source_is_the_release_s_own_page():
    assert RELEASES["24.10"].source.endswith("/release-notes/rel-24-10.html")


def test_target_row_is_what_the_course_promises():
    row = RELEASES[TARGET]
    assert (row.tag, row.triton, row.onnxruntime, row.max_ir, row.max_opset, row.cuda, row.min_driver) == (
        "24.10", "2.51.0", "1.19.2", 10, 21, "12.6.2", 560,
    )  # fmt: skip


# the embedded server


def test_embedded_server_belongs_to_the_default_target():
    assert release_of_triton(EMBEDDED_TRITON) is target()


def test_embedded_version_follows_the_wheel_s_pin():
    dependencies = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    # another wheel carries another Triton: ask its /v2, then change EMBEDDED_TRITON and this line together
    assert [d for d in dependencies if d.startswith("nvidia-pytriton")] == ["nvidia-pytriton==0.7.0"]
    assert EMBEDDED_TRITON == "2.51.0"


def test_installed_wheel_is_the_pinned_one():
    try:
        version = metadata.version("nvidia-pytriton")
    except metadata.PackageNotFoundError:
        pytest.skip("nvidia-pytriton is not installed")
    assert version == "0.7.0"


# looking up


def test_variable_names_another_target(monkeypatch):
    monkeypatch.setenv(versions.TARGET_VARIABLE, "25.03")
    assert target() is RELEASES["25.03"]


@pytest.mark.parametrize(
    ("tag", "nearest"),
    [("24.09", "24.10"), ("24.04", "24.05"), ("27.01", "25.06"), ("23.10", "24.05"), ("25.02", "25.03")],
)
def test_unknown_target_names_the_known_tags_and_the_nearest(monkeypatch, tag, nearest):
    monkeypatch.setenv(versions.TARGET_VARIABLE, tag)
    with pytest.raises(SetupError) as caught:
        target()
    assert repr(tag) in caught.value.problem
    assert all(known in caught.value.problem for known in RELEASES)
    assert f"WORKSHOP_TARGET={nearest} (the nearest)" in caught.value.action


@pytest.mark.parametrize("tag", ["latest", "24", "24.10-py3", "²⁴.10"])
def test_a_target_that_is_no_tag_is_refused_without_a_nearest(monkeypatch, tag):
    monkeypatch.setenv(versions.TARGET_VARIABLE, tag)
    with pytest.raises(SetupError) as caught:
        target()
    assert "nearest" not in str(caught.value)
    assert f"WORKSHOP_TARGET={TARGET}" in caught.value.action


def test_blank_variable_means_the_default(monkeypatch):
    monkeypatch.setenv(versions.TARGET_VARIABLE, " ")
    assert target() is RELEASES[TARGET]


def test_image_names():
    assert image("24.10") == "nvcr.io/nvidia/tritonserver:24.10-py3"
    assert image("24.10", "py3-sdk") == "nvcr.io/nvidia/tritonserver:24.10-py3-sdk"
    assert RELEASES["25.01"].image == image("25.01")


def test_unknown_triton_version_lists_the_known_ones():
    with pytest.raises(SetupError, match=r"'2\.52\.0'.*2\.51\.0 \(24\.10\)"):
        release_of_triton("2.52.0")


# refusing models


@EVERY_RELEASE
def test_a_model_at_the_caps_passes_and_one_above_does_not(release):
    assert check_onnx(release.max_ir, release.max_opset, release) is None
    with pytest.raises(ExportError):
        check_onnx(release.max_ir + 1, release.max_opset, release)
    with pytest.raises(ExportError):
        check_onnx(release.max_ir, release.max_opset + 1, release)


def test_high_opset_says_how_to_export_again():
    with pytest.raises(ExportError) as caught:
        check_onnx(10, 23, name="model 'densenet_onnx'")
    message = str(caught.value)
    assert message == (
        "model 'densenet_onnx': found opset 23, expected opset 21 or lower "
        "(Triton 24.10 carries ONNX Runtime 1.19.2). Re-export with opset_version=21."
    )


def test_high_ir_says_how_to_lower_it():
    with pytest.raises(ExportError) as caught:
        check_onnx(11, 18)
    assert "found IR version 11, expected IR version 10 or lower" in caught.value.problem
    assert caught.value.action == "Set model.ir_version = 10 before onnx.save."


def test_both_too_high_names_both():
    with pytest.raises(ExportError) as caught:
        check_onnx(13, 26)
    assert "opset 26 and IR version 13" in caught.value.problem
    assert "opset_version=21 and set model.ir_version = 10" in caught.value.action


def test_the_variable_moves_the_cap(monkeypatch):
    with pytest.raises(ExportError):
        check_onnx(10, 22)
    monkeypatch.setenv(versions.TARGET_VARIABLE, "25.03")
    check_onnx(10, 22)


def test_what_the_installed_onnx_writes_by_default_is_refused():
    """The very case the check exists for: today's onnx is ahead of the target's runtime."""
    model = onnx.helper.make_model(onnx.helper.make_graph([], "empty", [], []))
    with pytest.raises(ExportError):
        check_onnx(model.ir_version, model.opset_import[0].version, RELEASES["24.10"])


# this machine


def test_installed_versions_agree_with_the_modules():
    found = installed()
    assert list(found) == ["torch", "onnx", "onnxruntime", "tritonclient", "transformers", "numpy"]
    assert found["onnx"] == onnx.__version__


def test_missing_package_is_said(monkeypatch):
    monkeypatch.setattr(versions, "PACKAGES", ("numpy", "no-such-package-at-all"))
    assert installed()["no-such-package-at-all"] == "not installed"


def test_capability_line_is_one_line_with_everything(monkeypatch):
    monkeypatch.setattr(versions, "cpu_count", lambda: 3)
    line = capability_line()
    assert line.startswith(f"Python {platform.python_version()} · torch ")
    assert f" · onnx {onnx.__version__} · onnxruntime " in line
    assert " · tritonclient " in line and line.endswith(" · CPU ×3") and "\n" not in line


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the affinity mask is a Linux thing")
def test_cpu_count_follows_the_affinity_mask():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert cpu_count() == 1
    finally:
        os.sched_setaffinity(0, before)
    assert 1 <= cpu_count() <= len(before)


@pytest.mark.parametrize(("quota", "expected"), [(math.inf, 8), (2.0, 2), (1.5, 2), (0.2, 1), (64.0, 8)])
def test_cpu_count_is_cut_by_the_quota(monkeypatch, quota, expected):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr(versions, "_cgroup_quota", lambda: quota)
    assert cpu_count() == expected


@pytest.mark.parametrize(
    ("files", "membership", "expected"),
    [
        ({}, "", math.inf),
        ({"cpu.max": "200000 100000\n"}, "0::/\n", 2.0),
        ({"cpu.max": "max 100000\n"}, "0::/\n", math.inf),
        ({"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, "0::/a/b\n", 1.5),  # the parent's limit
        ({"cpu/job/cpu.cfs_quota_us": "50000", "cpu/job/cpu.cfs_period_us": "100000"}, "1:cpu:/job\n", 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, "1:cpu:/\n", math.inf),
        # in a container the group's path names a folder that is not mounted there
        ({"cpu.max": "300000 100000"}, "0::/docker/0123abcd\n", 3.0),
        ({"cpu.max": "100000 100000"}, "0::/../other:group\n", 1.0),
    ],
)
def test_cgroup_quota_reads_both_versions(tmp_path, files, membership, expected):
    for name, content in files.items():
        file = tmp_path / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    (tmp_path / "self").write_text(membership)
    assert versions._cgroup_quota(tmp_path / "cgroup", tmp_path / "self") == expected


def test_release_documents_every_field():
    documented = Release.__doc__
    assert [f.name for f in dataclasses.fields(Release) if f"        {f.name}:" not in documented] == []


@pytest.mark.parametrize(("flags", "expected"), [("fma avx2 avx512_vnni", True), ("fma avx avx2", False), ("", False)])
def test_int8_instructions_are_read_from_the_cpu_s_flags(tmp_path, flags, expected):
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags : {flags}\n")
    assert versions.int8_dot_products(tmp_path / "cpuinfo") is expected
    assert not versions.int8_dot_products(tmp_path / "nothing")
