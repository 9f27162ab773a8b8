"""Logs in words: the cases' logs, logs as people paste them, noise, and what nobody knows."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tests.unit.peak import run_measured
from tutorial_lib.cli import app
from tutorial_lib.errors import ServerError
from tutorial_lib.paths import CHECKOUT
from tutorial_lib.server.explain import explain_file, explain_log
from tutorial_lib.server.known_incidents import INCIDENTS
from tutorial_lib.server.known_troubles import KNOWN
from tutorial_lib.server.log import NOISE
from tutorial_lib.server.not_loaded import in_words

CASES = CHECKOUT / "tests" / "cases"
# case → the models its log condemns, with the rule that finds each beforehand
EXPECTED = {
    "01": {"shoe_net": "batch-in-dims"},
    "02": {"parcel_cls": "fixed-batch"},
    "06": {"upscaler": "output-narrower"},
    "08": {"box_finder": "unbatched-side-input"},
    "10": {"fraud_score": "rank-needs-reshape"},
    "11": {"beam_step": "scalar-dims"},
    "13": {"guided": "empty-dims"},
    "14": {"basket_rec": "wrong-data-type"},
    "16": {"sentiment": "unknown-tensor"},
    "17": {"old_export": "initializer-as-input"},
    "19": {"fresh_export": "model-too-new", "fresh_opset": "model-too-new"},
    "21": {"postproc": "placeholder"},
    "22": {"classifier": "unknown-field"},
    "23": {"detector": "missing-comma", "two_blocks": "missing-comma"},
    "24": {"from_json": "json-config", "half_json": "json-config", "yaml_list": "json-config"},
    "26": dict.fromkeys(
        ["b_onnx", "b_onnxruntime_onnx", "b_ort", "b_trtplan", "both_mixed", "p_onnx"], "unknown-backend"
    ),
    "27": {"cats_v2": "name-differs"},
    "29": {"pricing": "version-policy", "partly": "version-policy"},
    "30": {".git": "stray-folder", "__pycache__": "stray-folder"},
    "32": {"yolo": "model-file-name"},
    "33": {"pipeline": "ensemble-map", "pipeline_out": "ensemble-map"},
    "35": {"pipeline": "ensemble-type"},
    "36": {"pipeline": "ensemble-shape"},
    "37": dict.fromkeys(["pipeline", "pipeline_be", "pipeline_ig", "pipeline_warm"], "ensemble-scheduling"),
    "39": {"pipeline": "ensemble-model-missing", "broken": "python-package"},
    "41": dict.fromkeys(["w_nofile", "w_png", "w_wrong_dims", "w_wrong_key", "w_wrong_type"], "warmup"),
    "43": dict.fromkeys(
        ["neg_batch", "pref_no_max", "pref_too_big", "pref_zero", "two_schedulers"], "batching-contradiction"
    ),
    "44": dict.fromkeys(["g_auto", "g_cpu_with_gpus", "g_gpu", "g_gpu_id"], "instance-group"),
    "46": {"control_no_pair": "sequence-control"},
    "53": {"crash": "optional-input"},
    "55": {"unicode_dtype": "python-output"},
    "58": dict.fromkeys(["init_args", "no_class", "no_execute", "syntax"], "python-model") | {"init_raises": ""},
    "69": {"": ""},
    "70": {"": ""},
    "76": {"tagger_uint8": "wrong-data-type"},
}
NUMBERS = sorted(folder.name[:2] for folder in CASES.iterdir() if (folder / "observed.txt").exists())


def observed(number: str) -> str:
    return next(CASES.glob(f"{number}-*/observed.txt")).read_text()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_case_is_explained_model_by_model(number):
    found = explain_log(observed(number))
    assert {item.model: item.rule for item in found} == EXPECTED.get(number, {})
    assert all(item.known and item.cause and item.fix and item.line for item in found)
    assert not any(noise in item.line for item in found for noise in NOISE)


def test_the_guilty_line_is_the_logs_own():
    for number in EXPECTED:
        text = observed(number)
        for item in explain_log(text):
            for line in item.line.splitlines():
                assert line.strip('"') in text, f"{number}: {line}"


def test_protobufs_line_is_joined_with_the_poll_line_that_names_the_file():
    (item,) = explain_log(observed("21"))
    assert item.model == "postproc" and "config.pbtxt:3:17" in item.cause and "template was not rendered" in item.cause
    assert item.line.splitlines()[0].startswith("[libprotobuf ERROR") and "Poll failed" in item.line.splitlines()[1]


def test_two_parse_errors_belong_to_their_own_models_even_when_the_streams_were_sorted():
    lines = observed("23").splitlines()
    shuffled = [line for line in lines if "libprotobuf" in line] + [line for line in lines if "Poll failed" in line]
    found = {item.model: item.cause for item in explain_log("\n".join(shuffled))}
    assert "7:23" in found["detector"] and "5:3" in found["two_blocks"]


def test_a_file_with_two_lines_of_protobuf_does_not_shift_the_next():
    lines = []
    said = {
        "a": ["2:18: Numbers starting with leading zero must be in octal.", "2:17: Integer out of range (08)"],
        "b": ['6:18: Non-repeated field "dynamic_batching" is specified multiple times.'],
    }
    for model, errors in said.items():
        lines += [
            f"[libprotobuf ERROR t.cc:337] Error parsing text-format inference.ModelConfig: {one}" for one in errors
        ]
        lines.append(
            f"E1130 04:53:53.2 1 m.cc:1] \"Poll failed for model directory '{model}': failed to read text proto from "
            f'/models/{model}/config.pbtxt"'
        )
    found = {item.model: item for item in explain_log("\n".join(lines))}
    assert found.keys() == {"a", "b"}
    assert "config.pbtxt:2:18" in found["a"].cause and found["b"].rule == "field-twice"


def test_the_root_is_reported_once_and_the_ensembles_as_its_consequences():
    found = {item.model: item for item in explain_log(observed("39"))}
    assert found["broken"].consequences == ("pipeline2",) and "pipeline2" not in found
    assert "broken/1/model.py line 1" in found["broken"].cause and "not_installed_pkg" in found["broken"].cause
    only = "\n".join(line for line in observed("39").splitlines() if "depends on" in line)
    (root,) = explain_log(only)  # the root's own line is cut off
    assert (root.model, root.consequences, root.known) == ("broken", ("pipeline2",), True)


def test_wrapped_table_rows_are_enough_on_their_own():
    table = [line for line in observed("19").splitlines() if line.startswith("|")]
    found = {item.model: item for item in explain_log("\n".join(table))}
    assert "IR version 11" in found["fresh_export"].cause and "up to 10" in found["fresh_export"].cause
    assert found["fresh_opset"].rule == "model-too-new"


def test_a_version_that_is_missing_beside_one_that_serves_is_a_warning():
    found = {item.model: item for item in explain_log(observed("29"))}
    assert (found["partly"].severity, found["pricing"].severity) == ("warning", "error")


REAL = "\"failed to load 'net' version 1: Invalid argument: model input 'x' must specify 'dims' for net\""
PASTED = {
    "as it is": "E1130 04:53:53.212094 5417 model_lifecycle.cc:642] " + REAL,
    "older release": "E0612 07:34:54.123456 1 model_lifecycle.cc:638] " + REAL.strip('"'),
    "ISO 8601": "2024-06-12T07:34:54Z E 1 model_lifecycle.cc:642] " + REAL,
    "docker compose": "triton-1  | E1130 04:53:53.212094 1 model_lifecycle.cc:642] " + REAL,
    "docker logs -t": "2024-10-01T12:00:00.123456789Z E1130 04:53:53.212094 1 model_lifecycle.cc:642] " + REAL,
    "kubectl": "[pod/triton-0/server] 2024-10-01T12:00:00Z E1130 04:53:53.21 1 model_lifecycle.cc:642] " + REAL,
    "CRI": "2024-10-01T12:00:00.1+00:00 stderr F E1130 04:53:53.21 1 model_lifecycle.cc:642] " + REAL,
    "journal": "Nov 30 04:53:53 host docker[99]: E1130 04:53:53.212094 1 model_lifecycle.cc:642] " + REAL,
    "coloured": "\x1b[36mtriton-1  |\x1b[0m \x1b[31mE1130 04:53:53.212094 1 model_lifecycle.cc:642] "
    + REAL
    + "\x1b[0m",
    "Windows": "E1130 04:53:53.212094 1 model_lifecycle.cc:642] " + REAL + "\r",
    "front cut": "lifecycle.cc:642] " + REAL,
    "more cut": "ed to load 'net' version 1: Invalid argument: model input 'x' must specify 'dims'",
    "end cut": ("E1130 04:53:53.212094 5417 model_lifecycle.cc:642] " + REAL)[:-10],
    "table": "| net | 1 | UNAVAILABLE: Invalid argument: model input 'x' must specify 'dims' for net |",
}


@pytest.mark.parametrize("how", PASTED)
def test_however_it_was_pasted(how):
    before = "| Model | Version | Status |\n+---+---+---+\n" if how == "table" else "some words before\n\n"
    (item,) = explain_log(before + PASTED[how] + "\n")
    assert (item.model, item.rule, item.known) == ("net", "empty-dims", True)
    assert "'x'" in item.cause and "\x1b" not in item.line and item.line.strip('"')[-20:] in PASTED[how]


@pytest.mark.parametrize("number", [number for number in EXPECTED if number not in ("69", "70")])
def test_a_line_cut_anywhere_is_never_explained_wrongly(number):
    """Right, or said to be unknown; the model is named as long as its name is there."""
    lines = [line for line in observed(number).splitlines() if line.startswith("E ") and "'dims'" not in line]
    for line in lines:
        whole = explain_log(line)
        for end in range(len(line) - 1, 60, -7):
            for item in explain_log(line[:end]):
                rules = {other.rule for other in whole if other.model == item.model}
                assert item.rule in rules | {""}, line[:end]


def test_a_table_pasted_from_docker_compose():
    lines = [f"triton-1  | {line}" for line in observed("19").splitlines() if line.startswith("|")]
    assert {item.model for item in explain_log("\n".join(lines))} == {"fresh_export", "fresh_opset"}


def test_a_stack_of_an_older_release_goes_back_to_its_line():
    (item,) = explain_log(
        "E0612 07:34:54.1 1 model_lifecycle.cc:638] failed to load 'net' version 1: Internal: "
        "ModuleNotFoundError: No module named 'cv2'\n\nAt:\n  /models/net/1/model.py(7): <module>\n"
        "  <frozen importlib._bootstrap>(241): _call_with_frames_removed\nI0612 07:34:55.1 1 server.cc:1] fine\n"
    )
    assert "'cv2'" in item.cause and "/models/net/1/model.py line 7" in item.cause and "\n" not in item.line


def test_noise_and_consequences_are_never_a_cause():
    noise = [f'E1130 04:53:37.078288 5417 server.cc:241] "{text}"' for text in NOISE]
    noise += [
        "Error: Failed to initialize NVML",
        'E1130 04:55:09.5 1 ensemble_scheduler.cc:1468] "unable to create stream for mixed: CUDA driver version is '
        'insufficient for CUDA runtime version"',
        'W1130 04:55:20.4 1 metrics.cc:798] "DCGM unable to start: DCGM initialization error"',
        "WARNING: The NVIDIA Driver was not detected.  GPU functionality will not be available.",
        'E1130 04:55:20.4 1 tritonserver.cc:2607] "Internal: failed to load all models"',
        "error: creating server: Internal - failed to load all models",
    ]
    assert explain_log("\n".join(noise)) == []


GPU_CONTAINER = """
=============================
== Triton Inference Server ==
=============================
NVIDIA Release 24.10 (build 117436429)
Triton Server Version 2.51.0

