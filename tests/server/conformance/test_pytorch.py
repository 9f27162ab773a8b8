"""The embedded PyTorch backend against torch itself, and against what the C++ backend says."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

from tests.server.conformance.channels import CHANNELS, ask, said
from tests.server.conftest import rounds_until_together, save_double
from tutorial_lib.server import serve
from tutorial_lib.server.heal import instances

X, Y = np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 2, np.float32)


class Affine(torch.nn.Module):
    def forward(self, x, y):
        return x - 2 * y, x * y


class ByName(torch.nn.Module):
    def forward(self, values: dict[str, torch.Tensor]):
        return values["left"] - values["right"]


class Words(torch.nn.Module):
    def forward(self, words: list[str]) -> list[str]:
        return [word + "!" for word in words]


class Lengths(torch.nn.Module):
    """TorchScript counts the bytes of UTF-8, not the letters."""

    def forward(self, words: list[str]):
        return torch.tensor([len(word) for word in words])


class Same(torch.nn.Module):
    def forward(self, x):
        return x


class Lookup(torch.nn.Module):
    """Throws for a row that is not in its table."""

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.arange(8.0).reshape(4, 2))

    def forward(self, row):
        return self.table[row[:, 0]]


class NonZero(torch.nn.Module):
    def forward(self, x):
        return torch.nonzero(x)


class Sum(torch.nn.Module):
    def forward(self, x):
        return x.sum()


class Flat(torch.nn.Module):
    def forward(self, x):
        return x.reshape(x.shape[0], -1)


class Many(torch.nn.Module):
    def forward(self, a, b, c, d, e, f, g, h):
        return a, b, c, d, e, f, g, h


class Grad(torch.nn.Module):
    """Says whether it runs without autograd's bookkeeping."""

    def forward(self, x):
        return torch.full_like(x, float(x.is_inference()))


class TwoDictionaries(torch.nn.Module):
    def forward(self, x, y: dict[str, torch.Tensor]):
        return x + y["y"]


class Number(torch.nn.Module):
    def forward(self, x, times: int):
        return x * times


def entry(name: str, kind: str, dims: str, more: str = "") -> str:
    return f'{{ name: "{name}" data_type: TYPE_{kind} dims: [ {dims} ] {more} }}'


def config(inputs: list[str], outputs: list[str], more: str = "max_batch_size: 8") -> str:
    backend = "" if "backend:" in more or "platform:" in more else 'backend: "pytorch"'
    return f"{backend} {more} input [ {', '.join(inputs)} ] output [ {', '.join(outputs)} ]"


def parameter(name: str, value: str) -> str:
    return f' max_batch_size: 8 parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}'


XY = [entry("x", "FP32", "3"), entry("y", "FP32", "3")]
ONE_IN, ONE_OUT = [entry("INPUT__0", "FP32", "3")], [entry("OUTPUT__0", "FP32", "3")]
TWO_OUT = [entry("OUTPUT__0", "FP32", "3"), entry("OUTPUT__1", "FP32", "3")]
DELAY = "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 300000 } instance_group [ { count: 1 } ]"
TYPES = {
    "BOOL": np.bool_, "UINT8": np.uint8, "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    "FP32": np.float32, "FP64": np.float64,
}  # fmt: skip


class Served(NamedTuple):
    """A model that loads: module, config.pbtxt, a request and the answer that torch or numpy gives."""

    module: torch.nn.Module
    config: str
    feeds: dict
    answers: dict


def row(module, text, feeds, answers) -> Served:
    return Served(module, text, feeds, answers)


