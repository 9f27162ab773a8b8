"""Whatever talks to a server of this machine says that no proxy of the environment may stand between."""

from __future__ import annotations

import ast
import json

import pytest
from IPython.core.inputtransformer2 import TransformerManager

from tutorial_lib.paths import CHECKOUT, NOTEBOOKS

HTTPX = {"get", "post", "put", "patch", "delete", "head", "options", "request", "stream", "Client", "AsyncClient"}
PLACES = [
    path
    for path in (*(CHECKOUT / "tutorial_lib").rglob("*.py"), *NOTEBOOKS.glob("*.ipynb"))
    if any(word in path.read_text() for word in ("httpx", "grpc"))
]


def code_of(path):
    text = path.read_text()
    if path.suffix == ".py":
        return text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    return "\n".join(TransformerManager().transform_cell("".join(cell["source"])) for cell in cells)


def calls_through_a_proxy(code):
    """The calls that would go through one."""
    tree, found = ast.parse(code), []
    grpc_modules = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name.startswith("tritonclient.grpc")
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        whose, name, told = ast.unparse(node.func.value), node.func.attr, {word.arg: word for word in node.keywords}
        if whose == "httpx" and name in HTTPX:
            direct = "trust_env" in told and ast.unparse(told["trust_env"].value) == "False"
        elif name == "insecure_channel":
            direct = "options" in told
        elif name == "InferenceServerClient" and whose in grpc_modules:
            direct = "channel_args" in told
        else:
            continue
        if not direct:
            found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("path", PLACES, ids=lambda path: path.stem)
def test_no_call_goes_through_a_proxy(path):
    code = code_of(path)
    assert not calls_through_a_proxy(code)
    if "insecure_channel(" in code or "channel_args=" in code:
        assert '("grpc.enable_http_proxy", 0)' in code


def test_each_kind_of_call_is_seen():
    for call in ("httpx.get(url)", "httpx.Client(trust_env=True)", "grpc.aio.insecure_channel(address)"):
        assert calls_through_a_proxy(call)
    assert calls_through_a_proxy(
        "import tritonclient.grpc.aio as aio\nasync def f():\n    aio.InferenceServerClient(a)"
    )
    assert not calls_through_a_proxy("httpx.post(url, trust_env=False)")
