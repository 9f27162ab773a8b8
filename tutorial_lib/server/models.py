"""The models a server is started for: whether they can be loaded, and whether they were."""

from __future__ import annotations

import warnings

from tutorial_lib.errors import RepositoryError
from tutorial_lib.repository.layout import MODEL_NAME, Model, hidden_folders, models_of
from tutorial_lib.server.not_loaded import in_words
from tutorial_lib.server.options import ServerOptions
from tutorial_lib.server.server import Server
from tutorial_lib.server.weights import require_python_file, require_weights

ALL = ("*",)


class ModelNotLoaded(UserWarning):
    """The server runs, but a model it was asked to load did not load."""


def model_folders(options: ServerOptions) -> dict[str, Model]:
    """The models of all repositories, by name."""
    return {model.name: model for repository in options.repositories for model in models_of(repository)}


def check_models(options: ServerOptions) -> None:
    """Check that every model named is there, and what is to be loaded has its weights."""
    there = model_folders(options)
    for name in there if options.models in (None, ALL) else options.models:
        if name not in there:
            raise RepositoryError(
                f"model '{name}': found no such folder in {', '.join(map(str, options.repositories))}; "
                f"there are: {', '.join(there)}.",
                action="Name one of these, or add the model's folder.",
            )
        if not MODEL_NAME.fullmatch(name):
            raise RepositoryError(
                f"model {name!r}: its name has a space, or a character other than ASCII letters, digits, '_', '-' "
                "and '.'; Triton's Python stub cannot be started with it, or its address cannot hold it.",
                action="Rename the folder.",
            )
        require_weights(there[name])
        require_python_file(there[name])


def warn_of_models_not_loaded(server: Server, options: ServerOptions) -> None:
    """Warn of each model the server was started for that is not ready, with the reason."""
    index: dict[str, dict[str, str]] = {}
    for entry in server.control.index():
        if index.get(entry["name"], {}).get("state") != "READY":
            index[entry["name"]] = entry
    wanted = list(model_folders(options) if options.models in (None, ALL) else options.models)
    if options.models == ALL or options.model_control_mode != "explicit":  # Triton takes every folder for a model
        wanted += [folder.name for path in options.repositories for folder in hidden_folders(path)]
    failed = {name: index.get(name, {}) for name in wanted if index.get(name, {}).get("state") != "READY"}
    if failed:
        # a model that could not even be polled is in the index without a reason, or not at all
        unknown = "; ".join(server.decisive_lines()) or "the log does not say why"
        said = server.explain()
        reasons = "\n".join(in_words(name, entry.get("reason") or unknown, said) for name, entry in failed.items())
        warnings.warn(f"not loaded: {reasons}", ModelNotLoaded, stacklevel=6)
