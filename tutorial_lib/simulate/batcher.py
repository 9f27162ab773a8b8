"""The rules by which Triton's dynamic batcher puts requests together, without a clock or a thread of its own.

Times are whole nanoseconds, as in Triton. The rules are those of `DynamicBatchScheduler` (`Enqueue`,
`BatcherThread`, `GetDynamicBatch`), of the rate limiter's slots and of `InstanceQueue::Dequeue`, for requests
of one sample, equal shapes and no queue policy.
Source: https://github.com/triton-inference-server/core, src/dynamic_batch_scheduler.cc, src/rate_limiter.cc and
src/instance_queue.cc.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tutorial_lib.errors import LoadError
from tutorial_lib.load.checks import whole

if TYPE_CHECKING:
    from tritonclient.grpc.model_config_pb2 import ModelConfig

IDLE_LOOK_NS = 500_000_000  # with nothing to do, the batcher's thread looks again after half a second
SLOTS_PER_INSTANCE = 2  # batches that may be ready and wait for an instance
MOST_INSTANCES = 1024
MOST_DELAY_US = 86_400_000_000  # a day
ONNXRUNTIME_ON_CPU = 2  # instances that Triton starts when a configuration does not say how many


@dataclass(frozen=True)
class Batching:
    """What a configuration says about batches and instances.

    Attributes:
        max_batch_size: most requests of a batch.
        dynamic: whether `dynamic_batching` is there; without it every request runs alone.
        queue_delay_us: `max_queue_delay_microseconds`.
        preferred: `preferred_batch_size`; empty means the largest, as in Triton.
        instances: copies of the model, all groups together.

    Raises:
        LoadError: a number is none, or out of bounds.
    """

    max_batch_size: int = 8
    dynamic: bool = True
    queue_delay_us: int = 0
    preferred: tuple[int, ...] = ()
    instances: int = 1

    def __post_init__(self) -> None:
        bounds = {
            "max_batch_size": (0, 2**31 - 1),
            "queue_delay_us": (0, MOST_DELAY_US),
            "instances": (1, MOST_INSTANCES),
        }
        for name, (low, high) in bounds.items():
            object.__setattr__(self, name, whole(f"batching: {name}", getattr(self, name), low=low, high=high))
        if not isinstance(self.dynamic, bool):
            raise LoadError(f"batching: found dynamic={self.dynamic!r}, expected True or False.")
        if isinstance(self.preferred, str) or not isinstance(self.preferred, Iterable):
            raise LoadError(f"batching: found preferred={self.preferred!r}, expected a list of sizes.")
        sizes = tuple(whole("batching: preferred", size, low=0) for size in self.preferred)
        object.__setattr__(self, "preferred", sizes)
        if any(not 1 <= size <= max(1, self.max_batch_size) for size in self.preferred):
            raise LoadError(
                f"batching: found preferred sizes {list(self.preferred)}, expected numbers from 1 to max_batch_size "
                f"({self.max_batch_size})."
            )

    @classmethod
    def of(cls, config: ModelConfig | Mapping[str, Any]) -> Batching:
        """Read it from a configuration.

        Args:
            config: as a running server completed it (what `Server.config(model)` returns), or Triton's protobuf. What
                a file leaves open is taken as Triton completes it on a machine without a GPU.

        Raises:
            LoadError: it is no configuration.
        """
        if isinstance(config, Mapping):
            config = _parsed(config)
        batching = config.dynamic_batching
        return cls(
            max_batch_size=config.max_batch_size,
            dynamic=config.HasField("dynamic_batching") and config.max_batch_size > 1,
            queue_delay_us=batching.max_queue_delay_microseconds,
            preferred=tuple(batching.preferred_batch_size),
            instances=_instances(config),
        )


def _parsed(config: Mapping[str, Any]) -> ModelConfig:
    from google.protobuf import json_format
    from tritonclient.grpc.model_config_pb2 import ModelConfig

    try:
        return json_format.ParseDict(dict(config), ModelConfig(), ignore_unknown_fields=True)
    except json_format.ParseError as error:
        raise LoadError(
            f"configuration: found what is none: {error}.", action="Give what Server.config(model) returns."
        ) from None


def _instances(config: ModelConfig) -> int:
    """Instances of all groups; a group without a count, and a model without a group, get Triton's default.

    Source: https://github.com/triton-inference-server/core, src/model_config_utils.cc, SetDefaultInstanceCount and
    NormalizeInstanceGroup.
    """
    onnx = "onnxruntime" in (config.backend, config.platform.removesuffix("_onnx"))
    on_cpu = ONNXRUNTIME_ON_CPU if onnx else 1
    kinds = config.DESCRIPTOR.fields_by_name["instance_group"].message_type.enum_values_by_name
    cpu = {kinds["KIND_AUTO"].number, kinds["KIND_CPU"].number}
    counts = [group.count or (on_cpu if group.kind in cpu else 1) for group in config.instance_group]
    return sum(counts) or on_cpu


@dataclass
class Ready:
    """Requests that were put together and wait for an instance; it may grow until one takes it.

    Attributes:
        requests: (number, arrival in nanoseconds) each.
        taken: whether an instance has it, or looked at it and left it: then it cannot grow.
    """

    requests: list[tuple[int, int]] = field(default_factory=list)
    taken: bool = False


class Batcher:
    """The state of one model's batcher.

    Attributes:
        look_at_ns: when its thread wakes by itself; None while only an instance can wake it.
    """

    def __init__(self, batching: Batching) -> None:
        self.batching = batching
        self.delay_ns = 1000 * batching.queue_delay_us if batching.dynamic else 0
        largest = max(1, batching.max_batch_size)
        self.preferred = sorted(set(batching.preferred or (largest,)))
        self.largest = largest
        self.queue: deque[tuple[int, int]] = deque()
        self.ready: deque[Ready] = deque()
        self.look_at_ns: int | None = None
        self._growing, self._saturated, self._next_preferred = Ready(), False, 0
        self._idle_since_ns = 0

    def arrive(self, number: int, now_ns: int) -> bool:
        """A request comes in; whether it wakes the batcher's thread."""
        if not self.batching.dynamic:
            self.ready.append(Ready([(number, now_ns)]))
            return False
        self.queue.append((number, now_ns))
        if not self._slots():
            return False
        if self._saturated or self._growing.taken or len(self.queue) >= self._next_preferred:
            return True
        if self.look_at_ns is None or self.look_at_ns <= now_ns:
            idle = now_ns - self._idle_since_ns
            self.look_at_ns = self._idle_since_ns + IDLE_LOOK_NS * (idle // IDLE_LOOK_NS + 1)
        return False

    def take(self, now_ns: int) -> list[tuple[int, int]]:
        """An idle instance takes what has been ready longest, and further ones that waited past the delay."""
        first = self.ready.popleft()
        first.taken = True
        while self.delay_ns and self.ready and self.ready[0].requests[0][1] + self.delay_ns < now_ns:
            self.ready[0].taken = True  # even when it turns out to be too large
            if len(first.requests) + len(self.ready[0].requests) > self.largest:
                break
            first.requests += self.ready.popleft().requests
        return first.requests

    def look(self, now_ns: int) -> bool:
        """One turn of the batcher's thread; whether it made a batch ready or let one grow.

        Called again and again until there is nothing more to do; in between, instances take what is ready.
        """
        if not self.batching.dynamic:
            return False
        if self._saturated or self._growing.taken:
            self._growing, self._saturated, self._next_preferred = Ready(), False, 0
        self.look_at_ns = None
        if not self.queue:
            self._idle_since_ns = now_ns
            return False
        if not self._slots():
            return False
        count, wait_us = self._gather(now_ns)
        if wait_us:
            self.look_at_ns = now_ns + 1000 * wait_us
            return False
        if not self._growing.requests:
            self.ready.append(self._growing)
        self._growing.requests += [self.queue.popleft() for _ in range(count)]
        return True

    def _slots(self) -> bool:
        return len(self.ready) < SLOTS_PER_INSTANCE * self.batching.instances

    def _gather(self, now_ns: int) -> tuple[int, int]:
        """How many waiting requests go into the growing batch now, or how many microseconds to wait first."""
        grown, count, best, send_now = len(self._growing.requests), 0, 0, False
        marked = 0
        for _ in self.queue:
            if grown + count:
                if grown + count + 1 > self.preferred[-1] and not best:
                    best = marked = count
                    self._saturated = True
                if grown + count + 1 > self.largest:
                    send_now = True
                    break
            count += 1
            if grown + count in self.preferred:
                best = marked = count
        age_ns = now_ns - self.queue[0][1]
        exceeded = self.delay_ns > 0 and age_ns >= self.delay_ns
        if best and not exceeded:
            self._saturated = self._saturated or not self.delay_ns
            return marked, 0
        if send_now or grown + count >= self.preferred[-1]:
            self._saturated = True
            return count, 0
        if exceeded or not self.delay_ns:
            return count, 0
        larger = [size for size in self.preferred if size > grown + count]
        self._next_preferred = (larger or self.preferred)[0] - grown
        if grown and not self._saturated and grown not in self.preferred:
            return count, 0
        return count, (self.delay_ns - age_ns) // 1000