NOTE: CUDA Forward Compatibility mode ENABLED.
  Using CUDA 12.6 driver version 560.35.03 with kernel driver version 535.183.01.

I1130 04:53:37.0 1 cuda_memory_manager.cc:107] "CUDA memory pool is created on device 0 with size 67108864"
CacheManager Init Failed. Error: -17
W1130 04:53:37.0 1 metrics.cc:811] "Unable to get power limit for GPU 0. Status:Success, value:0.000000"
W1130 04:53:37.0 1 metrics.cc:853] "Unable to get energy consumption for GPU 0. Status:Success, value:0"
Error: Failed to initialize NVML
E1130 04:53:37.1 1 metrics.cc:500] "Failed to initialize NVML: Unknown Error"
W1130 04:53:37.1 1 metrics.cc:628] "DCGM unable to start: DCGM initialization error"
W1130 04:53:37.1 1 memory_alloc.cc:189] "failed to allocate CUDA memory with byte size 602112 on GPU 0: falling back"
NvRmMemInitNvmap failed with Permission denied
ERROR: ld.so: object '/opt/x.so' from LD_PRELOAD cannot be preloaded: ignored.
"""


@pytest.mark.parametrize("prefix", ["", "triton-1  | ", "2024-10-01T12:00:00.123456789Z "])
def test_the_log_of_a_gpu_container_is_full_of_noise(prefix):
    plan = (
        'E1130 04:53:53.2 1 logging.cc:40] "1: [runtime.cpp::parsePlan::314] Error Code 1: Serialization"\n'
        "E1130 04:53:53.2 1 model_lifecycle.cc:642] \"failed to load 'trt' version 1: Internal: unable to load plan "
        'file to auto complete config: /models/trt/1/model.plan"\n'
    )
    quiet = "".join(f"{prefix}{line}\n" for line in GPU_CONTAINER.splitlines())
    assert explain_log(quiet) == []
    (item,) = explain_log(quiet + "".join(f"{prefix}{line}\n" for line in plan.splitlines()) + quiet)
    assert (item.model, item.rule, item.known) == ("trt", "plan-version", True) and "model.plan" in item.line


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("unable to load shared library: libcudnn.so.9: cannot open shared object file", "libcudnn.so.9"),
        ("onnx runtime error 6: CUDA failure 2: out of memory", "GPU's memory"),
        (
            "failed to open text file for read /models/net/config.pbtxt: No such file or directory",
            "wants a config.pbtxt",
        ),
    ],
)
def test_failures_of_a_model_beside_its_configuration(why, words):
    (item,) = explain_log(f"E1130 04:53:53.2 1 model_lifecycle.cc:642] \"failed to load 'net' version 1: {why}\"\n")
    assert (item.model, item.known) == ("net", True) and words in item.cause


def test_an_unknown_failure_is_quoted_as_unknown():
    text = "failed to load 'net' version 1: Internal: the flux capacitor is cold"
    (item,) = explain_log(f'E1130 04:53:53.2 5417 model_lifecycle.cc:642] "{text}"')
    assert (item.model, item.known, item.rule) == ("net", False, "") and text in item.line
    (item,) = explain_log('E1130 04:53:53.2 5417 strange.cc:1] "the flux capacitor is cold"')
    assert (item.model, item.known) == ("", False) and "flux capacitor" in item.line


def test_a_failure_whose_reason_is_cut_off_says_so():
    (item,) = explain_log("I1130 04:55:18.292719 12214 model_lifecycle.cc:777] \"failed to load 'net'\"")
    assert (item.model, item.known) == ("net", False) and "not why" in item.cause


def test_a_model_mended_later_is_no_failure():
    refused = "E1130 04:53:53.2 1 model_lifecycle.cc:642] " + REAL
    assert explain_log(refused + "\nI1130 04:54:00.1 1 model_lifecycle.cc:839] \"successfully loaded 'net'\"\n") == []


def test_a_request_that_fails_a_thousand_times_is_one_explanation():
    line = (
        "E1130 04:53:53.2 1 pb_stub.cc:714] \"Failed to process the request(s) for model 'crash_0_1', message: "
        "AttributeError: 'NoneType' object has no attribute 'as_numpy'\""
    )
    loading = 'I1130 04:53:50.1 1 model_lifecycle.cc:472] "loading: crash:1"\n'
    (item,) = explain_log(loading + f"{line}\n" * 1000)
    assert (item.model, item.count, item.rule) == ("crash", 1000, "optional-input") and "1,000 times" in str(item)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "E1130 04:53:53.2 1 m.cc:1] \"failed to start GRPC service: - Socket '[::]:8001' already in use\"",
            "GRPC",
        ),
        (
            'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
            "toolkit",
        ),
        ("tritonserver: error while loading shared libraries: libdcgm.so.3: cannot open", "libdcgm.so.3"),
        ("tritonserver: unrecognized option '--no-such-flag=1'", "--no-such-flag"),
        ("Signal (11) received.", "signal 11"),
        (
            "docker: Error response from daemon: Bind for 0.0.0.0:8000 failed: port is already allocated.",
            "publish a port",
        ),
        ("docker: Error response from daemon: manifest unknown.", "no image"),
        ("exec /opt/nvidia/nvidia_entrypoint.sh: exec format error", "processor"),
        ("Killed", "killed from outside"),
        ("terminate called after throwing an instance of 'std::out_of_range'", "64 bits"),
        ("terminate called after throwing an instance of 'std::length_error'", "label_filename"),
        (
            'E1130 04:53:53.2 1 logging.cc:40] "4: [runtime.cpp::parsePlan::314] Version tag does not match."',
            "TensorRT",
        ),
    ],
)
def test_failures_of_the_server_itself(text, words):
    (item,) = explain_log(text)
    assert item.model == "" and item.known and words in item.cause


UNLOADING = """
I1130 11:55:02.912057 26869 server.cc:305] "Waiting for in-flight requests to complete."
I1130 11:55:02.912292 26869 server.cc:336] "All models are stopped, unloading models"
I1130 11:55:05.298670 26869 model_lifecycle.cc:624] "successfully unloaded 'net' version 1"
"""
TOO_LATE = (
    'E1130 11:55:06.4 9 main.cc:535] "failed to stop server: Internal - Exit timeout expired. Exiting immediately."'
)


@pytest.mark.parametrize("number", [2, 15])
@pytest.mark.parametrize("late", [False, True])
def test_a_server_that_was_stopped_has_not_failed(number, late, tmp_path):
    log = tmp_path / "triton.log"
    log.write_text(f"Signal ({number}) received.{UNLOADING}{TOO_LATE if late else ''}\n")
    (item,) = explain_file(log)
    assert item.severity == "warning" and item.known and f"it was stopped (signal {number})" in item.cause
    assert ("exit timeout" in item.cause) is late and "crash" not in item.cause
    assert ("Exit timeout expired" in item.line) is late
    assert CliRunner().invoke(app, ["explain", str(log)]).exit_code == 0


def test_a_stop_hides_no_failure_before_it():
    refused, stopped = explain_log(f"{PASTED['as it is']}\nSignal (15) received.{UNLOADING}")
    assert refused.model == "net" and refused.severity == "error" and stopped.severity == "warning"
    assert "signal 11" in explain_log(f"Signal (11) received.{UNLOADING}")[0].cause


def test_memory_does_not_grow_with_the_log(tmp_path):
    """100 MB, a line of 5 MB and a million failing requests included, in an address space of 400 MB."""
    log = tmp_path / "large.log"
    line = 'I1130 04:53:53.2 1 http_server.cc:4522] "HTTP request: 2 /v2/models/net/infer ' + "x" * 900 + '"\n'
    bad = (
        "E1130 04:53:53.2 1 pb_stub.cc:714] \"Failed to process the request(s) for model 'net_0', message: Bad: {}\"\n"
    )
    with log.open("w") as file:
        for number in range(100):
            file.write(line * 1000)
            file.write("".join(bad.format(number * 300 + n) for n in range(300)))
        file.write("y" * 5_000_000 + "\n" + PASTED["as it is"] + "\n")
    assert log.stat().st_size > 100_000_000
    code = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (400 * 2**20,) * 2)
from tutorial_lib.server.explain import explain_file
print(len(explain_file(sys.argv[1])), peak_kib())
"""
    count, peak_kib = map(int, run_measured(code, str(log)).split())
    assert count >= 2 and peak_kib < 200 * 1024