WORDS = np.array([b"a", "häßlich".encode(), b""], dtype=object)
SERVED = {
    "by_index": row(
        Affine(), config([entry("INPUT__1", "FP32", "3"), entry("INPUT__0", "FP32", "3")], TWO_OUT),
        {"INPUT__0": X, "INPUT__1": Y}, {"OUTPUT__0": X - 2 * Y, "OUTPUT__1": X * Y},
    ),
    "outputs_by_index": row(
        Affine(), config(XY, [entry("b__1", "FP32", "3"), entry("a__0", "FP32", "3")]),
        {"x": X, "y": Y}, {"a__0": X - 2 * Y, "b__1": X * Y},
    ),
    "by_argument": row(
        Affine(), config(XY[::-1], TWO_OUT), {"y": Y, "x": X}, {"OUTPUT__0": X - 2 * Y, "OUTPUT__1": X * Y},
    ),
    "by_order": row(
        Affine(), config([entry("first", "FP32", "3"), entry("second", "FP32", "3")],
                         [entry("difference", "FP32", "3"), entry("product", "FP32", "3")]),
        {"second": Y, "first": X}, {"difference": X - 2 * Y, "product": X * Y},
    ),
    "no_number_behind_the_separator": row(
        Affine(), config([entry("a__left", "FP32", "3"), entry("b__right", "FP32", "3")],
                         [entry("a__out", "FP32", "3"), entry("b__out", "FP32", "3")]),
        {"a__left": X, "b__right": Y}, {"a__out": X - 2 * Y, "b__out": X * Y},
    ),
    "fewer_outputs_than_the_model_gives": row(
        Affine(), config(XY, [entry("OUTPUT__1", "FP32", "3")]), {"x": X, "y": Y}, {"OUTPUT__1": X * Y},
    ),
    "dictionary": row(
        ByName(), config([entry("right", "FP32", "3"), entry("left", "FP32", "3")], ONE_OUT),
        {"left": X, "right": Y}, {"OUTPUT__0": X - Y},
    ),
    "platform": row(Same(), config(ONE_IN, ONE_OUT, 'platform: "pytorch_libtorch" max_batch_size: 8'),
                    {"INPUT__0": X}, {"OUTPUT__0": X}),
    "backend_and_platform": row(
        Same(), config(ONE_IN, ONE_OUT, 'backend: "pytorch" platform: "pytorch_libtorch" max_batch_size: 8'),
        {"INPUT__0": X}, {"OUTPUT__0": X},
    ),
    "no_batch": row(Same(), config([entry("INPUT__0", "FP32", "2, 3")], [entry("OUTPUT__0", "FP32", "2, 3")], ""),
                    {"INPUT__0": X}, {"OUTPUT__0": X}),
    "open_axis": row(Same(), config([entry("INPUT__0", "FP32", "-1")], [entry("OUTPUT__0", "FP32", "-1")]),
                     {"INPUT__0": X}, {"OUTPUT__0": X}),
    "reshape": row(
        Flat(), config([entry("INPUT__0", "FP32", "6", "reshape { shape: [ 2, 3 ] }")],
                       [entry("OUTPUT__0", "FP32", "6")]),
        {"INPUT__0": np.arange(12, dtype=np.float32).reshape(2, 6)},
        {"OUTPUT__0": np.arange(12, dtype=np.float32).reshape(2, 6)},
    ),
    "empty_reshape": row(
        Same(), config([entry("INPUT__0", "FP32", "1", "reshape { shape: [ ] }")],
                       [entry("OUTPUT__0", "FP32", "1", "reshape { shape: [ ] }")]),
        {"INPUT__0": X[:, :1]}, {"OUTPUT__0": X[:, :1]},
    ),
    "words": row(
        Words(), config([entry("words", "STRING", "1", "reshape { shape: [ ] }")],
                        [entry("OUTPUT__0", "STRING", "1", "reshape { shape: [ ] }")]),
        {"words": WORDS[:, None]}, {"OUTPUT__0": np.array([w + b"!" for w in WORDS], dtype=object)[:, None]},
    ),
    "words_without_batch": row(
        Lengths(), config([entry("INPUT__0", "STRING", "-1")], [entry("OUTPUT__0", "INT64", "-1")], ""),
        {"INPUT__0": WORDS}, {"OUTPUT__0": np.array([1, 9, 0])},
    ),
    "inference_mode": row(Grad(), config(ONE_IN, ONE_OUT), {"INPUT__0": X}, {"OUTPUT__0": np.ones_like(X)}),
    "inference_mode_off": row(Grad(), config(ONE_IN, ONE_OUT, parameter("INFERENCE_MODE", "false")),
                              {"INPUT__0": X}, {"OUTPUT__0": np.zeros_like(X)}),
    "not_optimized": row(Same(), config(ONE_IN, ONE_OUT, parameter("DISABLE_OPTIMIZED_EXECUTION", "1")),
                         {"INPUT__0": X}, {"OUTPUT__0": X}),
    "switches": row(
        Affine(), config(XY, TWO_OUT, "max_batch_size: 8 " + " ".join(
            f'parameters {{ key: "{name}" value {{ string_value: "{value}" }} }}' for name, value in [
                ("ENABLE_TENSOR_FUSER", "off"), ("ENABLE_JIT_PROFILING", "False"), ("ENABLE_JIT_EXECUTOR", "0"),
                ("ENABLE_WEIGHT_SHARING", "true"), ("ENABLE_CACHE_CLEANING", "on"), ("INTER_OP_THREAD_COUNT", "2")])),
        {"x": X, "y": Y}, {"OUTPUT__0": X - 2 * Y, "OUTPUT__1": X * Y},
    ),
    "not_contiguous": row(
        torch.nn.Flatten(0, 0), config([entry("INPUT__0", "FP32", "3")], ONE_OUT), {"INPUT__0": X}, {"OUTPUT__0": X},
    ),
    "half": row(Same(), config([entry("INPUT__0", "FP16", "3")], [entry("OUTPUT__0", "FP16", "3")]),
                {"INPUT__0": X.astype(np.float16)}, {"OUTPUT__0": X.astype(np.float16)}),
    "types": row(
        Many(), config([entry(f"INPUT__{n}", kind, "3") for n, kind in enumerate(TYPES)],
                       [entry(f"OUTPUT__{n}", kind, "3") for n, kind in enumerate(TYPES)]),
        {f"INPUT__{n}": X.astype(kind) for n, kind in enumerate(TYPES.values())},
        {f"OUTPUT__{n}": X.astype(kind) for n, kind in enumerate(TYPES.values())},
    ),
}  # fmt: skip

