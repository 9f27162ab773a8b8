"""Examples out of a fuzz of small configurations against the running server: where a linter is wrong at first."""

from __future__ import annotations

from tests.server.rule_examples import ECHO, HEAD, IN, OUT, PYTHON, SERVED, Example, changed, echo
from tests.server.rule_examples_ensembles import FIRST, GOOD, SECOND, broken, ensemble, step


def script(name: str, more: str, says: str) -> Example:
    return Example("python-model", name, PYTHON, make=lambda folder: echo(folder, ECHO + more), mend=echo, says=says)


def refused(rule: str, name: str, config: str, says: str = "", mended: str = PYTHON) -> Example:
    return Example(rule, name, config, mended, says=says)


COUNTED = 'batch_input [ { kind: BATCH_ELEMENT_COUNT target_name: "T" data_type: TYPE_FP32 source_input: [ "IN" ] } ]\n'
SCATTERED = 'batch_output [ { kind: BATCH_SCATTER_WITH_INPUT_SHAPE target_name: "OUT" source_input: "IN" } ]\n'
WARM = '{ key: "IN" value { data_type: TYPE_FP32 dims: [ 4 ] zero_data: true } }'
DELAY = "dynamic_batching { preserve_ordering: true default_queue_policy { timeout_action: DELAY } }\n"
LEVEL = (
    "dynamic_batching { preserve_ordering: true priority_levels: 1 default_priority_level: 1 priority_queue_policy "
    "{ key: 1 value { timeout_action: DELAY default_timeout_microseconds: 5 } } }\n"
)

FUZZED = (
    refused("text-encoding", "space", changed(": 8", ":\u00a08"), "failed to read text proto"),
    refused("text-encoding", "digit", changed("8", "\uff18"), "failed to read text proto"),
    refused("syntax", "plus", changed("8", "+8"), "failed to read text proto"),
    refused("syntax", "underscore", changed("8", "1_0"), "failed to read text proto"),
    refused("syntax", "octal", changed("8", "08"), "failed to read text proto"),
    refused("syntax", "trailing", changed("[ 4 ]", "[ 4, ]"), "failed to read text proto"),
    refused("field-twice", "block", PYTHON + "dynamic_batching { }\ndynamic_batching { }\n", "read text proto"),
    refused("unknown-field", "newer", PYTHON + "model_metrics { }\n", "failed to read text proto"),
    refused(
        "dims-value", "reshape", changed("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ -2, -2 ] }"), "integer >= 1"
    ),
    Example(
        "version-policy",
        "empty",
        PYTHON + "version_policy { specific { } }\n",
        PYTHON,
        says="at least one version",
        also=("version-folder",),
    ),
    refused("instance-group", "name", PYTHON + 'instance_group [ { name: "a b" } ]\n'),
    refused("extra-library", "agent", PYTHON + 'model_repository_agents { agents [ { name: "x" } ] }\n', "repo agent"),
    refused("extra-library", "runtime", PYTHON + 'runtime: "x.so"\n', "unable to find backend library"),
    refused("model-path", "dot", PYTHON + 'default_model_filename: "./model.py"\n', "No module named"),
    refused("batch-input", "type", PYTHON + COUNTED.replace("FP32", "INT64"), "must be TYPE_INT32", PYTHON + COUNTED),
    refused("batch-input", "two", PYTHON + COUNTED.replace('"IN"', '"IN", "IN"'), "expects 1 source", PYTHON + COUNTED),
    refused("batch-input", "target", PYTHON + SCATTERED.replace('"OUT"', '"X"'), "unknown target", PYTHON + SCATTERED),
    refused("queue-policy", "level", PYTHON + LEVEL, "DELAY", PYTHON + LEVEL.replace("preserve_ordering: true ", "")),
    script("init", "\n    def __init__(self, more):\n        self.more = more\n", "missing 1 required positional"),
    script("future", "from __future__ import annotations\n", "SyntaxError"),
    # served, and a linter might think otherwise
    Example(
        "warmup",
        "extra",
        PYTHON + f'model_warmup [ {{ name: "w" batch_size: 1 inputs {WARM} inputs {WARM.replace("IN", "MORE")} }} ]\n',
        PYTHON + f'model_warmup [ {{ name: "w" batch_size: 1 inputs {WARM} }} ]\n',
        SERVED,
    ),
    Example(
        "tensor-twice",
        "concat",
        PYTHON.replace('"python"', "'pyt' \"hon\"").replace("8", "0x8") + IN.replace("[ 4 ]", "4"),
        PYTHON + 'parameters { key: "a" } # end',
        SERVED,
    ),
    Example(
        "instance-group",
        "zero",
        PYTHON + "instance_group [ { count: 0 kind: KIND_CPU } ]\n",
        HEAD + IN.replace("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ 1, 4 ] }") + OUT + "instance_group [ ]\n",
        SERVED,
    ),
    broken(
        "ensemble-model-missing", "no_version", ensemble(FIRST.replace("model_version: -1", ""), SECOND), "version 0"
    ),
    broken(
        "ensemble-model-missing", "minus_two", ensemble(step("step", "RAW", "mid", version=-2), SECOND), "version -2"
    ),
    broken(
        "ensemble-shape",
        "reshape",
        GOOD.replace("dims: [ 4 ]", "dims: [ 4 ] reshape { shape: [ 2, 2 ] }", 1),
        "inconsistent shape",
        mended=GOOD + 'default_model_filename: "x"\nversion_policy { all { } }\n',
    ),
)
