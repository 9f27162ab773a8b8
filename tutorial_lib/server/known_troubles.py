"""What Triton says about schedulers, ensembles, Python models, hardware and its own start, with the fix."""

from __future__ import annotations

from tutorial_lib.server.known_failures import TENSORS, TEXT, Known, known
from tutorial_lib.server.known_layout import LAYOUT
from tutorial_lib.server.known_onnxruntime import ONNXRUNTIME
from tutorial_lib.server.known_pytorch import PYTORCH

SCHEDULING = (
    known(
        r"dynamic batching preferred size must be <= max batch size",
        "a preferred_batch_size is larger than max_batch_size (which is 0 when the line is missing).",
        "Lower it, or raise max_batch_size; measure before you set preferred sizes at all.",
        "batching-contradiction",
    ),
    known(
        r"preferred (?:batch )?size must be (?P<w>positive|<= max batch size)",
        "a preferred_batch_size is not between 1 and max_batch_size.",
        "Write sizes from 1 to max_batch_size, or none.",
        "batching-contradiction",
    ),
    known(
        r"'max_batch_size' must be non-negative",
        "max_batch_size is negative.",
        "Write 0 (no batching) or the largest batch.",
        "batching-contradiction",
    ),
    known(
        r"priority level must be in range|priority queue policy must have priority level|Only one priority level",
        "the priorities contradict each other: levels, the default level, and preserve_ordering must fit.",
        "Set priority_levels first; default_priority_level and every key of priority_queue_policy lie in 1..levels.",
        "priority-levels",
    ),
    known(
        r"Queue policy can not have DELAY",
        "timeout_action: DELAY changes the order of requests, preserve_ordering forbids that.",
        "Give up one of the two.",
        "queue-policy",
    ),
    known(
        r"sequence batching (?:control|specifies|must|minimum)|sequence-batch|unexpected data type for control",
        "a control input of sequence_batching is not as Triton wants it.",
        "Give each control a name, one kind, and for START, END and READY exactly two values such as "
        "fp32_false_true: [ 0, 1 ].",
        "sequence-control",
    ),
    known(
        r"Please disable the response cache",
        "the response cache works neither with sequences nor with decoupled models.",
        "Delete response_cache.",
        "batching-contradiction",
    ),
    known(
        r"instance group \S+ of model \S+ has kind KIND_GPU but no GPUs are available|kind KIND_GPU but this tier",
        "instance_group asks for a GPU; the server sees none.",
        "Delete instance_group (Triton then takes what there is), or start the server with --gpus all.",
        "instance-group",
    ),
    known(
        r"specifies invalid or unsupported gpu id (?P<g>\d+)",
        "instance_group names GPU {g}, which the server does not have.",
        "Delete gpus, or use the numbers nvidia-smi shows inside the container.",
        "instance-group",
    ),
    known(
        r"has kind (?P<k>KIND_\w+) but specifies (?P<w>one or more|no) GPUs|unexpected kind KIND_AUTO",
        "instance_group: kind {k} and gpus do not go together on this machine.",
        "Delete gpus, or write kind: KIND_GPU.",
        "instance-group",
    ),
    known(
        r"specifies profile field which is only supported for TensorRT",
        "instance_group names a profile, which only TensorRT models have.",
        "Delete profile.",
        "instance-group",
    ),
    known(
        r"initial_state|/initial_state/|'state' dim description",
        "the initial state of a sequence does not fit its state: its type, its dims, or its data.",
        "Write data_type and dims as in state, and zero_data: true, or a file in the model's initial_state/ folder.",
        "sequence-control",
    ),
    known(
        r"batch (?:input|output) (?:kind|data type)",
        "a batch_input or batch_output has not one source, or another type than INT32 or FP32.",
        "Name one input as source_input, and write data_type: TYPE_FP32.",
        "batch-input",
    ),
    known(
        r"unable to find '\S+' for repo agent|"
        r"unable to find (?:Python backend based )?backend library '[^']*' for model",
        "the configuration names a library (runtime, or a repository agent) that this server has not.",
        "Delete runtime, or model_repository_agents.",
        "extra-library",
    ),
    known(
        r"which will prevent scheduling of one or more model instances",
        "the rate limiter has fewer resources than one instance asks for.",
        "Raise --rate-limit-resource, or lower the instance's resources.",
    ),
    known(
        r"warmup setting expects (?P<w>\d+) bytes, but the data provided from (?P<f>.*?)\s*only has (?P<h>\d+) bytes",
        "the warm-up file {f} has {h} bytes, the input needs {w}: raw tensor bytes, not an image file.",
        "Write the array with ndarray.tofile() into the model's warmup/ folder.",
        "warmup",
    ),
    known(
        r"failed to open text file for read \S*/warmup/(?P<f>\S+?):?(?=\s|$)",
        "the warm-up file {f} is not in the model's warmup/ folder.",
        "Put it there, or use zero_data: true.",
        "warmup",
    ),
    known(
        r"warmup (?:setting|sample)",
        "a model_warmup sample does not fit the model's inputs.",
        "Write every input with its own name, type, and dims without the batch.",
        "warmup",
    ),
)

