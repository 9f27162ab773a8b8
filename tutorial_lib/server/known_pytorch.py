"""What the PyTorch backend says, in words and with the fix."""

from __future__ import annotations

from tutorial_lib.server.known_failures import known

PYTORCH = (
    known(
        r"unable to find '(?P<p>[^']+\.pt)' for model instance",
        "the model file is not where Triton looks: {p}.",
        "Give the file this name, or name the file there is in default_model_filename.",
        "model-file-name",
    ),
    known(
        r"failed locating file constants\.pkl|PytorchStreamReader failed (?:reading zip archive|finding)|"
        r"failed to load model '[^']*': .*(?:TorchScript archive|torch\.save|torch\.export program)",
        "the model file is no TorchScript: a checkpoint of weights, a torch.export program, cut or empty.",
        "Write it with torch.jit.save(torch.jit.trace(model.eval(), example), 'model.pt').",
        "torchscript-file",
    ),
    known(
        r"the inputs (?P<t>.*) stand for arguments (?P<i>\[[\d, ]*\]) of forward",
        "the names {t} say arguments {i}; every argument of forward has to be named once.",
        "Number the inputs from INPUT__0 on, or call them as forward calls its arguments.",
        "torchscript-tensors",
    ),
    known(
        r"model configuration must contain at least one (?P<r>input|output)",
        "config.pbtxt lists no {r}; the PyTorch backend completes nothing.",
        "Write every {r} with name, data_type and dims.",
        "torchscript-tensors",
    ),
    known(
        r"An input of type '(?P<k>[^']*)' was detected in the model|Multiple inputs of kind DictType",
        "forward takes something else than tensors, one dictionary of tensors, or lists of strings.",
        "Wrap the model in a module whose forward takes tensors only, and trace that.",
        "",
    ),
)