STATE = (
    'max_batch_size: 8 sequence_batching { state [ { input_name: "s" output_name: "t" data_type: TYPE_FP32 '
    "dims: [ 1 ] } ] }"
)
BATCH_INPUT = (
    'max_batch_size: 8 batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: "c" data_type: TYPE_FP32 '
    'source_input: "INPUT__0" } ]'
)
BATCH_OUTPUT = (
    'max_batch_size: 8 batch_output [ { target_name: "OUTPUT__0" kind: BATCH_SCATTER_WITH_INPUT_SHAPE '
    'source_input: "INPUT__0" } ]'
)
# name → (module or the bytes of model.pt, config.pbtxt, what the reason says)
BROKEN = {
    "too_many_inputs": (Same(), config(XY, ONE_OUT),
                        "unable to load model 'too_many_inputs', configuration expects 2 inputs, model provides 1"),
    "too_few_inputs": (Affine(), config(XY[:1], TWO_OUT), "configuration expects 1 inputs, model provides 2"),
    "one_argument_twice": (Affine(), config([entry("a__0", "FP32", "3"), entry("b__0", "FP32", "3")], TWO_OUT),
                           r"a__0, b__0 stand for arguments \[0, 0\] of forward, which has 0 to 1"),
    "two_dictionaries": (TwoDictionaries(), config(XY, ONE_OUT), "Multiple inputs of kind DictType were detected"),
    "plain_number": (Number(), config(XY, ONE_OUT), "An input of type 'int' was detected in the model"),
    "unsigned": (Same(), config([entry("INPUT__0", "UINT16", "3")], ONE_OUT),
                 "unsupported datatype TYPE_UINT16 for input 'INPUT__0' for model 'unsigned'"),
    "brain_float": (Same(), config(ONE_IN, [entry("OUTPUT__0", "BF16", "3")]),
                    "unsupported datatype TYPE_BF16 for output 'OUTPUT__0'"),
    "table_of_words": (Words(), config([entry("INPUT__0", "STRING", "2, 2")], [entry("OUTPUT__0", "STRING", "-1")], ""),
                       "only supports 1 dimensional List of String as input for 'INPUT__0'"),
    "no_file": (None, config(ONE_IN, ONE_OUT), "unable to find '.*/no_file/1/model.pt' for model instance 'no_file'"),
    "outside": (Same(), config(ONE_IN, ONE_OUT, 'max_batch_size: 8 default_model_filename: "../model.pt"'),
                "outside the version folder"),
    "gpu": (Same(), config(ONE_IN, ONE_OUT, "max_batch_size: 8 instance_group [ { kind: KIND_GPU gpus: [ 0 ] } ]"),
            "gpu"),
    "bad_switch": (Same(), config(ONE_IN, ONE_OUT, parameter("INFERENCE_MODE", "maybe")),
                   "failed to convert 'maybe' to boolean"),
    "bad_number": (Same(), config(ONE_IN, ONE_OUT, parameter("INTRA_OP_THREAD_COUNT", "all")),
                   "failed to convert 'all' to integral number"),
    "state": (Same(), config(ONE_IN, ONE_OUT, STATE), "sequence state is not supported on this tier"),
    "batch_input": (Same(), config(ONE_IN, ONE_OUT, BATCH_INPUT), "batch_input and batch_output are not supported"),
    "batch_output": (Same(), config(ONE_IN, ONE_OUT, BATCH_OUTPUT), "batch_input and batch_output are not supported"),
    "no_outputs": (Same(), f"backend: \"pytorch\" max_batch_size: 8 input [ {ONE_IN[0]} ]", "output"),
    "empty_file": (b"", config(ONE_IN, ONE_OUT), "failed to load model 'empty_file'.*an empty file"),
    "not_an_archive": (b"hello" * 100, config(ONE_IN, ONE_OUT), "no TorchScript archive"),
    "lfs_pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", config(ONE_IN, ONE_OUT),
                    "a Git LFS pointer"),
    "old_pickle": (b"\x80\x02}q\x00.", config(ONE_IN, ONE_OUT), "a pickle, .* never loaded here"),
    "state_dict": ("state_dict", config(ONE_IN, ONE_OUT), "a checkpoint of torch.save, such as a state_dict"),
    "cut_off": ("cut", config(ONE_IN, ONE_OUT), "an archive that is cut off"),
    "exported_program": ("pt2", config(ONE_IN, ONE_OUT), r"a torch.export program \(.pt2\)"),
}  # fmt: skip


