"""`./workshop lint --fix`: what is certain is mended, and nothing else is touched."""

from __future__ import annotations

import os
import stat
import subprocess

import pytest
from typer.testing import CliRunner

from tests.unit.lint_examples import ECHO, EXAMPLES, NET, PY, Example, X, Y
from tests.unit.onnx_files import relu
from tutorial_lib.cli import app
from tutorial_lib.errors import RepositoryError
from tutorial_lib.repository.fix import find_fixes
from tutorial_lib.repository.lint import lint_repository

MARK = "# mine: größe\n"


def write(root, config, name="m", *, graph=False):
    folder = root / name
    (folder / "1").mkdir(parents=True)
    relu(folder / "1" / "model.onnx") if graph else (folder / "1" / "model.py").write_text(ECHO)
    (folder / "config.pbtxt").write_bytes(config.encode())
    return folder / "config.pbtxt"


def mended(root, config, **options):
    """The text after all edits; a second lint and a second --fix have nothing more to say."""
    path = write(root, config, **options)
    find_fixes(root).apply()
    assert not lint_repository(root).errors
    assert not find_fixes(root)
    return path.read_bytes().decode()


CERTAIN = {  # a mistake → the same line mended
    "batch in dims": ("dims: [ -1, 3 ]  # x", "dims: [ 3 ]  # x"),
    "batch in dims, tight": ("dims:[8,3]", "dims:[3]"),
    "alias": ("data_type: TYPE_FLOAT", "data_type: TYPE_FP32"),
    "alias without its prefix": ("data_type: float32", "data_type: TYPE_FP32"),
    "quoted": ('data_type: "TYPE_FP32"', "data_type: TYPE_FP32"),
    "field": ("dim: [ 3 ]", "dims: [ 3 ]"),
    "comma": ("data_type: TYPE_FP32 dims: [ 3 ] reshape { shape: [ 1 3 ] }", None),
}


def net(line):
    """An ONNX model's configuration, the line in its input."""
    fields = ['name: "x"', "data_type: TYPE_FP32", "dims: [ 3 ]"]
    kept = [one for one in fields if one.partition(":")[0] not in line.replace("dim:", "dims:")]
    return MARK + NET + "input [\n  {\n" + "".join(f"    {one}\n" for one in (*kept, line)) + "  }\n]\n" + Y


@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize("what", [name for name, (_, good) in CERTAIN.items() if good])
def test_only_the_mistake_changes(what, ends, tmp_path):
    bad, good = CERTAIN[what]
    found = mended(tmp_path, net(bad).replace("\n", ends), graph=True)
    assert found == net(bad).replace(bad, good).replace("\n", ends)


def test_commas_in_lists_of_numbers_and_of_blocks(tmp_path):
    blocks = 'input [ { name: "IN" data_type: TYPE_FP32 dims: [ 2 2 ] } # one\n'
    blocks += '  { name: "B" data_type: TYPE_FP32 dims: [ 1 ] } ]'
    bad = f'backend: "python"\nmax_batch_size: 8\n{blocks}\n{PY.splitlines()[-1]}\n'
    assert mended(tmp_path, bad) == bad.replace("2 2", "2, 2").replace("} # one", "}, # one")


def test_many_mistakes_in_one_file_one_behind_the_other(tmp_path):
    bad = MARK + 'name: "other"  # old\n' + NET.replace("max_batch_size", "max_batchsize")
    bad += X.replace("FP32", "FLOAT").replace("[ 3 ]", "[ -1 3 ]") + Y.replace("dims", "dim") + MARK
    assert mended(tmp_path, bad, graph=True) == MARK + 'name: "m"  # old\n' + NET + X + Y + MARK


@pytest.mark.parametrize(
    ("line", "left"),
    [('name: "other"\n', ""), ('  name: "other",\r\n', ""), ('name: "other" ', 'name: "m" ')],
)
def test_the_name_line_goes_or_says_the_folders_name(line, left, tmp_path):
    assert mended(tmp_path, line + PY) == left + PY


@pytest.mark.parametrize("folder", ["v1", "01", "version_1", "V-1"])
def test_a_version_folder_gets_its_number(folder, tmp_path):
    write(tmp_path, PY)
    (tmp_path / "m" / "1").rename(tmp_path / "m" / folder)
    fixes = find_fixes(tmp_path)
    assert fixes.diff() == f"rename m/{folder} -> m/1\n"
    fixes.apply()
    assert (tmp_path / "m" / "1" / "model.py").read_text() == ECHO
    assert not lint_repository(tmp_path).errors and not find_fixes(tmp_path)


def test_a_model_beside_its_configuration_moves_into_a_version(tmp_path):
    write(tmp_path, PY)
    (tmp_path / "m" / "1" / "model.py").rename(tmp_path / "m" / "model.py")
    (tmp_path / "m" / "1").rmdir()
    find_fixes(tmp_path).apply()
    assert (tmp_path / "m" / "1" / "model.py").is_file() and not lint_repository(tmp_path).errors


UNCERTAIN = {
    "two near names": PY + "dynamic_batching { priority_level: 1 }\n",
    "a field of another kind": PY + 'instance_groups: "gpu"\n',
    "a block for a number": PY.replace("max_batch_size: 8", "max_batchsize { preferred: 8 }"),
    "the right name is there, too": PY + "max_batchsize: 4\n",
    "a field in the wrong place": PY + "max_queue_delay_microseconds: 5\n",
    "a guess": PY.replace("TYPE_FP32", "TYPE_FP33"),
    "a bracket": PY.rstrip()[:-1],
    "a placeholder": PY.replace("8", "${batch}"),
    "two fields": PY + "max_batch_size: 4\n",
    "another backend": PY.replace('"python"', '"py"'),
    "zero": PY.replace("[ 4 ]", "[ 0 ]"),
    "JSON": '{ "backend": "python" }\n',
}


