"""More faults of notebook 04: a model and its configuration that do not say the same; one of them is served."""

from __future__ import annotations

from pathlib import Path

from tutorial_lib.course.fault import Fault, WrongRepair, edit_config, replacing
from tutorial_lib.course.subjects import INK, PIPELINE, SCORE

_INK_LINE = "ink = image.mean(axis=(1, 2), keepdims=True)[:, 0] / 16"
_INK_LOOP = "ink = np.array([[float(one.mean()) / 16] for one in image])"
_CODE = 'mended = (lab.model / "1" / "model.py").read_text()'


def _no_reshape(model: Path) -> None:
    edit_config(model, ("    reshape { shape: [ ] }\n", ""))


def _swapped_map(model: Path) -> None:
    edit_config(
        model, ('input_map { key: "data_0" value: "enlarged" }', 'input_map { key: "enlarged" value: "data_0" }')
    )


def _other_type(model: Path) -> None:
    path = model / "1" / "model.py"
    text = path.read_text(encoding="utf-8")
    if text.count(_INK_LINE) != 1:
        raise ValueError(f"{path}: found {_INK_LINE!r} {text.count(_INK_LINE)} times, expected once.")
    text = "import numpy as np\n" + text.replace(_INK_LINE, _INK_LOOP)
    path.write_text(text, encoding="utf-8")


def _in_code(old: str, new: str) -> str:
    """The code of a repair that replaces a text in model.py."""
    return f'{_CODE}\nmended = mended.replace("{old}", "{new}")\n(lab.model / "1" / "model.py").write_text(mended)'


FAULTS = (
    Fault(
        name="scalar_output",
        notebook="04",
        compact=True,
        subject=SCORE,
        story="A model gives one number for each image, and dims: [ 1 ] looked right for it.",
        symptom="the model expects 1 dimensions",
        look=("config.pbtxt",),
        inject=_no_reshape,
        hints=(
            "the graph's output has the batch axis and nothing behind it; the configuration adds an axis of 1.",
            "dims may not be empty, so the field reshape, beside dims, says how a tensor looks inside the model.",
            "write reshape { shape: [ ] } beside dims: [ 1 ]; clients then see [batch, 1].",
        ),
        proves="clients see [batch, 1], the graph has [batch], and reshape stands between them",
        repair=replacing(("    dims: [ 1 ]\n", "    dims: [ 1 ]\n    reshape { shape: [ ] }\n")),
        wrong=(
            WrongRepair(replacing(("    dims: [ 1 ]\n", "    dims: [ ]\n")), "must specify 'dims'"),
            WrongRepair(
                replacing(
                    ("max_batch_size: 32", "max_batch_size: 0"),
                    ("[ 8, 8 ]", "[ -1, 8, 8 ]"),
                    ("dims: [ 1 ]", "dims: [ -1 ]"),
                ),
                "batches of at least 8",
            ),
        ),
    ),
    Fault(
        name="swapped_map",
        notebook="04",
        compact=True,
        subject=PIPELINE,
        story="A pipeline of two models was wired by hand: one enlarges the image, one reads the digit.",
        symptom="at least one of its depending tensors, 'data_0', is not connected",
        look=("config.pbtxt",),
        inject=_swapped_map,
        hints=(
            "follow each tensor from step to step: where does the chain break?",
            "in both maps the key is the name inside the model, and the value the name inside the pipeline.",
            'step 2 reads input_map { key: "data_0" value: "enlarged" }.',
        ),
        proves="the key is the model's own name for a tensor, the value the pipeline's",
        repair=replacing(('key: "enlarged" value: "data_0"', 'key: "data_0" value: "enlarged"')),
        wrong=(
            WrongRepair(
                replacing(('key: "enlarged" value: "data_0"', 'key: "data_0" value: "data_0"')), "is not connected"
            ),
            WrongRepair(
                replacing(('key: "pixels" value: "enlarged"', 'key: "enlarged" value: "pixels"')), "is not connected"
            ),
        ),
    ),
    Fault(
        name="other_type",
        notebook="04",
        compact=True,
        subject=INK,
        story="Nothing is refused: a Python model was rewritten, and a client in another language reads nonsense.",
        symptom="ink arrives as FP64 [8, 1]",
        look=("1/model.py", "config.pbtxt"),
        inject=_other_type,
        hints=(
            "the configuration promises one type, the answer has another: Triton passes on what model.py returns.",
            "Python's float has 64 bits, and so has the array that NumPy makes of it.",
            "give np.array the type: dtype=np.float32.",
        ),
        proves="nobody checks what a Python model returns, so it has to keep its promises itself",
        repair=_in_code("for one in image])", "for one in image], dtype=np.float32)"),
        wrong=(
            WrongRepair(
                'mended = lab.config_path.read_text()\nhead, output = mended.split("output")\n'
                'lab.config_path.write_text(head + "output" + output.replace("FP32", "FP64"))',
                "clients were written for these tensors",
            ),
            WrongRepair(
                _in_code("for one in image])", "for one in image], dtype=np.float16)"),
                "ink arrives as FP16 [8, 1]",
            ),
            WrongRepair(_in_code("for one in image])", "for one in image]).view(np.float32)"), "FP32 [8, 2]"),
        ),
    ),
)
