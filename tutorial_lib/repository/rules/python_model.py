"""model.py of the Python backend, judged by its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tritonclient.grpc import model_config_pb2

from tutorial_lib.repository.proto_fields import name_of
from tutorial_lib.repository.python_view import CLASS, PythonView, ends_openly, returns_of, takes
from tutorial_lib.repository.registry import Problem, rule
from tutorial_lib.repository.view import ModelView

LESSON = "04#layout-question"
_SIGNATURES = {
    "__init__": ("self", 1),
    "initialize": ("self, args", 2),
    "execute": ("self, requests", 2),
    "finalize": ("self", 1),
}


@rule(
    "python-model",
    severity="error",
    lesson=LESSON,
    why="Triton imports model.py, makes a TritonPythonModel and calls initialize, execute and finalize.",
)
def python_model(model: ModelView) -> Iterator[Problem]:
    for script in model.scripts:
        file = model.relative(script.path)
        if script.error:
            fix = f"Correct line {script.error_line}." if script.error_line else "Correct the file."
            yield Problem(file, script.error, "Python that compiles", fix, at=script.error_line, file=file)
        elif script.tree is None:
            continue
        elif script.model_class is None and not script.brings_class:
            names = [one.name for one in script.tree.body if one.__class__.__name__ == "ClassDef"]
            found = f"the class {names[0]}" if len(names) == 1 else "no class of that name"
            fix = (
                f"Rename {names[0]} to {CLASS}."
                if len(names) == 1
                else f"Write class {CLASS} with execute(self, requests)."
            )
            yield Problem(file, found, f"class {CLASS}", fix, file=file)
        elif script.model_class is not None:
            yield from _methods(script, file)


def _methods(script: PythonView, file: str) -> Iterator[Problem]:
    if "execute" not in script.methods and not script.inherits:
        fix = f"Add def execute(self, requests) to {CLASS}; it returns one response for each request."
        note = "The model loads, and then fails every request."
        yield Problem(
            file,
            "no execute method",
            "execute(self, requests)",
            fix,
            at=script.model_class.lineno,
            file=file,
            note=note,
        )
    for name, (arguments, count) in _SIGNATURES.items():
        method = script.method(name)
        if method is not None and not takes(method, count):
            yield Problem(
                f"{file}, {name}",
                f"def {name}({', '.join(one.arg for one in method.args.args)})",
                f"def {name}({arguments})",
                f"Write def {name}({arguments}).",
                at=method.lineno,
                file=file,
                severity="warning" if name == "finalize" else "",  # called when all answers are given
            )
    complete = script.method("auto_complete_config")
    if complete is not None and not any(getattr(one, "id", "") == "staticmethod" for one in complete.decorator_list):
        fix = "Write @staticmethod above def auto_complete_config(auto_complete_model_config)."
        yield Problem(
            f"{file}, auto_complete_config", "a method", "a static method", fix, at=complete.lineno, file=file
        )
    if complete is not None and not any(one.value is not None for one in returns_of(complete)):
        fix = "End it with return auto_complete_model_config."
        yield Problem(
            f"{file}, auto_complete_config", "no return", "the configuration", fix, at=complete.lineno, file=file
        )


@rule(
    "no-return",
    severity="error",
    lesson=LESSON,
    why="Triton waits for the list of responses; without one the request never ends, nor do those behind it.",
)
def no_return(model: ModelView) -> Iterator[Problem]:
    if model.config.model_transaction_policy.decoupled:
        return
    for script in model.scripts:
        execute = script.method("execute")
        if execute is None or script.mentions("get_response_sender"):
            continue
        file = model.relative(script.path)
        returns = returns_of(execute)
        values = [one for one in returns if one.value is not None and not _is_none(one.value)]
        empty = [one for one in returns if one not in values]
        generator = any(node.__class__.__name__ in ("Yield", "YieldFrom") for node in _inside(execute))
        raises_only = execute.body[-1].__class__.__name__ == "Raise"
        if empty:
            fix = "Write return responses."
            yield Problem(
                f"{file}, execute",
                "return without the responses",
                "return responses",
                fix,
                at=empty[0].lineno,
                file=file,
            )
        elif not values and not raises_only:
            what = "yield" if generator else "no return"
            yield Problem(
                f"{file}, execute",
                what,
                "return responses",
                "End execute with return responses.",
                at=execute.lineno,
                file=file,
            )
        elif ends_openly(execute.body):
            fix = "End execute with return responses."
            yield Problem(
                f"{file}, execute",
                "a way to its end without return",
                "return responses",
                fix,
                at=execute.lineno,
                file=file,
                severity="warning",
            )


def _is_none(node) -> bool:
    return getattr(node, "value", ...) is None


def _inside(function) -> Iterator:
    return ast.walk(function)


@rule(
    "python-output",
    severity="error",
    lesson="04#tensors-question",
    why="Nothing checks what a Python model returns: clients get another type than promised, or an error.",
)
def python_output(model: ModelView) -> Iterator[Problem]:
    declared = {entry.name: name_of(model_config_pb2.DataType, entry.data_type) for entry in model.config.output}
    for script in model.scripts if declared else ():
        file = model.relative(script.path)
        made = {use.name for use in script.outputs}
        for use in script.outputs:
            subject = f"{file}, output '{use.name}'"
            wanted = declared.get(use.name, "")
            if use.name not in declared:
                # models call others by BLS, and build tensors for those too
                severity = "warning" if script.mentions("InferenceRequest") else ""
                fix = f'Write "{next(iter(declared))}".' if len(declared) == 1 else f"Use one of {', '.join(declared)}."
                yield Problem(
                    subject,
                    "an output that config.pbtxt does not list",
                    ", ".join(declared),
                    fix,
                    at=use.line,
                    file=file,
                    severity=severity,
                )
            elif use.text and wanted == "TYPE_STRING":
                fix = "Write np.array([...], dtype=np.object_) with bytes."
                yield Problem(subject, "an array of str", "dtype object", fix, at=use.line, file=file)
            elif use.data_type and wanted and use.data_type != wanted:
                fix = f"Convert to the type of {wanted}, or write data_type: {use.data_type} in config.pbtxt."
                yield Problem(
                    subject,
                    f"an array of {use.data_type}",
                    f"{wanted}, as config.pbtxt says",
                    fix,
                    at=use.line,
                    file=file,
                )
        missing = [name for name in declared if name not in made]
        if missing and not script.makes_other_outputs and not script.mentions("requested_output_names"):
            fix = f'Return pb_utils.Tensor("{missing[0]}", …) too.'
            yield Problem(
                file,
                f"no tensor for output {', '.join(missing)}",
                "every output of config.pbtxt",
                fix,
                file=file,
                severity="warning",
            )


@rule(
    "python-input",
    severity="error",
    lesson="04#tensors-question",
    why="An input that is not there is None, and None has no as_numpy().",
)
def python_input(model: ModelView) -> Iterator[Problem]:
    declared = {entry.name for entry in model.config.input} | {
        one.name for one in model.config.sequence_batching.control_input
    }
    declared |= {one.input_name for one in model.config.sequence_batching.state}
    declared |= {name for one in model.config.batch_input for name in one.target_name}
    for script in model.scripts if declared else ():
        file = model.relative(script.path)
        for name, line in script.inputs.items():
            if name not in declared and script.uses_without_check(name):
                fix = f"Use one of {', '.join(sorted(declared))}, or add the input to config.pbtxt."
                yield Problem(
                    f"{file}, input '{name}'",
                    "an input that config.pbtxt does not list",
                    ", ".join(sorted(declared)),
                    fix,
                    at=line,
                    file=file,
                )


@rule(
    "optional-input",
    severity="warning",
    lesson="04#tensors-question",
    why="A request may leave an optional input out; the model then gets None in its place.",
)
def optional_input(model: ModelView) -> Iterator[Problem]:
    for entry in model.config.input:
        for script in model.scripts if entry.optional else ():
            line = script.uses_without_check(entry.name)
            if line:
                file = model.relative(script.path)
                fix = "Look first: if tensor is not None."
                yield Problem(
                    f"{file}, input '{entry.name}'",
                    "as_numpy() on an optional input",
                    "a check for None",
                    fix,
                    at=line,
                    file=file,
                )
