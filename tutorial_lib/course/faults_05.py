"""The faults of notebook 05: what goes wrong when a repository meets a machine."""

from __future__ import annotations

from pathlib import Path

from tutorial_lib.course.fault import Fault, WrongRepair, edit_config, replacing
from tutorial_lib.repository.config import read_config


def _kind_gpu(model: Path) -> None:
    edit_config(model, ("KIND_AUTO", "KIND_GPU"))


def _only_cpu(model: Path) -> str:
    groups = read_config(model).instance_group
    if any(group.kind == group.KIND_CPU for group in groups):
        return "back on the workstation it would leave the GPU idle: which kind lets the server choose?"
    return ""


def _cut_model_file(model: Path) -> None:
    path = model / "1" / "model.onnx"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])


FAULTS = (
    Fault(
        name="kind_gpu",
        notebook="05",
        story="The repository comes from a workstation and was copied to a machine without a GPU.",
        symptom="has kind KIND_GPU but",
        look=("config.pbtxt",),
        inject=_kind_gpu,
        hints=(
            "the sentence names the instance group: who decides where its instances run? Every kind is written KIND_….",
            "a kind for this machine only would have to be changed again on the next; one kind suits both.",
            "kind: KIND_AUTO takes a GPU where there is one.",
        ),
        gives_up=_only_cpu,
        proves="one repository serves both machines when the server may choose",
        repair=replacing(("KIND_GPU", "KIND_AUTO")),
        wrong=(
            WrongRepair(replacing(("kind: KIND_GPU", "kind: KIND_GPU\n    gpus: [ 0 ]")), "unsupported gpu id 0"),
            WrongRepair(replacing(("KIND_GPU", "KIND_CPU")), "would leave the GPU idle"),
            WrongRepair(replacing(("KIND_GPU", "KIND_CPU"), ("dynamic_batching { }", "")), "requests share runs"),
        ),
    ),
    Fault(
        name="cut_model_file",
        notebook="05",
        story="The connection broke while the model was copied.",
        symptom="Protobuf parsing failed",
        look=("1/model.onnx",),
        inject=_cut_model_file,
        hints=(
            "the sentence names a file that cannot be read to its end: how large is it, how large should it be?",
            "no edit brings back bytes that are missing: copy the whole file again.",
            "notebook 02 left the whole file in space.exports; copy it over 1/model.onnx.",
        ),
        proves="the file is whole again: the server answers as ONNX Runtime does on the good file",
        repair=(
            'mended = lab.model / "1" / "model.onnx"\nshutil.copyfile(space.exports / "densenet_onnx.onnx", mended)'
        ),
        wrong=(
            WrongRepair(
                'mended = lab.model / "1" / "model.onnx"\nwith mended.open("ab") as file:\n'
                '    file.write(bytes((space.exports / "densenet_onnx.onnx").stat().st_size - mended.stat().st_size))',
                "Protobuf parsing failed",
            ),
            WrongRepair(
                'mended = lab.model / "2"\nmended.mkdir()\n'
                'shutil.copyfile(lab.model / "1" / "model.onnx", mended / "model.onnx")',
                "Protobuf parsing failed",
            ),
            WrongRepair(
                'import onnx\n\nmended = onnx.load(space.exports / "densenet_onnx.onnx")\n'
                "weights = max(mended.graph.initializer, key=lambda tensor: len(tensor.raw_data))\n"
                "weights.raw_data = bytes(len(weights.raw_data))\n"
                'onnx.save(mended, lab.model / "1" / "model.onnx")',
                "the same answers as the good file",
            ),
        ),
    ),
)