def save(path: Path, module) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(module, bytes):
        path.write_bytes(module)
    elif module == "state_dict":
        torch.save(Lookup().state_dict(), path)
    elif module == "pt2":
        torch.export.save(torch.export.export(Same(), (torch.ones(2, 3),)), path)
    elif module == "cut":
        torch.jit.script(Lookup()).save(str(path))
        path.write_bytes(path.read_bytes()[:-400])
    elif module is not None:
        torch.jit.script(module).save(str(path))


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("pytorch")
    for name, served in SERVED.items():
        save(root / name / "1" / "model.pt", served.module)
        (root / name / "config.pbtxt").write_text(served.config)
    others = {
        "lookup": (Lookup(), config([entry("row", "INT64", "1")], [entry("OUTPUT__0", "FP32", "2")], DELAY)),
        "nonzero": (NonZero(), config(ONE_IN, [entry("OUTPUT__0", "INT64", "2")], DELAY)),
        "linear": (torch.nn.Linear(64, 10), config([entry("input", "FP32", "64")], [entry("OUTPUT__0", "FP32", "10")],
                                                   DELAY)),
        "wrong_type": (Same(), config(ONE_IN, [entry("OUTPUT__0", "INT64", "3")])),
        "no_such_output": (Same(), config(ONE_IN, [entry("OUTPUT__3", "FP32", "3")])),
        "scalar": (Sum(), config(ONE_IN, ONE_OUT)),
        "other_dims": (Same(), config(ONE_IN, [entry("OUTPUT__0", "FP32", "7")])),
        "tensors_in_a_list": (Pieces(), config(ONE_IN, ONE_OUT)),
        "versions": (Same(), config(ONE_IN, ONE_OUT, "max_batch_size: 8 version_policy: { all { } }")),
        "own_name": (None, config(ONE_IN, ONE_OUT, 'max_batch_size: 8 default_model_filename: "net.pt"')),
        "three_threads": (Busy(), config(ONE_IN, ONE_OUT, parameter("INTRA_OP_THREAD_COUNT", "3"))),
        "one_thread": (Busy(), config(ONE_IN, ONE_OUT, parameter("INTRA_OP_THREAD_COUNT", "1"))),
    }  # fmt: skip
    for name, (module, text) in others.items():
        save(root / name / "1" / "model.pt", module)
        (root / name / "config.pbtxt").write_text(text)
    save(root / "versions" / "2" / "model.pt", Negative())
    save(root / "own_name" / "1" / "net.pt", Negative())
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a model that does not load would warn
        with serve(root, startup_timeout_s=900) as running:
            yield running


