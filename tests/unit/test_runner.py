"""The parts of the runner that need no kernel."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import nbformat
import papermill
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tests.notebooks.small import write
from tutorial_lib.errors import NotebookError
from tutorial_lib.paths import CHECKOUT
from tutorial_lib.runner import folders, page
from tutorial_lib.runner.environment import run_environment
from tutorial_lib.runner.notebook import Outcome, _Child
from tutorial_lib.runner.parameters import check_parameters
from tutorial_lib.runner.report import Entry, Report, entry
from tutorial_lib.runner.selection import select

PASSED = {"MODE": "quick", "TRITON_URL": "", "REPOSITORY": "", "SEED": 0}


@pytest.fixture
def course(tmp_path):
    for name in ("00_start_here", "04_write_model_repository", "05_launch_triton", "06_call_the_server"):
        write(tmp_path, name)
    write(tmp_path, "scratch")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ([], ["00", "04", "05", "06"]),
        (["4"], ["04"]),
        (["06", "04", "4"], ["04", "06"]),
        (["05_launch_triton.ipynb"], ["05"]),
        (["notebooks/launch_triton"], ["05"]),
        (["CALL"], ["06"]),
    ],
)
def test_words_name_notebooks_in_course_order(course, words, numbers):
    assert [path.name[:2] for path in select(words, folder=course)] == numbers


@pytest.mark.parametrize(
    ("word", "nearest"), [("07", "06_call_the_server"), ("lanch", "05_launch_triton"), ("04_write_repo", "04_write")]
)
def test_an_unknown_notebook_names_the_nearest_and_lists_all(course, word, nearest):
    with pytest.raises(NotebookError, match=f"{word}.*Did you mean '{nearest}") as caught:
        select(["04", word], folder=course)
    assert all(path.stem in caught.value.details for path in select(folder=course))


def test_a_word_for_several_notebooks_is_refused(course):
    with pytest.raises(NotebookError, match="found 2 with this in their name.*00_start_here.*06_call_the_server"):
        select(["he"], folder=course)


def test_no_notebooks_at_all(tmp_path):
    with pytest.raises(NotebookError, match="no notebook named"):
        select(folder=tmp_path)


# --- parameters --------------------------------------------------------------------------------------


def check(tmp_path, *sources, **options):
    path = write(tmp_path, "04_x", *sources, **options)
    check_parameters(nbformat.read(path, as_version=4), PASSED, name="04_x")


def test_good_parameters_pass(tmp_path):
    check(tmp_path, "%matplotlib inline\nREPOSITORY = REPOSITORY or 'here'\nawait something()", "SEED += 1")


def test_a_missing_tag_names_the_cell_that_should_have_it(tmp_path):
    with pytest.raises(NotebookError, match=r"Give cell 2 \(`MODE = \"quick\"`\) the tag `parameters`"):
        check(tmp_path, "SEED", tags=())


def test_without_any_parameters_the_names_to_assign_are_listed(tmp_path):
    with pytest.raises(NotebookError, match="Add a cell that assigns MODE, TRITON_URL, REPOSITORY, SEED"):
        check(tmp_path, parameters="x = 1", tags=())


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ('MODE = "quick"\nTRITON_URL = ""\nREPOSITORY = ""\nseed = 0', "'SEED'.*Did you mean 'seed'"),
        ('MODE = "quick"\nTRITON_URL = ""\nREPOSITORY = ""', "'SEED'.*Assign SEED its default"),
        ('MODE = "quick"\nTRITON_URL = ""\nREPOSITORY = ""\nSEED = "0"', r"SEED is 0 \(int\).*of type str"),
        ('MODE = "quick"\nTRITON_URL = ""\nREPOSITORY = ""\nSEED = True', "of type bool"),
        ('MODE = "quick"\nTRITON_URL = MODE\nREPOSITORY = ""\nSEED = 0', "TRITON_URL is computed from MODE"),
    ],
)
def test_values_that_would_not_arrive_are_refused(tmp_path, cell, message):
    with pytest.raises(NotebookError, match=message):
        check(tmp_path, parameters=cell)


def test_a_float_takes_an_int_and_none_takes_anything(tmp_path):
    check(tmp_path, parameters='MODE: str = "quick"\nTRITON_URL = None\nREPOSITORY = ""\nSEED = 0.0')


def test_a_value_overwritten_later_is_refused(tmp_path):
    with pytest.raises(NotebookError, match="cell 4: `SEED = 7` overwrites the parameter SEED"):
        check(tmp_path, "x = 1", "SEED = 7")


def test_two_tagged_cells_are_refused(tmp_path):
    with pytest.raises(NotebookError, match="cells 2 and 3 are tagged"):
        check(tmp_path, ("SEED = 1", ["parameters"]))


def test_the_case_as_reported(tmp_path, capsys, monkeypatch):
    """Case 78: papermill only warns, so what it warns of must be refused here, and the rest must not."""
    text = (CHECKOUT / "tests/cases/78-notebook-parameters-cell-not-tagged/standalone.py").read_text()
    monkeypatch.chdir(tmp_path)
    exec(text.split("\nrun(")[0], namespace := {})
    cases = re.findall(r'^run\("(.*?)", "(.*?)", parameters=(\{.*?\})\)', text, flags=re.M)
    assert len(cases) == 4
    for label, file, values in cases:
        notebook, values = nbformat.read(file, as_version=4), eval(values)
        warned = not values.keys() <= papermill.inspect_notebook(file).keys()
        if warned or label == "string where int expected":
            with pytest.raises(NotebookError):
                check_parameters(notebook, values, name=file)
        else:
            check_parameters(notebook, values, name=file)
    assert namespace["nb"]


# --- report and pages --------------------------------------------------------------------------------


def test_the_last_record_of_a_name_counts_and_the_tier_is_the_servers(tmp_path):
    lines = [
        {"kind": "number", "name": "a", "value": 1, "unit": "ms", "tier": "no server · CPU ×2"},
        {"kind": "skip", "name": "gpu", "value": "none here", "unit": "", "tier": "no server · CPU ×2"},
        {"kind": "number", "name": "a", "value": 2, "unit": "ms", "tier": "Triton 2.51.0 embedded · CPU ×2"},
    ]
    records = tmp_path / "r.jsonl"
    records.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = entry("00_x", Outcome("passed", "", 1.234), records=records, files={})
    assert found.numbers == {"a": {"value": 2, "unit": "ms", "tier": "Triton 2.51.0 embedded · CPU ×2"}}
    assert found.skipped_steps == [{"step": "gpu", "reason": "none here"}]
    assert (found.tier, found.seconds) == ("Triton 2.51.0 embedded · CPU ×2", 1.23)


@pytest.mark.parametrize(
    "torn", ['{"kind": "number", "name": "b", "va', '{"kind": "num{"kind": "skip", "name": "x"}\n']
)
def test_a_record_that_was_cut_off_costs_no_other(tmp_path, torn):
    """A kernel killed, or a disk full, in the middle of a line."""
    records = tmp_path / "r.jsonl"
    records.write_text(json.dumps({"kind": "number", "name": "a", "value": 1, "unit": "", "tier": "T"}) + "\n" + torn)
    found = entry("00_x", Outcome("failed", "killed", 1.0), records=records, files={})
    assert list(found.numbers) == ["a"] and found.tier == "T"
    assert [step["reason"] for step in found.skipped_steps] == [f"cut off while it was written: {torn.rstrip()}"]


def image(text):
    return new_output("display_data", data={"image/png": text})


def test_the_plot_is_the_tagged_cells_or_the_last():
    cells = [new_code_cell(outputs=[image(text)]) for text in ("first", "second", "last")]
    notebook = new_notebook(cells=[*cells, new_code_cell(outputs=[new_output("stream", text="x")])])
    assert page.plot(notebook).endswith("base64,last")
    notebook.cells[1].metadata.tags = ["key-plot"]
    assert page.plot(notebook).endswith("base64,second")
    assert page.plot(new_notebook()) == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (True, "yes"),
        (12345, "12,345"),
        (0.98765, "0.9877"),
        (3.0, "3"),
        (1234.5, "1,234"),
        (1.5e-7, "1.500e-07"),
        ("a", "a"),
    ],
)
def test_numbers_as_people_write_them(value, shown):
    assert page._number(value) == shown


def test_the_index_names_everything_escaped_and_reaches_for_nothing(tmp_path):
    executed = new_notebook(cells=[new_code_cell(outputs=[image("cGxvdA==")])])
    nbformat.write(executed, tmp_path / "01_b.ipynb")
    numbers = {
        "p95": {"value": 2.5, "unit": "ms", "tier": "T"},
        "bad": {"value": None, "unit": "", "tier": "T", "note": "the value was nan"},
    }
    entries = (
        Entry(
            "00_a",
            "failed",
            "<boom> in cell 3: x",
            1.0,
            "T",
            cell={"number": 3, "id": "c3", "source": "<x>", "error": "<boom>\nmore"},
            html="00_a.html",
        ),
        Entry(
            "01_b",
            "passed",
            "",
            1.0,
            "T",
            numbers,
            [{"step": "docker <run>", "reason": "no engine"}],
            executed="01_b.ipynb",
            html="01_b.html",
        ),
        Entry("02_c"),
    )
    report = Report(entries, mode="quick", seed=0, url="", started="2026-01-01T00:00:00+00:00")
    text = page.write_index(report, tmp_path).read_text()
    for wanted in (
        "&lt;boom&gt;",
        "00_a.html#cell-id=c3",
        "p95",
        "2.5",
        "docker &lt;run&gt;",
        "data:image/png;base64,cGxvdA==",
        "not run yet",
        "the value was nan",
        "not complete",
    ):
        assert wanted in text, wanted
    assert "<boom>" not in text and "<x>" not in text
    assert not re.search(r'(src|href)="(https?:)?//', text)


def test_the_page_of_a_notebook_needs_no_network_and_no_widget_manager(tmp_path):
    def state(model, **values):
        return {"model_name": model, "model_module": "m", "state": {"_model_name": model, **values}}

    cell = new_code_cell(
        "tqdm(…)", outputs=[new_output("display_data", data={page._WIDGET: {"model_id": "box"}, "text/plain": "0%"})]
    )
    states = {
        "box": state("HBoxModel", children=["IPY_MODEL_text", "IPY_MODEL_bar"]),
        "text": state("HTMLModel", value="training 100%"),
        "bar": state("FloatProgressModel", value=30.0, max=30.0, bar_style="success"),
    }
    widgets = {page._WIDGET_STATE: {"state": states, "version_major": 2, "version_minor": 0}}
    path = tmp_path / "00_x.ipynb"
    nbformat.write(new_notebook(cells=[cell], metadata={"widgets": widgets}), path)
    text = page.export_html(path).read_text()
    assert "training 100%" in text
    assert re.search(r'<progress (max="30.0" value="30.0"|value="30.0" max="30.0")>', text)
    assert not re.search(r'(src|import\()\s*=?\s*["\']https?:', text)
    copy = nbformat.read(path, as_version=4)  # what a person may open, and keep
    assert "widgets" not in copy.metadata
    assert "training 100%" in copy.cells[0].outputs[0].data["text/html"]
    assert page._WIDGET not in copy.cells[0].outputs[0].data


# --- folders, environment, clean ---------------------------------------------------------------------


def test_runs_get_folders_of_their_own_and_old_ones_go(tmp_path):
    made = []
    for _ in range(folders.KEPT_RUNS + 2):
        with folders.new_folder(tmp_path) as folder:
            folders.keep_newest(tmp_path)
            folders.link_latest(folder)
            assert folders.is_running(folder)
        made.append(folder.name)
    assert len(set(made)) == len(made)
    kept = sorted(path.name for path in tmp_path.iterdir() if path.name != "latest")
    assert kept == sorted(made)[-folders.KEPT_RUNS :]
    assert (tmp_path / "latest").resolve().name == made[-1]
    assert not folders.is_running(folder)


def test_the_kernels_environment_keeps_out_of_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", "/a/persons/kernels")
    monkeypatch.setenv("PYTHONSTARTUP", "/a/persons/startup.py")
    environment = run_environment(tmp_path / "run", cache=tmp_path / "cache", scratch=tmp_path / "scratch", seed=3)
    script = (
        "import os, matplotlib, jupyter_core.paths as j, IPython.paths as i; "
        "print(*[matplotlib.get_configdir(), j.jupyter_config_dir(), j.jupyter_data_dir(), j.jupyter_runtime_dir(),"
        " i.get_ipython_dir(), *j.jupyter_path()[:1]], sep='\\n')"
    )
    told = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert all(line.startswith(str(tmp_path)) for line in told.stdout.splitlines()), told.stdout
    assert "PYTHONSTARTUP" not in environment
    assert environment["PYTHONHASHSEED"] == "3"


def test_a_child_that_is_gone_may_be_killed_again_and_its_kernel_be_gone_too(tmp_path):
    with (tmp_path / "log").open("ab") as log:
        child = _Child(dict(os.environ), log)
    child.kill()
    gone = child.process.pid
    assert child.process.wait(10) == -9
    child.kill()
    child._buffer = json.dumps({"event": "kernel", "pid": gone}).encode() + b"\n"
    assert child.events(wait_s=5) == [{"event": "kernel", "pid": gone}] and child._kernel is None
    child.finish()
