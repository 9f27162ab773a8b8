"""Netron's graph inside a notebook."""

from __future__ import annotations

import nbformat
from nbformat.v4 import new_code_cell, new_notebook

CODE = """from tutorial_lib import catch_up
from tutorial_lib.export import show_netron

show_netron(catch_up("04").exports / "densenet_onnx.onnx")"""


def test_the_graph_is_drawn(pages, copies):
    kernel = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    small = new_notebook(cells=[new_code_cell(CODE, id="show")], metadata={"kernelspec": kernel})
    nbformat.write(small, copies / "netron.ipynb")
    notebook = pages("netron")
    notebook.run("show")
    assert notebook.errors() == []
    frame = notebook.cell("show").frame_locator("iframe")
    frame.get_by_role("button", name="Accept").click()
    nodes = frame.locator("#target .node, .node")
    nodes.first.wait_for(state="attached")
    assert nodes.count() > 20
    notebook.until(frame.locator("body"), "data_0")
    notebook.shot("netron")
