"""What Triton says about folders, names, versions and backends, in words and with the fix."""

from __future__ import annotations

from tutorial_lib.server.known_failures import known

LAYOUT = (
    known(
        r"\(non ascii codepoint\)",
        "a byte order mark, or another letter beyond ASCII outside quotes and comments.",
        "Save config.pbtxt as UTF-8 without a byte order mark; look at this place for a curly quote.",
        "text-encoding",
    ),
    known(
        r"unexpected directory name '(?P<d>[^']*)' for model '(?P<m>[^']*)'",
        "the folder is called '{d}', its config.pbtxt says name: \"{m}\".",
        "Delete the name line (it is optional), or rename the folder.",
        "name-differs",
    ),
    known(
        r"Could not determine backend for model '(?P<m>[^']*)'",
        "the folder '{m}' says nowhere which backend runs it; it may be no model at all.",
        'Add backend: "…" to its config.pbtxt, or move the folder out of the repository.',
        "stray-folder",
    ),
    known(
        r"at least one version must be available under the version policy of model '(?P<m>\.[^']*)'",
        "the folder '{m}' is no model; Triton takes every folder of the repository for one.",
        "Move the models out of a folder that git or a notebook uses, or name the models to load.",
        "stray-folder",
    ),
    known(
        r"at least one version must be available under the version policy of model '(?P<m>[^.'][^']*)'",
        "there is no version folder that version_policy lets it serve.",
        "Put the model into a folder with a number, such as 1/, or correct version_policy.",
        "version-folder",
    ),
    known(
        r"version (?P<v>-?\d+) is specified for model '(?P<m>[^']*)', but the version directory is not present",
        "version_policy names version {v}, which has no folder.",
        "Make the folder, or take {v} out of version_policy.",
        "version-policy",
    ),
    known(
        r"unable to find backend library for backend '(?P<b>[^']*)'",
        "this server has no backend called '{b}'.",
        'Write one it has, such as backend: "onnxruntime" or "python"; onnx, ort and onnxruntime_onnx are no backends.',
        "unknown-backend",
    ),
    known(
        r"unexpected platform type '?(?P<b>[^' ]*)",
        "'{b}' is no platform.",
        'Delete the platform line and write backend: "onnxruntime" (or the one you mean).',
        "unknown-backend",
    ),
    known(
        r"unexpected 'platform' and 'backend' pair, got:(?P<p>[^\"]*)",
        "platform and backend contradict each other: {p}.",
        "Keep backend, delete platform.",
        "unknown-backend",
    ),
    known(
        r"must specify 'platform' or 'backend'",
        "config.pbtxt names no backend.",
        'Add backend: "…".',
        "unknown-backend",
    ),
    known(
        r"not unique across all model repositories|model appears in two or more repositories",
        "two repositories hold a model of this name.",
        "Rename one of the two folders.",
    ),
    known(
        r"model not found in any model repository",
        "no repository has a folder of this name.",
        "Check the name, and that the repository is the folder above the model's.",
    ),
    known(
        r"default_model_filename '(?P<f>[^']*)' points outside",
        "default_model_filename leads out of the version folder: {f}.",
        "Put the file into the version folder and give its bare name.",
        "model-path",
    ),
    known(
        r"failed to open text file for read \S*config\.pbtxt",
        "this server wants a config.pbtxt for the model, and there is none that it can read.",
        "Write one (./workshop config MODEL.onnx), or start the server without --disable-auto-complete-config.",
    ),
    known(
        r"failed to open text file for read (?P<f>(?:(?!/warmup/|/initial_state/)\S)+): No such file",
        "the label file is not there: {f}.",
        "Put it beside config.pbtxt, or take label_filename out.",
        "label-file",
    ),
)
