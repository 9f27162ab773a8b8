"""What a model.py says about itself, read from its syntax tree; nothing of it is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

LARGEST_SCRIPT = 4 * 2**20  # bytes
CLASS = "TritonPythonModel"
# numpy's names → config.pbtxt's
NUMPY_TYPES = {
    "bool_": "BOOL", "bool": "BOOL", "float16": "FP16", "float32": "FP32", "float64": "FP64", "double": "FP64",
    "object_": "STRING", "object": "STRING", "bytes_": "STRING",
}  # fmt: skip
NUMPY_TYPES |= {f"{sign}int{bits}": f"{sign}int{bits}".upper() for sign in ("", "u") for bits in (8, 16, 32, 64)}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class OutputUse:
    """`pb_utils.Tensor("NAME", value)` somewhere in the file.

    Attributes:
        data_type: config.pbtxt's type when the value's own expression shows it, else "".
        text: the value is an array of `str`, which Triton cannot send.
    """

    name: str
    line: int
    data_type: str
    text: bool


class PythonView:
    """One model.py.

    Args:
        version: the version folder it lies in.
    """

    def __init__(self, path: Path, version: int) -> None:
        self.path = path
        self.version = version

    @cached_property
    def _parsed(self) -> tuple[ast.Module | None, str, int]:
        try:
            if self.path.stat().st_size > LARGEST_SCRIPT:
                return None, "", 0
            tree = ast.parse(self.path.read_bytes(), filename=self.path.name)
            compile(tree, self.path.name, "exec", dont_inherit=True)  # what only the compiler refuses; nothing runs
            return tree, "", 0
        except SyntaxError as error:
            if "encoding" in str(error) or "utf-8" in str(error):  # Triton's own Python decodes more gently
                return self._latin(str(error))
            return None, f"{type(error).__name__}: {error.msg}", error.lineno or 0
        except (OSError, ValueError, RecursionError, MemoryError) as error:
            return None, f"{type(error).__name__}: {error}", 0

    def _latin(self, reason: str) -> tuple[ast.Module | None, str, int]:
        text = self.path.read_bytes().decode("latin-1")
        where = next((number for number, line in enumerate(text.split("\n"), 1) if not line.isascii()), 0)
        comment = all(line.isascii() or "#" in line.split('"')[0] for line in text.split("\n"))
        if comment:
            try:
                return ast.parse(text), "", 0
            except SyntaxError as error:
                return None, f"SyntaxError: {error.msg}", error.lineno or 0
        return None, f"SyntaxError: {reason}", where

    @property
    def tree(self) -> ast.Module | None:
        return self._parsed[0]

    @property
    def error(self) -> str:
        """Why Python cannot compile it; "" when it can."""
        return self._parsed[1]

    @property
    def error_line(self) -> int:
        return self._parsed[2]

    @cached_property
    def model_class(self) -> ast.ClassDef | None:
        """The class that Triton looks for, when it is written in this file."""
        return next((one for one in _top(self.tree) if isinstance(one, ast.ClassDef) and one.name == CLASS), None)

    @cached_property
    def brings_class(self) -> bool:
        """The class comes from an import or an assignment, so nothing can be said about it."""
        for one in _top(self.tree):
            if isinstance(one, ast.ImportFrom) and any((n.asname or n.name) in (CLASS, "*") for n in one.names):
                return True
            if isinstance(one, (ast.Assign, ast.AnnAssign)):
                targets = one.targets if isinstance(one, ast.Assign) else [one.target]
                if any(isinstance(target, ast.Name) and target.id == CLASS for target in targets):
                    return True
        return False

    @cached_property
    def inherits(self) -> bool:
        return bool(self.model_class and (self.model_class.bases or self.model_class.keywords))

    def method(self, name: str) -> Function | None:
        body = self.model_class.body if self.model_class else []
        return next((one for one in body if isinstance(one, Function) and one.name == name), None)

    @cached_property
    def methods(self) -> set[str]:
        """All names that the class body binds."""
        names = set()
        for one in self.model_class.body if self.model_class else []:
            if isinstance(one, (Function, ast.ClassDef)):
                names.add(one.name)
            for target in one.targets if isinstance(one, ast.Assign) else ():
                names |= {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}
        return names

    @cached_property
    def imports(self) -> dict[str, int]:
        """Packages imported when the file is loaded → line; those inside `try` or `if` may be missing."""
        found: dict[str, int] = {}
        waiting = list(self.tree.body if self.tree else [])
        while waiting:
            one = waiting.pop(0)
            if isinstance(one, ast.Import):
                for name in one.names:
                    found.setdefault(name.name.partition(".")[0], one.lineno)
            elif isinstance(one, ast.ImportFrom) and not one.level and one.module:
                found.setdefault(one.module.partition(".")[0], one.lineno)
            elif isinstance(one, ast.ClassDef):
                waiting += one.body
        return found

    @cached_property
    def outputs(self) -> list[OutputUse]:
        """Output tensors whose name stands in the file as text."""
        found = []
        for call in self._calls():
            if _last_name(call.func) == "Tensor" and len(call.args) >= 2 and _text(call.args[0]) is not None:
                value = call.args[1]
                found.append(OutputUse(_text(call.args[0]), call.lineno, _type_of(value), _is_text_array(value)))
        return found

    @cached_property
    def makes_other_outputs(self) -> bool:
        """Some output's name is computed, so a name that is not in the file proves nothing."""
        makers = [call for call in self._calls() if _last_name(call.func) == "Tensor"]
        dlpack = any(_last_name(call.func) == "from_dlpack" for call in self._calls())
        return dlpack or not makers or any(not call.args or _text(call.args[0]) is None for call in makers)

    @cached_property
    def inputs(self) -> dict[str, int]:
        """Inputs asked for by name → line."""
        return {name: call.lineno for name, call in self._input_calls()}

    def uses_without_check(self, name: str) -> int:
        """The line that reads an input at once, without a look whether it is there; 0 when there is none."""
        if any(self._mentions(node.test, name) for node in self._walk() if isinstance(node, (ast.IfExp, ast.If))):
            return 0
        calls = [call for found, call in self._input_calls() if found == name]
        used = [
            node for node in self._walk() if isinstance(node, ast.Attribute) and any(node.value is c for c in calls)
        ]
        return used[0].lineno if used else 0

    def _mentions(self, node: ast.AST, name: str) -> bool:
        return any(_text(one) == name for one in ast.walk(node))

    def _input_calls(self) -> Iterator[tuple[str, ast.Call]]:
        short = {"get_input_tensor_by_name"}
        for node in self._walk():  # g = pb_utils.get_input_tensor_by_name
            if isinstance(node, ast.Assign) and _last_name(node.value) == "get_input_tensor_by_name":
                short |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        for call in self._calls():
            if _last_name(call.func) in short and len(call.args) >= 2 and _text(call.args[1]) is not None:
                yield _text(call.args[1]), call

    def _calls(self) -> Iterator[ast.Call]:
        return (node for node in self._walk() if isinstance(node, ast.Call))

    def _walk(self) -> list[ast.AST]:
        if "_nodes" not in self.__dict__:
            self._nodes = list(ast.walk(self.tree)) if self.tree else []
        return self._nodes

    def mentions(self, word: str) -> bool:
        """Whether a name or attribute occurs anywhere."""
        return any(_last_name(node) == word for node in self._walk())


