"""Batch sizes and the scheduler's settings."""

from __future__ import annotations

from collections.abc import Iterator

from tritonclient.grpc.model_config_pb2 import ModelQueuePolicy

from tutorial_lib.repository import syntax
from tutorial_lib.repository.config_text import shape_text
from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.view import ModelView

LESSON = "04#fields-question"
LONG_DELAY_US = 5000
# backends that run a batch as one; a Python model may take the requests one by one
BATCHING_BACKENDS = ("onnxruntime", "tensorrt", "pytorch", "tensorflow", "openvino")


@rule(
    "batching-contradiction",
    severity="error",
    lesson=LESSON,
    why="Triton refuses settings that cannot be true together.",
)
def batching_contradiction(model: ModelView) -> Iterator[Problem]:
    found = syntax.diagnose(model)
    if found is not None and found.rule == "batching-contradiction":
        yield found.problem
    config, most = model.config, model.config.max_batch_size
    if most < 0:
        yield Problem(
            "", f"max_batch_size: {most}", "0 (no batching) or more", "Write max_batch_size: 0.", at="max_batch_size"
        )
    schedulers = (
        ("dynamic_batching.preferred_batch_size", config.dynamic_batching.preferred_batch_size),
        ("sequence_batching.oldest.preferred_batch_size", config.sequence_batching.oldest.preferred_batch_size),
    )
    for path, sizes in schedulers:
        small, large = [size for size in sizes if size < 1], [size for size in sizes if size > max(most, 0)]
        if small:
            fix = f"Write preferred_batch_size with sizes from 1 to {most}, or delete it."
            yield Problem("", f"preferred_batch_size {shape_text(small)}", "sizes from 1", fix, at=path)
        elif large:
            where = (
                f"max_batch_size is {most}" if most > 0 else "max_batch_size is 0 or missing, so there are no batches"
            )
            fix = f"Set max_batch_size: {max(sizes)}, or delete preferred_batch_size: Triton fills batches anyway."
            yield Problem(
                "",
                f"preferred_batch_size {shape_text(large)}",
                f"at most max_batch_size ({max(most, 0)})",
                fix,
                at=path,
                note=f"{where}.",
            )
    cached = config.response_cache.enable
    if cached and config.model_transaction_policy.decoupled:
        fix = "Delete response_cache."
        yield Problem("", "response_cache with decoupled: true", "one of the two", fix, at="response_cache")
    elif cached and config.HasField("sequence_batching"):
        yield Problem(
            "", "response_cache with sequence_batching", "one of the two", "Delete response_cache.", at="response_cache"
        )


@rule(
    "priority-levels",
    severity="error",
    lesson=LESSON,
    why="Every request has a priority from 1 to priority_levels, and one that names none gets the default.",
)
def priority_levels(model: ModelView) -> Iterator[Problem]:
    batching = model.config.dynamic_batching
    levels, default = batching.priority_levels, batching.default_priority_level
    at = "dynamic_batching.default_priority_level"
    if levels and not 1 <= default <= levels:
        at = at if default else "dynamic_batching.priority_levels"
        fix = f"Write default_priority_level: {levels}."
        yield Problem("", f"default_priority_level: {default}", f"1 to {levels} (priority_levels)", fix, at=at)
    if levels > 1 and batching.preserve_ordering:
        fix = "Delete preserve_ordering or priority_levels."
        yield Problem(
            "",
            f"preserve_ordering with {levels} priority levels",
            "one level",
            fix,
            at="dynamic_batching.preserve_ordering",
        )
    for level in sorted(batching.priority_queue_policy):
        if not 1 <= level <= levels:
            fix = "Write the key of a level, or raise priority_levels."
            at = "dynamic_batching.priority_queue_policy"
            yield Problem("", f"a queue policy for level {level}", f"1 to {levels} (priority_levels)", fix, at=at)


@rule(
    "queue-policy",
    severity="warning",
    lesson=LESSON,
    why="A time-out costs about 10 % under load and can hold the last requests of a burst for half a second.",
)
def queue_policy(model: ModelView) -> Iterator[Problem]:
    batching = model.config.dynamic_batching
    policies = [("dynamic_batching.default_queue_policy", batching.default_queue_policy)]
    policies += [("dynamic_batching.priority_queue_policy", one) for one in batching.priority_queue_policy.values()]
    for at, policy in policies:
        timed = policy.default_timeout_microseconds > 0
        if policy.timeout_action == ModelQueuePolicy.DELAY and timed and batching.preserve_ordering:
            yield Problem(
                "",
                "timeout_action: DELAY with preserve_ordering",
                "one of the two",
                "Delete timeout_action: DELAY, or preserve_ordering.",
                at=at,
                severity="error",
                note="Triton refuses what would put requests out of their order.",
            )
        elif policy.timeout_action == ModelQueuePolicy.DELAY and not (timed or policy.allow_timeout_override):
            fix = "Set default_timeout_microseconds, or delete timeout_action."
            yield Problem("", "timeout_action: DELAY without a time-out", "default_timeout_microseconds", fix, at=at)
        elif timed and policy.default_timeout_microseconds < (delay := batching.max_queue_delay_microseconds):
            found = f"a time-out of {policy.default_timeout_microseconds} µs under a queue delay of {delay} µs"
            fix = "Set a time-out well above max_queue_delay_microseconds."
            yield Problem(
                "",
                found,
                "a time-out above the delay",
                fix,
                at=at,
                note="Requests would time out while the batcher waits.",
            )


