"""The faults of notebook 04: what goes wrong while a repository is written."""

from __future__ import annotations

from pathlib import Path

from tutorial_lib.course.fault import Fault, WrongRepair, edit_config, lost_version, replacing

_INPUT = "    dims: [ 3, 32, 32 ]"
_INPUT_TYPE = "    data_type: TYPE_FP32\n    format: FORMAT_NCHW"


def _batch_in_dims(model: Path) -> None:
    edit_config(model, ("    format: FORMAT_NCHW\n", ""), (_INPUT, "    dims: [ 1, 3, 32, 32 ]"))


def _wrong_dtype(model: Path) -> None:
    edit_config(model, (_INPUT_TYPE, _INPUT_TYPE.replace("FP32", "UINT8")))


def _misspelt_output(model: Path) -> None:
    edit_config(model, ('"fc6_1"', '"fc6_l"'))


def _missing_version_folder(model: Path) -> None:
    (model / "1" / "model.onnx").rename(model / "model.onnx")
    (model / "1").rmdir()


FAULTS = (
    Fault(
        name="batch_in_dims",
        notebook="04",
        story="A colleague copied the input's shape out of a client's code, where it had worked.",
        symptom="specifies 5 dimensions (an initial batch dimension because max_batch_size > 0",
        look=("config.pbtxt",),
        inject=_batch_in_dims,
        hints=(
            "the sentence has two shapes: the model's own, and the one that config.pbtxt makes. Which axes differ?",
            "max_batch_size above zero puts the batch in front by itself, so dims begin behind it.",
            "data_0 needs dims: [ 3, 32, 32 ], and max_batch_size stays.",
        ),
        proves="dims begin behind the batch, and Triton adds the batch itself",
        repair=replacing(("[ 1, 3, 32, 32 ]", "[ 3, 32, 32 ]")),
        wrong=(
            WrongRepair(replacing(("[ 1, 3, 32, 32 ]", "[ 32, 3, 32, 32 ]")), "specifies 5 dimensions"),
            WrongRepair(
                replacing(
                    ("max_batch_size: 32", "max_batch_size: 0"),
                    ("[ 1, 3, 32, 32 ]", "[ -1, 3, 32, 32 ]"),
                    ("[ 10 ]", "[ -1, 10 ]"),
                ),
                "without giving up batching",
            ),
            WrongRepair(
                replacing(("max_batch_size: 32", "max_batch_size: 8"), ("[ 1, 3, 32, 32 ]", "[ 3, 32, 32 ]")),
                "max_batch_size 32, as before",
            ),
            WrongRepair('mended = "no configuration at all"\nlab.config_path.unlink()', "at least 8"),
        ),
    ),
    Fault(
        name="wrong_dtype",
        notebook="04",
        compact=True,
        story="Somebody reasoned that images are bytes, and wrote so.",
        symptom="configuration expects datatype TYPE_UINT8 for input 'data_0', model provides TYPE_FP32",
        look=("config.pbtxt",),
        inject=_wrong_dtype,
        hints=(
            "the sentence names the tensor, the type that the configuration promises and the type that the file has.",
            "a configuration describes the model file, it converts nothing: write the file's type.",
            "data_0 is TYPE_FP32.",
        ),
        proves="the configuration repeats the file's type, it does not convert",
        repair=replacing(("TYPE_UINT8", "TYPE_FP32")),
        wrong=(
            WrongRepair(replacing(("TYPE_UINT8", "TYPE_FP16")), "model provides TYPE_FP32"),
            WrongRepair(replacing(("TYPE_FP32", "TYPE_UINT8")), "model provides TYPE_FP32"),
        ),
    ),
    Fault(
        name="misspelt_output",
        notebook="04",
        compact=True,
        story="The output's name was typed from a print-out.",
        symptom="unexpected inference output 'fc6_l', allowed outputs are: fc6_1",
        look=("config.pbtxt",),
        inject=_misspelt_output,
        hints=(
            "compare the names in the server's first sentence letter by letter; lab.again() brings it back.",
            "one ends in a small L, the other in the digit one; the file decides.",
            'the output is called "fc6_1".',
        ),
        proves="the file decides what a tensor is called",
        repair=replacing(("fc6_l", "fc6_1")),
        wrong=(
            WrongRepair(replacing(("fc6_l", "fc6-1")), "allowed outputs are: fc6_1"),
            WrongRepair(
                'text = lab.config_path.read_text()\nmended = text[: text.index("output [")]\n'
                'mended += text[text.index("# ") :]\nlab.config_path.write_text(mended)',
                "the label file",
            ),
            WrongRepair(
                'import onnx\n\nmended = onnx.load(lab.model / "1" / "model.onnx")\nfor node in mended.graph.node:\n'
                '    node.output[:] = [name.replace("fc6_1", "fc6_l") for name in node.output]\n'
                'mended.graph.output[0].name = "fc6_l"\nonnx.save(mended, lab.model / "1" / "model.onnx")',
                "every client asks for",
            ),
        ),
    ),
    Fault(
        name="missing_version_folder",
        notebook="04",
        compact=True,
        story="The model was uploaded by hand, file by file.",
        symptom="at least one version must be available under the version policy",
        look=("",),
        inject=_missing_version_folder,
        hints=(
            "which level of the layout in section 1 is not there, or is empty?",
            "the model file belongs into a folder beside config.pbtxt whose name is a whole number.",
            "move it to 1/model.onnx.",
        ),
        gives_up=lost_version,
        proves="a model has versions, even when there is only one",
        repair='mended = lab.model / "1"\nmended.mkdir()\n(lab.model / "model.onnx").rename(mended / "model.onnx")',
        wrong=(
            WrongRepair(
                'mended = lab.model / "v1"\nmended.mkdir()\n(lab.model / "model.onnx").rename(mended / "model.onnx")',
                "at least one version",
            ),
            WrongRepair(
                'mended = lab.model / "1"\nmended.mkdir()\n'
                '(lab.model / "model.onnx").rename(mended / "densenet_onnx.onnx")',
                "failed to stat file",
            ),
            WrongRepair(
                'mended = lab.model / "3"\nmended.mkdir()\n(lab.model / "model.onnx").rename(mended / "model.onnx")',
                "clients that ask for version 1 are refused",
            ),
        ),
    ),
)
