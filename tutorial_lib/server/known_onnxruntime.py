"""What the ONNX Runtime backend says of settings and of tensors it cannot serve, in words and with the fix."""

from __future__ import annotations

from tutorial_lib.server.known_failures import known

ONNXRUNTIME = (
    known(
        r"autofill failed for model '[^']*': model does not support batching",
        "max_batch_size is above 0, and the graph has an input or output whose first axis is not open.",
        "Write max_batch_size: 0, or export with an open batch axis on every input and output.",
        "fixed-batch",
    ),
    known(
        r"Unsupported ONNX Type 'ONNX_TYPE_(?P<k>\w+)' for I/O '(?P<t>[^']*)'",
        "'{t}' of the graph is a {k}; Triton serves tensors only.",
        "Export it as a tensor; from scikit-learn with options={{'zipmap': False}}.",
    ),
    known(
        r"scalar tensor '(?P<t>[^']*)', should only provide 1 .*provided: (?P<d>\[[-\d,]*\])",
        "'{t}' is a scalar in the graph, config.pbtxt gives it dims {d}.",
        "Write dims: [ 1 ] for '{t}'.",
    ),
    known(
        r"optional input '(?P<t>[^']*)' is not supported for models that support batching",
        "'{t}' is optional, which the ONNX Runtime backend allows with max_batch_size: 0 only.",
        "Write max_batch_size: 0 and the batch axis into dims, or let clients always send '{t}'.",
    ),
    known(
        r"model provides input with shape \[-1\] +for ragged input '(?P<t>[^']*)'",
        "'{t}' allows ragged batches, and the graph takes it with more than one axis.",
        "Export '{t}' as one open axis that takes all requests end to end, or drop allow_ragged_batch.",
    ),
    known(
        r"specified sequence control '(?P<t>[^']*)', but model does not provide that input|"
        r"sequence control '(?P<u>[^']*)'(?: in model has dims|, the model expects data-type)",
        "a control input of sequence_batching is not in the graph, or has another shape or type there.",
        "Export a control input of shape [batch, 1] and of the type its values have in config.pbtxt.",
    ),
    known(
        r"unable to find '(?P<p>[^']*)' for model instance",
        "the model file is a folder, and no model.onnx is in it.",
        "Put the graph into that folder as model.onnx, beside its weights.",
    ),
    known(
        r"failed to convert '(?P<v>[^']*)' to (?P<k>integral number|boolean)",
        "a setting of config.pbtxt or of --backend-config reads '{v}', which is no {k}.",
        "Write a whole number, or for a switch 0 or 1.",
    ),
    known(
        r"Expected values for +execution_mode are 0 or 1 but got (?P<v>-?\d+)",
        "the parameter execution_mode is {v}.",
        "Write 0 (one operator after another) or 1 (in parallel).",
    ),
    known(
        r"unknown Execution Accelerator '(?P<a>[^']*)' is requested",
        "optimization.execution_accelerators names '{a}', which the backend does not have.",
        "Take it out, or name one the image has: openvino for the CPU, tensorrt or cuda for a GPU.",
    ),
    known(
        r"Failed to load library (?P<l>\S+) with error",
        "model_operations names the library {l}, which cannot be loaded.",
        "Give its absolute path as the server sees it, and a build for this ONNX Runtime and processor.",
    ),
    known(
        r"ReadThreadAffinityConfig",
        "the parameter session.intra_op_thread_affinities is not written as ONNX Runtime reads it.",
        "Write processor numbers for all threads but the first, such as 1;2,3 for three threads, or leave it out.",
    ),
    known(
        r"sequence_batching\.state needs the C\+\+ backend",
        "the model keeps state between requests, which the embedded server's backend does not do.",
        "Serve it in the NGC container, or pass the state as ordinary inputs and outputs.",
    ),
)
