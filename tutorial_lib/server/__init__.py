"""Start, watch and stop a real Triton server, whichever tier it runs on."""

from tutorial_lib.server.container import compose_text, docker_command, shell_text
from tutorial_lib.server.launch import serve
from tutorial_lib.server.models import ModelNotLoaded
from tutorial_lib.server.options import ServerOptions
from tutorial_lib.server.registry import label, servers, stop_all
from tutorial_lib.server.server import Server

__all__ = [
    "ModelNotLoaded",
    "Server",
    "ServerOptions",
    "compose_text",
    "docker_command",
    "label",
    "serve",
    "servers",
    "shell_text",
    "stop_all",
]