@rule(
    "batching-without-batch",
    severity="warning",
    lesson=LESSON,
    why="Without a batch axis nothing can be put together; Triton does not say so.",
)
def batching_without_batch(model: ModelView) -> Iterator[Problem]:
    config = model.config
    if model.parse_error or config.max_batch_size != 0 or not config.HasField("dynamic_batching") or model.ensemble:
        return
    if config.dynamic_batching.preferred_batch_size:
        return  # refused: see batching-contradiction
    tensors = [tensor for graph in model.graphs for tensor in (*graph.inputs.values(), *graph.outputs.values())]
    fix = "Set max_batch_size and take the batch axis out of dims, or delete dynamic_batching."
    if tensors and all(tensor.dims and tensor.dims[0] == -1 for tensor in tensors):
        first = tensors[0]
        fix = f"Write max_batch_size: 8 and, for '{first.name}', dims: {shape_text(first.dims[1:] or [1])}."
    found = (
        "dynamic_batching with max_batch_size 0"
        if model.source.place("max_batch_size")
        else "dynamic_batching without max_batch_size"
    )
    yield Problem("", found, "max_batch_size of 1 or more", fix, at="dynamic_batching")


@rule(
    "queue-delay",
    severity="warning",
    lesson=LESSON,
    why="A lone request waits the whole delay for others that do not come.",
)
def queue_delay(model: ModelView) -> Iterator[Problem]:
    delay = model.config.dynamic_batching.max_queue_delay_microseconds
    limit = model.config.sequence_batching.oldest.max_queue_delay_microseconds
    for value, at in (
        (delay, "dynamic_batching.max_queue_delay_microseconds"),
        (limit, "sequence_batching.oldest.max_queue_delay_microseconds"),
    ):
        if value > LONG_DELAY_US and model.batching:
            fix = "Write a few hundred microseconds, or delete the line; measure both."
            found = f"max_queue_delay_microseconds: {value} ({value / 1000:g} ms)"
            yield Problem("", found, f"at most {LONG_DELAY_US}", fix, at=at)


@rule(
    "mixed-shapes",
    severity="info",
    lesson="04#dims-question",
    why="Requests are put together only when their shapes agree; unequal lengths run one by one.",
)
def mixed_shapes(model: ModelView) -> Iterator[Problem]:
    if not (model.batching and model.config.HasField("dynamic_batching")):
        return
    open_inputs = [entry for entry in model.config.input if -1 in entry.dims and not entry.allow_ragged_batch]
    for entry in open_inputs[:1]:
        number = list(model.config.input).index(entry)
        fix = "Pad to a few fixed lengths on the client"
        fix += (
            ", or write allow_ragged_batch: true if execute() takes requests one by one."
            if model.backend == "python"
            else "."
        )
        yield Problem(
            f"input '{entry.name}'",
            f"dims: {shape_text(entry.dims)} with dynamic_batching",
            "that only equal shapes batch",
            fix,
            at=f"input[{number}].dims",
        )


@rule(
    "no-batching",
    severity="info",
    lesson=LESSON,
    why="max_batch_size allows batches; dynamic_batching makes them out of requests that wait.",
)
def no_batching(model: ModelView) -> Iterator[Problem]:
    config = model.config
    scheduler = config.WhichOneof("scheduling_choice")
    if model.backend not in BATCHING_BACKENDS or scheduler not in (None, "dynamic_batching") or not model.batching:
        return
    if config.max_batch_size == 1:
        fix = "Raise max_batch_size if the model can batch, or write 0 and all axes into dims."
        yield Problem(
            "", "max_batch_size: 1", "2 or more, or 0", fix, at="max_batch_size", note="Nothing can be put together."
        )
    elif scheduler is None:
        fix = "Add dynamic_batching { }, and measure with several clients."
        yield Problem(
            "",
            f"max_batch_size: {config.max_batch_size} and no dynamic_batching",
            "dynamic_batching { }",
            fix,
            at="max_batch_size",
        )


@rule(
    "preferred-size",
    severity="info",
    lesson=LESSON,
    why="Sizes help models that are much faster at some of them, such as TensorRT plans with several profiles.",
)
def preferred_size(model: ModelView) -> Iterator[Problem]:
    batching = model.config.dynamic_batching
    if batching.preferred_batch_size and model.backend != "tensorrt":
        yield Problem(
            "",
            f"preferred_batch_size {shape_text(batching.preferred_batch_size)}",
            "no preferred sizes",
            "Delete preferred_batch_size, and measure both.",
            at="dynamic_batching.preferred_batch_size",
        )