REQUEST_SHAPED = (  # at load they speak of the warm-up sample, later of a client's request
    known(
        r"expected (?P<n>\d+) inputs but got (?P<g>\d+) inputs for model .*?missing required input\(s\) (?P<m>\[.*?\])",
        "{g} of {n} inputs were given; missing: {m}.",
        "Give every input its exact name.",
        "warmup",
    ),
    known(
        r"unexpected shape for input '(?P<t>[^']*)'.*?Expected (?P<e>\[[-\d,]*\]), got (?P<g>\[[-\d,]*\])",
        "input '{t}': shape {g} was given, {e} is expected (the first -1 is the batch).",
        "In model_warmup write dims without the batch; in a client send the batch axis too.",
        "warmup",
    ),
    known(
        r"inference input '(?P<t>[^']*)' data-type is '(?P<g>[\w<>]+)', but model '[^']*' expects '(?P<e>\w+)'",
        "input '{t}': {g} was given, the model takes {e}.",
        "Convert it to {e}.",
        "warmup",
    ),
)

ENSEMBLES = (
    known(
        r"ensemble input '(?P<t>[^']*)' for ensemble \S+ is not used",
        "no step takes the ensemble's input '{t}'; in input_map, key and value may be swapped.",
        'key is the step\'s own tensor, value the ensemble\'s: input_map {{ key: "…" value: "{t}" }}.',
        "ensemble-map",
    ),
    known(
        r"output '(?P<t>[^']*)' for ensemble '[^']*' is not written(?:.*?depending tensors, '(?P<d>[^']*)')?",
        "the ensemble's output '{t}' is never written; the first broken link is tensor '{d}'.",
        "Give the two ends of '{d}' one spelling; in output_map, key is the step's tensor, value the ensemble's.",
        "ensemble-map",
    ),
    known(
        r"ensemble tensor (?P<t>\S+): inconsistent data type: (?P<a>\w+) is inferred from model (?P<m>\S+) while "
        r"(?P<b>\w+) is inferred from model (?P<n>\S+)",
        "tensor '{t}' is {a} in '{m}' and {b} in '{n}'.",
        "Make both ends one type: change the model, or cast in a step between.",
        "ensemble-type",
    ),
    known(
        r"ensemble tensor (?P<t>\S+): inconsistent shape: (?P<a>\[[-\d,]*\]) is inferred from model (?P<m>\S+) while "
        r"(?P<b>\[[-\d,]*\]) is inferred from model (?P<n>\S+)",
        "tensor '{t}' has shape {a} in '{m}' and {b} in '{n}'; an ensemble does not reshape between steps.",
        "Make both ends one full shape ([-1] + dims when max_batch_size > 0).",
        "ensemble-shape",
    ),
    known(
        r"ensemble (?P<e>\S+) allows maximum batch size (?P<a>\d+).*?contains model (?P<m>\S+) which only allows "
        r"maximum batch size to be (?P<b>\d+)|which only allows maximum batch size",
        "the ensemble allows a batch of {a}, its step '{m}' only {b}.",
        "Lower the ensemble's max_batch_size, or raise the step's.",
        "ensemble-batch",
    ),
    known(
        r"contains models that are not available or ambiguous: (?P<m>[^\"]*)",
        "a step names a model that is not in the repository: {m}.",
        "Correct model_name, or add the model.",
        "ensemble-model-missing",
    ),
    known(
        r"depends on '(?P<m>[^']*)' whose required version (?P<v>\S+) is not loaded",
        "a step asks for version {v} of '{m}', which is not served.",
        "Write model_version: -1 (the newest), or add the version and let version_policy serve it.",
        "ensemble-model-missing",
    ),
    known(
        r"circular dependency between ensembles: (?P<c>[^\"]*)",
        "the ensembles call each other in a circle: {c}.",
        "Take one of the steps out.",
        "ensemble-cycle",
    ),
    known(
        r"instance group should not be specified for ensemble|model_warmup can not be specified for ensemble|"
        r"optimization should not be specified for ensemble|must have platform type 'ensemble' and empty backend",
        "an ensemble only joins models; it has no instances, warm-up, optimisation or backend of its own.",
        'Move the setting to the step model it is meant for, and keep platform: "ensemble".',
        "ensemble-scheduling",
    ),
    known(
        r"ensemble scheduling must be set for ensemble|ensemble scheduling cannot be set|must specify 'step'",
        'platform: "ensemble" and ensemble_scheduling with its steps belong together; one is missing.',
        "Write both.",
        "ensemble-scheduling",
    ),
    known(
        r"is mapping to non-existing input|is mapped from non-existing output|is not mapped to any ensemble|"
        r"mapped to multiple ensemble tensors|is unused in ensemble|are mapped to the same ensemble tensor|"
        r"must specify '(?:in|out)put_map'|output map only once",
        "a step's maps do not fit the step model's tensors.",
        "Map every input of the step once; key is the step model's own tensor name, value the ensemble's.",
        "ensemble-map",
    ),
)
KNOWN: tuple[Known, ...] = (
    *(*PYTORCH, *ONNXRUNTIME, *TENSORS, *LAYOUT, *ENSEMBLES, *SCHEDULING, *REQUEST_SHAPED, *TEXT),
)