def returns_of(function: Function) -> list[ast.Return]:
    """The return statements of a function, not those of functions inside it."""
    found, waiting = [], list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return):
            found.append(node)
        if not isinstance(node, (*Function.__args__, ast.Lambda, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)
    return found


def ends_openly(body: list[ast.stmt]) -> bool:
    """Whether control can reach the end of these statements without `return` or `raise`."""
    last = body[-1] if body else None
    if isinstance(last, (ast.Return, ast.Raise)):
        return False
    if isinstance(last, ast.If):
        return ends_openly(last.body) or ends_openly(last.orelse)
    if isinstance(last, (ast.With, ast.AsyncWith)):
        return ends_openly(last.body)
    if isinstance(last, ast.Try):
        after = last.orelse or last.body
        if last.finalbody and not ends_openly(last.finalbody):
            return False
        return ends_openly(after) or any(ends_openly(handler.body) for handler in last.handlers)
    if isinstance(last, ast.While):
        return not (isinstance(last.test, ast.Constant) and last.test.value)
    return not isinstance(last, ast.Match)


def takes(function: Function, count: int) -> bool:
    """Whether it can be called with so many arguments, `self` included where it has one."""
    static = any(_last_name(one) == "staticmethod" for one in function.decorator_list)
    if any(_last_name(one) not in ("staticmethod", "classmethod") for one in function.decorator_list):
        return True  # a decorator may change everything
    count -= static
    given = len(function.args.posonlyargs) + len(function.args.args)
    needed = given - len(function.args.defaults)
    required = [
        one for one, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if not default
    ]
    return not required and needed <= count and (count <= given or function.args.vararg is not None)


def _top(tree: ast.Module | None) -> list[ast.stmt]:
    """The statements at the file's top level, those under `if`, `try` and `with` too."""
    found: list[ast.stmt] = []
    waiting = list(tree.body if tree else [])
    while waiting:
        one = waiting.pop(0)
        found.append(one)
        if isinstance(one, (ast.If, ast.Try, ast.With)):
            waiting += [inner for inner in ast.iter_child_nodes(one) if isinstance(inner, ast.stmt)]
            waiting += [inner for handler in getattr(one, "handlers", ()) for inner in handler.body]
    return found


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _type_of(value: ast.expr) -> str:
    """The type that `x.astype(np.float64)` or `np.zeros(…, dtype=np.int64)` shows; "" otherwise."""
    if not isinstance(value, ast.Call):
        return ""
    name = _last_name(value.func)
    shown: ast.expr | None = None
    if name == "astype" and value.args:
        shown = value.args[0]
    elif name in ("array", "asarray", "zeros", "ones", "full", "empty"):
        shown = next((one.value for one in value.keywords if one.arg == "dtype"), None)
        place = 2 if name == "full" else 1
        shown = shown or (value.args[place] if len(value.args) > place else None)
    if shown is None:
        return ""
    word = _text(shown) or _last_name(shown)
    known = NUMPY_TYPES.get(word, "")
    return f"TYPE_{known}" if known else ""


def _is_text_array(value: ast.expr) -> bool:
    """`np.array([text.decode() for …])` without a dtype: numpy makes an array of str."""
    if not (isinstance(value, ast.Call) and _last_name(value.func) in ("array", "asarray")):
        return False
    if len(value.args) != 1 or value.keywords:
        return False
    first = value.args[0]
    element = first.elt if isinstance(first, (ast.ListComp, ast.GeneratorExp)) else None
    if isinstance(first, ast.List) and first.elts:
        element = first.elts[0]
    if isinstance(element, ast.JoinedStr) or (element is not None and _text(element) is not None):
        return True
    return isinstance(element, ast.Call) and _last_name(element.func) in ("decode", "str")
