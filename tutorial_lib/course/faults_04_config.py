"""More faults of notebook 04: what goes wrong in the text of a config.pbtxt."""

from __future__ import annotations

from pathlib import Path

from tutorial_lib.course.fault import Fault, WrongRepair, edit_config, lost_version, replacing
from tutorial_lib.repository.config import read_config


def _missing_comma(model: Path) -> None:
    edit_config(model, ("dims: [ 3, 32, 32 ]", "dims: [ 3, 32 32 ]"))


def _misspelt_field(model: Path) -> None:
    edit_config(model, ("label_filename:", "labels_file:"))


def _renamed_folder(model: Path) -> None:
    edit_config(model, ('name: "densenet_onnx"', 'name: "densenet"'))


def _absent_version(model: Path) -> None:
    edit_config(
        model, ("max_batch_size: 32\n", "max_batch_size: 32\nversion_policy: { specific: { versions: [ 2 ] } }\n")
    )


def _unserved_version(model: Path) -> str:
    asked = read_config(model).version_policy.specific.versions
    absent = [number for number in asked if not (model / str(number)).is_dir()]
    if absent:
        return f"the policy still asks for version {absent[0]}, which is not there: Triton serves the rest and says so."
    return lost_version(model)


def _preferred_size(model: Path) -> None:
    edit_config(model, ("dynamic_batching { }", "dynamic_batching {\n  preferred_batch_size: [ 16, 64 ]\n}"))


FAULTS = (
    Fault(
        name="missing_comma",
        notebook="04",
        compact=True,
        story="Two people edited the same line, and a merge made one of both.",
        symptom='Expected ",", found "32"',
        look=("config.pbtxt",),
        inject=_missing_comma,
        hints=(
            "one of the lines has a place in it, line and column, and the sign that was expected there.",
            "protobuf separates the values of a list by commas; spaces mean nothing.",
            "data_0 needs dims: [ 3, 32, 32 ].",
        ),
        proves="the place in the message is where reading stopped, and the mistake is just before it",
        repair=replacing(("[ 3, 32 32 ]", "[ 3, 32, 32 ]")),
        wrong=(
            WrongRepair(replacing(("[ 3, 32 32 ]", "[ 3, 3232 ]")), "require 3 dims"),
            WrongRepair(replacing(("[ 3, 32 32 ]", "[ 3, 32; 32 ]")), 'found ";"'),
        ),
    ),
    Fault(
        name="misspelt_field",
        notebook="04",
        compact=True,
        story="Somebody wrote a field from memory.",
        symptom='has no field named "labels_file"',
        look=("config.pbtxt",),
        inject=_misspelt_field,
        hints=(
            "the message names the field, and the kind of block in which it was looked for.",
            "a field has exactly one spelling; section 3 wrote this one. Taking the line out loses what it did.",
            "the field is label_filename.",
        ),
        proves="every field is Triton's own word: one letter off, and the whole file is unreadable",
        repair=replacing(("labels_file:", "label_filename:")),
        wrong=(
            WrongRepair(replacing(('    labels_file: "labels.txt"\n', "")), "the label file"),
            WrongRepair(replacing(("labels_file:", "label_file:")), 'no field named "label_file"'),
        ),
    ),
    Fault(
        name="renamed_folder",
        notebook="04",
        compact=True,
        story="The folder got a better name, so that it says what kind of file is in it.",
        symptom="directory name must equal model name",
        look=("config.pbtxt", ""),
        inject=_renamed_folder,
        hints=(
            "two names must be equal. Which of the two do clients already use?",
            "clients ask for densenet_onnx, and that is the folder's name: so the text has to follow.",
            'write name: "densenet_onnx", or no name at all: then the folder\'s counts.',
        ),
        proves="the folder's name is the model's name, and the text may only repeat it",
        repair=replacing(('name: "densenet"', 'name: "densenet_onnx"')),
        wrong=(
            WrongRepair(
                'mended = lab.model.with_name("densenet")\nlab.model.rename(mended)', "lab.again() brings the broken"
            ),
            WrongRepair(replacing(('name: "densenet"', 'name: "densenet_ONNX"')), "directory name must equal"),
        ),
    ),
    Fault(
        name="absent_version",
        notebook="04",
        compact=True,
        story="The next version was announced before it was trained.",
        symptom="version 2 is specified for model 'densenet_onnx', but the version directory is not present",
        look=("config.pbtxt", ""),
        inject=_absent_version,
        hints=(
            "which versions does the folder hold, and which one does the configuration want?",
            "a version policy can only choose among the folders that are there.",
            "ask for versions: [ 1 ], or leave the policy out: then the highest version there is is served.",
        ),
        gives_up=_unserved_version,
        proves="a version policy chooses among the version folders, it makes none",
        repair=replacing(("versions: [ 2 ]", "versions: [ 1 ]")),
        wrong=(
            WrongRepair(
                'mended = lab.model / "2"\n(lab.model / "1").rename(mended)',
                "clients that ask for version 1 are refused",
            ),
            WrongRepair(
                'mended = lab.model / "2"\nmended.mkdir()  # an empty folder is a version without a file',
                "failed to stat",
            ),
            WrongRepair(replacing(("versions: [ 2 ]", "versions: [ 1, 2 ]")), "still asks for version 2"),
        ),
    ),
    Fault(
        name="preferred_size",
        notebook="04",
        compact=True,
        story="The server was to form large batches, and somebody told it which.",
        symptom="dynamic batching preferred size must be <= max batch size for densenet_onnx",
        look=("config.pbtxt",),
        inject=_preferred_size,
        hints=(
            "two numbers contradict each other; which of them says what the model can do?",
            "no batch gets larger than max_batch_size, so none above it can be preferred. Dynamic batching stays.",
            "write preferred_batch_size: [ 16, 32 ], or dynamic_batching { }.",
        ),
        proves="max_batch_size bounds every batch, the preferred ones too",
        repair=replacing(("[ 16, 64 ]", "[ 16, 32 ]")),
        wrong=(
            WrongRepair(
                replacing(("dynamic_batching {\n  preferred_batch_size: [ 16, 64 ]\n}", "")), "requests share runs"
            ),
            WrongRepair(replacing(("[ 16, 64 ]", "[ 0, 32 ]")), "preferred size must be positive"),
            WrongRepair(replacing(("max_batch_size: 32", "max_batch_size: 64")), "max_batch_size 32, as before"),
        ),
    ),
)
