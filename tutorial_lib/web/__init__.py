"""A web application as a server of its own: a child process on a loopback port that ends with its owner."""

from tutorial_lib.web.server import WebServer, start_app, stop_all

__all__ = ["WebServer", "start_app", "stop_all"]