@pytest.mark.parametrize("what", UNCERTAIN)
def test_what_needs_a_decision_is_left_alone(what, tmp_path):
    path = write(tmp_path, UNCERTAIN[what])
    assert lint_repository(tmp_path).errors
    fixes = find_fixes(tmp_path)
    assert not fixes and fixes.diff() == ""
    fixes.apply()
    assert path.read_text() == UNCERTAIN[what]


@pytest.mark.parametrize("example", [pytest.param(one, id=f"{one.rule}-{n}") for n, one in enumerate(EXAMPLES)])
def test_mending_ends_and_never_adds_an_error(example: Example, tmp_path):
    """For every example: an edit leaves fewer errors, no new one, comments stay, and there is no second round."""
    example.write(tmp_path, mended=False)
    options = dict(example.options)
    before = lint_repository(tmp_path, **options)
    fixes = find_fixes(tmp_path, **options)
    fixes.apply()
    after = lint_repository(tmp_path, **options)
    assert not find_fixes(tmp_path, **options)
    if fixes:
        assert {one.rule for one in after.errors} < {one.rule for one in before.errors} or not after.errors
    else:
        assert after == before


def test_the_diff_can_be_applied_by_patch(tmp_path):
    bad = MARK + NET + X.replace("[ 3 ]", "[ -1, 3 ]") + Y.rstrip()  # no line end at the end
    path = write(tmp_path, bad, graph=True)
    diff = find_fixes(tmp_path).diff()
    done = subprocess.run(["patch", "-p1"], input=diff, text=True, cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stdout
    by_patch = path.read_bytes()
    path.write_text(bad)
    find_fixes(tmp_path).apply()
    assert path.read_bytes() == by_patch and b"-1" not in by_patch


def test_permissions_stay_and_a_failure_leaves_the_old_file(tmp_path, monkeypatch):
    path = write(tmp_path, 'name: "other"\n' + PY)
    path.chmod(0o640)
    fixes = find_fixes(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        with pytest.raises(RepositoryError, match="cannot be changed: No space left"):
            fixes.apply()
    assert path.read_text() == 'name: "other"\n' + PY and [one.name for one in path.parent.iterdir()].count("1") == 1
    assert sorted(one.name for one in path.parent.iterdir()) == ["1", "config.pbtxt"]
    fixes.apply()
    assert path.read_text() == PY and stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_that_changed_meanwhile_is_left_alone(tmp_path):
    path = write(tmp_path, 'name: "other"\n' + PY)
    fixes = find_fixes(tmp_path)
    path.write_text("# somebody else\n")
    with pytest.raises(RepositoryError, match="has changed since it was read"):
        fixes.apply()
    assert path.read_text() == "# somebody else\n"


def test_links(tmp_path):
    """A link out of the repository is not followed; two models with one file are mended once."""
    outside = tmp_path / "outside.pbtxt"
    outside.write_text(PY.replace("TYPE_FP32", "TYPE_FLOAT"))
    root = tmp_path / "models"
    path = write(root, PY)
    path.unlink()
    path.symlink_to(outside)
    fixes = find_fixes(root)
    assert not fixes and fixes.left == ("m/config.pbtxt: a link that leads out of the repository",)
    path.unlink()
    path.write_text(PY.replace("TYPE_FP32", "TYPE_FLOAT"))
    twin = write(root, PY, "twin")
    twin.unlink()
    twin.symlink_to("../m/config.pbtxt")
    find_fixes(root).apply()
    assert twin.is_symlink() and path.read_text() == PY
    assert not find_fixes(root) and not lint_repository(root).errors
    assert "FLOAT" in outside.read_text()


def test_nothing_is_mended_one_level_off(tmp_path):
    """The folder of a model in place of the repository: its version folder is no model to be moved about."""
    root = tmp_path / "above" / "models"
    path = write(root, 'name: "other"\n' + PY)
    for wrong in (root / "m", root / "m" / "1", root.parent):
        assert not find_fixes(wrong)
        told = CliRunner().invoke(app, ["lint", str(wrong), "--fix"])
        assert told.exit_code == 1 and "path-level" in told.output
    assert path.is_file() and (root / "m" / "1" / "model.py").is_file()


def test_a_folder_in_the_way_stays(tmp_path):
    write(tmp_path, PY)
    (tmp_path / "m" / "1").rename(tmp_path / "m" / "v1")
    fixes = find_fixes(tmp_path)
    (tmp_path / "m" / "1").mkdir()
    with pytest.raises(RepositoryError, match="it is there already"):
        fixes.apply()
    assert (tmp_path / "m" / "v1" / "model.py").is_file()


def test_the_command_prints_the_diff_and_what_is_left(tmp_path):
    path = write(tmp_path, 'name: "other"\n' + PY.replace("[ 4 ]", "[ 0 ]", 1))
    told = CliRunner().invoke(app, ["lint", str(tmp_path), "--fix"])
    assert told.exit_code == 1 and '-name: "other"' in told.output and "+++ b/m/config.pbtxt" in told.output
    assert "dims-value" in told.output and "name-differs" not in told.output
    assert path.read_text() == PY.replace("[ 4 ]", "[ 0 ]", 1)
    os.remove(path)
    write(tmp_path / "other", PY)
    told = CliRunner().invoke(app, ["lint", str(tmp_path / "other"), "--fix"])
    assert told.exit_code == 0 and "---" not in told.output