def test_bytes_that_are_not_text(tmp_path):
    log = tmp_path / "odd.log"
    log.write_bytes(b"\xff\xfe\x00 odd\n" + PASTED["as it is"].encode() + b"\n")
    assert [item.model for item in explain_file(log)] == ["net"]
    with pytest.raises(ServerError, match="No such file"):
        explain_file(tmp_path / "gone.log")


def test_the_launchers_words_hold_reason_cause_and_fix():
    log = explain_log(PASTED["as it is"])
    said = in_words("net", "Invalid argument: model input 'x' must specify 'dims' for net", log)
    assert said.splitlines()[0] == "'net': Invalid argument: model input 'x' must specify 'dims' for net"
    assert "in words: input 'x' has no dims" in said and "fix: Write dims" in said
    assert "template was not rendered" in in_words("postproc", "", explain_log(observed("21")))
    assert "needs 'broken'" in in_words("pipeline2", "", explain_log(observed("39")))
    assert in_words("other", "", []) == "'other': the log does not say why"


def test_the_command(tmp_path):
    (tmp_path / "t.log").write_text(PASTED["as it is"])
    run = CliRunner().invoke
    told = run(app, ["explain", str(tmp_path / "t.log")])
    assert told.exit_code == 1 and "net: input 'x' has no dims" in told.output and "rule  empty-dims" in told.output
    (item,) = json.loads(run(app, ["explain", "--json", str(tmp_path / "t.log")]).output)
    assert (item["model"], item["rule"], item["severity"]) == ("net", "empty-dims", "error")
    (tmp_path / "t.log").write_text("all is well\n")
    told = run(app, ["explain", str(tmp_path / "t.log")])
    assert told.exit_code == 0 and "Nothing failed" in told.output
    assert run(app, ["explain", str(tmp_path / "gone.log")]).exit_code == 2
    assert run(app, ["explain", "-"], input=PASTED["docker compose"]).exit_code == 1


def test_every_kind_of_message_can_be_put_into_words():
    for known in (*KNOWN, *INCIDENTS):
        groups = dict.fromkeys(known.pattern.groupindex, "x")
        assert "{x}" not in known.cause.format(**groups) and known.fix.format(**groups)