class Pieces(torch.nn.Module):
    def forward(self, x):
        return [x, x]


class Busy(torch.nn.Module):
    def forward(self, x):
        return x + torch.ones(4_000_000).exp().sum()


class Negative(torch.nn.Module):
    def forward(self, x):
        return -x


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    root = tmp_path_factory.mktemp("broken")
    for name, (module, text, _) in BROKEN.items():
        (root / name / "1").mkdir(parents=True)
        save(root / name / "1" / "model.pt", module)
        (root / name / "config.pbtxt").write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = serve(root, startup_timeout_s=900)
    with server:
        yield server


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("name", SERVED)
def test_answers_as_torch_does(server, name, channel):
    served = SERVED[name]
    if channel == "json" and name == "half":
        pytest.skip("Triton's JSON has no FP16 (case 62)")
    answers = ask(server, name, served.feeds, list(served.answers), channel=channel)
    for output, expected in served.answers.items():
        assert answers[output].shape == expected.shape
        assert np.array_equal(answers[output], expected), (answers[output], expected)
        assert answers[output].dtype == expected.dtype


@pytest.mark.parametrize("name", BROKEN)
def test_refuses(broken, name):
    state, reason = broken.models().set_index("name").loc[name, ["state", "reason"]]
    assert state == "UNAVAILABLE"
    assert re.search(BROKEN[name][2], reason), reason


def test_a_file_that_is_no_torchscript_says_how_to_make_one(broken):
    for name in ("empty_file", "state_dict", "exported_program", "old_pickle"):
        assert "torch.jit.save(torch.jit.trace(model.eval(), example)" in broken.models().set_index("name").reason[name]


@pytest.mark.parametrize(
    ("name", "rule", "words"),
    [
        ("state_dict", "torchscript-file", "no TorchScript"),
        ("cut_off", "torchscript-file", "no TorchScript"),
        ("one_argument_twice", "torchscript-tensors", "a__0, b__0"),
        ("no_file", "model-file-name", "not where Triton looks"),
        ("plain_number", "", "something else than tensors"),
    ],
)
def test_the_log_in_words(broken, name, rule, words):
    found = {item.model: item for item in broken.explain()}[name]
    assert found.known and found.rule == rule and words in found.cause


def test_completing_a_configuration_is_refused_in_the_log(server):
    assert "skipping model configuration auto-complete for 'by_order': not supported for pytorch backend" in (
        server.process.log_text()
    )


def test_the_log_says_which_names_fall_back_to_order(server):
    log = server.process.log_text()
    assert "input 'a__left' or previous input(s) are neither an input argument" in log
    assert "output 'a__out' or previous output(s) of the model" in log
    assert "input 'first'" not in log  # without the separator the C++ backend is silent, too
    assert "Inference Mode is disabled for model instance 'inference_mode_off'" in log


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("wrong_type", "configuration expects datatype TYPE_INT64 for output 'OUTPUT__0', model provides TYPE_FP32"),
        ("no_such_output", "refers to an output index which doesn't exist. This model has 1 outputs"),
        ("scalar", "output 'OUTPUT__0' is a scalar which is not supported."),
        ("tensors_in_a_list", "output must be of type Tensor or List[str], received List[Tensor]"),
    ],
)
def test_what_shows_only_when_it_runs(server, name, reason, channel):
    output = "OUTPUT__3" if name == "no_such_output" else "OUTPUT__0"
    assert reason in said(lambda: ask(server, name, {"INPUT__0": X}, [output], channel=channel))


@pytest.mark.parametrize("channel", CHANNELS)
def test_an_error_of_the_model_names_it(server, channel):
    said_so = said(lambda: ask(server, "lookup", {"row": np.array([[9]])}, ["OUTPUT__0"], channel=channel))
    assert "PyTorch execute failure: " in said_so and "out of" in said_so


def test_a_faulty_request_is_answered_alone(server):
    def one(index: int):
        answer = {}
        reason = said(lambda: answer.update(ask(server, "lookup", {"row": np.array([[index]])}, ["OUTPUT__0"],
                                                channel="grpc")))  # fmt: skip
        return reason or answer["OUTPUT__0"].ravel().tolist()

    for answers in rounds_until_together(server, "lookup", [0, 1, 99, 2, 3], one):
        assert [answers[0], answers[1], answers[3], answers[4]] == [[0, 1], [2, 3], [4, 5], [6, 7]]
        assert "PyTorch execute failure" in answers[2]


def test_a_batch_is_formed_and_split_again(server):
    module = torch.jit.load(str(server.repositories[0] / "linear" / "1" / "model.pt"))
    parts = [np.random.default_rng(n).random((1 + n % 3, 64), np.float32) for n in range(9)]
    for answers in rounds_until_together(
        server, "linear", parts, lambda x: ask(server, "linear", {"input": x}, ["OUTPUT__0"], channel="http")
    ):
        for part, answer in zip(parts, answers, strict=True):
            expected = module(torch.from_numpy(part)).detach().numpy()
            np.testing.assert_allclose(answer["OUTPUT__0"], expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "lines", [([1, 0, 0], [0, 5, 7], [0, 0, 0], [1, 2, 3]), ([5, 5, 0], [0, 0, 0])], ids=["wrong sum", "right sum"]
)
def test_clients_never_get_each_others_rows(server, lines):
    asked = [np.array([line], np.float32) for line in lines]
    for answers in rounds_until_together(
        server, "nonzero", asked, lambda x: ask(server, "nonzero", {"INPUT__0": x}, ["OUTPUT__0"], channel="grpc")
    ):
        for x, answer in zip(asked, answers, strict=True):
            assert answer["OUTPUT__0"].tolist() == np.transpose(np.nonzero(x)).tolist()


def test_dims_of_an_output_are_not_compared_with_what_comes_out(server):
    for channel in CHANNELS:
        assert ask(server, "other_dims", {"INPUT__0": X}, ["OUTPUT__0"], channel=channel)["OUTPUT__0"].shape == X.shape


def test_several_versions_and_a_file_of_another_name(server):
    assert (
        ask(server, "own_name", {"INPUT__0": X}, ["OUTPUT__0"], channel="http")["OUTPUT__0"].tolist() == (-X).tolist()
    )
    assert (
        ask(server, "versions", {"INPUT__0": X}, ["OUTPUT__0"], channel="http")["OUTPUT__0"].tolist() == (-X).tolist()
    )
    assert {entry["version"] for entry in server.control.index() if entry["name"] == "versions"} == {"1", "2"}


def test_threads_reach_torch(server):
    """torch makes its threads, of one pool or two, at the first operation that is worth them."""
    count = {}
    for name in ("three_threads", "one_thread"):
        ask(server, name, {"INPUT__0": X}, ["OUTPUT__0"], channel="http")
        count[name] = max(each.num_threads() for each in instances(server, name))
    assert count["three_threads"] - count["one_thread"] in (2, 4)


def test_onnx_runtime_and_torch_side_by_side(tmp_path):
    """The comparison the course makes: one server, one question, two engines."""
    save_double(tmp_path / "double_ort" / "1" / "model.onnx")
    save(tmp_path / "double_torch" / "1" / "model.pt", Twice())
    (tmp_path / "double_torch" / "config.pbtxt").write_text(
        config([entry("x", "FP32", "3")], [entry("OUTPUT__0", "FP32", "3")])
    )
    with serve(tmp_path) as server:
        for channel in CHANNELS:
            ours = ask(server, "double_ort", {"x": X}, ["y"], channel=channel)["y"]
            theirs = ask(server, "double_torch", {"x": X}, ["OUTPUT__0"], channel=channel)["OUTPUT__0"]
            assert ours.tolist() == theirs.tolist() == (2 * X).tolist()


class Twice(torch.nn.Module):
    def forward(self, x):
        return 2 * x
