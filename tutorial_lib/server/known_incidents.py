"""What goes wrong beside the configuration: Python models, the machine, the start of the server."""

from __future__ import annotations

from tutorial_lib.server.known_failures import Known, known

PYTHON = (
    known(
        r"Python model file not found in '(?P<p>[^']*)'",
        "there is no {p}; Triton waits for its stub for ever.",
        "Call the file model.py, or name it in default_model_filename; restart the server.",
        "model-file-name",
    ),
    known(
        r"SyntaxError: (?P<w>.*?) \((?P<f>[^,)]*), line (?P<n>\d+)\)",
        "{f} line {n} is not Python: {w}.",
        "Correct the line.",
        "python-model",
    ),
    known(
        r"has no attribute 'TritonPythonModel'",
        "model.py defines no class TritonPythonModel.",
        "Call the class TritonPythonModel.",
        "python-model",
    ),
    known(
        r"TritonPythonModel\.initialize\(\) takes|TritonPythonModel\.execute\(\) takes",
        "a method of TritonPythonModel takes other arguments than Triton gives.",
        "Write def initialize(self, args) and def execute(self, requests).",
        "python-model",
    ),
    known(
        r"auto_complete_config function in model .* must return",
        "auto_complete_config() does not return the configuration.",
        "End it with return auto_complete_model_config.",
        "python-model",
    ),
    known(
        r"does not implement `execute` method",
        "the class has no execute(); it loads, and fails on the first request.",
        "Add def execute(self, requests).",
        "python-model",
    ),
    known(
        r"'NoneType' object has no attribute 'as_numpy'",
        "an optional input was not sent: get_input_tensor_by_name() returned None.",
        "Ask `if tensor is not None` first, or take optional: true out of config.pbtxt.",
        "optional-input",
    ),
    known(
        r"NumPy dtype is not supported",
        "the model returned an array of a type Triton has no name for, such as a str array.",
        "Return np.array([...], dtype=object) of bytes for text, else cast to the type in config.pbtxt.",
        "python-output",
    ),
    known(
        r"Expected a list in the execute return|Expected an 'InferenceResponse'|execute function must return None",
        "execute() did not return what Triton waits for.",
        "Return one InferenceResponse for each request (a decoupled model returns None).",
        "no-return",
    ),
    known(
        r"ModuleNotFoundError: No module named '(?:model|\.)'",
        "the stub does not find the model's own file: an instance group's name has a space in it, or "
        "default_model_filename a folder called '.'.",
        "Write plain names; ./workshop lint names the line.",
    ),
    known(
        r"(?:ModuleNotFoundError|ImportError): No module named 'numpy'",
        "the Python that runs the model finds no numpy.",
        "Put the environment's bin first on PATH when you start Triton, or give EXECUTION_ENV_PATH.",
        "python-package",
    ),
    known(
        r"(?:ModuleNotFoundError|ImportError): (?:No module named '(?P<m>[^']*)')?",
        "model.py imports '{m}', which the Python that runs the model does not have.",
        "Install it there (in a container: in the image), or give EXECUTION_ENV_PATH.",
        "python-package",
    ),
    known(
        r"Failed to get the canonical path for (?P<p>\S*\w)",
        "EXECUTION_ENV_PATH names {p}, which is not there.",
        "Pack the environment to that place, or delete the parameter.",
        "environment-archive",
    ),
    known(
        r"FileNotFoundError: .*?'(?P<f>[^']*)'",
        "the model opens {f}, which is not there where the server runs.",
        "Keep files in the version folder and open them relative to args['model_repository'] and ['model_version'].",
    ),
    known(
        r"Stub process '(?P<m>[^']*)' is not healthy",
        "the process of the Python model '{m}' died (out of memory, or a crash in a library); Triton still says ready.",
        "Unload and load the model; look above for what the process printed last.",
    ),
    known(
        r"'--shm-size'|(?:shared memory|shm).*No space left|Failed to (?:increase|initialize).*shared memory|Bus error",
        "the shared memory is too small: every Python instance needs a share of /dev/shm.",
        "Start the container with --shm-size=1g; on Kubernetes mount a memory-backed emptyDir at /dev/shm.",
    ),
    known(
        r"cannot reshape array of size 0|output tensor shape does not match size of output",
        "the model's outputs arrive empty, as with numpy 2 in the Python that runs it.",
        "Use numpy < 2 with this server's Python backend.",
    ),
    known(
        r"libpython3\S*: cannot open shared object file",
        "the stub does not find the shared libpython of its Python version.",
        "Put the folder with libpython on LD_LIBRARY_PATH, or install the libpython package; ./workshop doctor "
        "names it.",
    ),
    known(
        r"\b(?P<e>[A-Z]\w*(?:Error|Exception)): (?P<w>[^\n\"]*)",
        "the model's Python code raised {e}: {w}",
        "Correct it at the frame named below, if there is one.",
        "",
    ),
)

SERVER = (
    known(
        r"failed to start (?P<s>\w+) service: .*?(?:Socket '(?P<a>[^']*)' )?already in use",
        "the {s} port ({a}) is taken, often by a server forgotten in another notebook.",
        "Stop the other one, or give another port; serve() takes a free one by itself.",
    ),
    known(
        r"No address added out of total|Failed to add any wildcard listeners|bind.*address already in use",
        "an address cannot be listened on: its port is taken, or it is not this machine's.",
        "Stop the other one, or give another port; serve() takes a free one by itself.",
    ),
    known(
        r"'--load-model' requires setting '--model-control-mode=explicit'",
        "--load-model works in explicit model control only.",
        "Add --model-control-mode=explicit; serve(models=[…]) sets both.",
    ),
    known(
        r"explicit model load / unload is not allowed",
        "a client asked to load or unload a model, and the server is not in explicit model control.",
        "Start it with --model-control-mode=explicit.",
    ),
    known(
        r"(?P<o>--[\w-]+)': (?:unrecognized|invalid)|unrecognized option '(?P<u>[^']*)'",
        "tritonserver has no flag {u}.",
        "Check the spelling against tritonserver --help.",
    ),
    known(
        r"repository path is not a valid directory|failed to poll model repository|failed to stat .*model.repository",
        "the model repository is not where the server looks.",
        "Give the folder that holds the model folders; in a container, the path it is mounted at.",
    ),
    known(
        r"port is already allocated",
        "Docker cannot publish a port: another container or program has it.",
        "Stop that one, or publish another: -p 9000:8000.",
    ),
    known(
        r"pull access denied|manifest unknown|manifest for \S+ not found|[Ii]nvalid reference format",
        "Docker finds no image of this name and tag.",
        "Check it: …/tritonserver:YY.MM-py3, with a month that was released.",
    ),
    known(
        r"exec format error",
        "the image is for another kind of processor than this machine's.",
        "Take the image for this one: docker pull --platform linux/amd64 or linux/arm64.",
    ),
    known(
        r"^Killed\b",
        "the server was killed from outside, by the kernel if memory ran out.",
        "Look at dmesg or docker inspect (OOMKilled); give it more memory, or serve fewer models and instances.",
    ),
    known(
        r"parsePlan|deserializeCudaEngine|serialization version|Version tag does not match|plan file to auto complete|"
        r"engine plan file is not compatible",
        "the TensorRT plan was built by another TensorRT version, or for another GPU.",
        "Build it again with the trtexec of the serving image, on the GPU that serves it.",
        "plan-version",
    ),
    known(
        r"unable to load shared library: (?P<l>[^\s:]+): cannot open",
        "a library that the backend needs is not on this server: {l}.",
        "Take an image that has the backend whole, or put the library on LD_LIBRARY_PATH.",
    ),
    known(
        r"could not select device driver",
        "Docker cannot hand a GPU to the container: the NVIDIA container toolkit is missing.",
        "Install nvidia-container-toolkit and restart Docker, or leave --gpus out.",
    ),
    known(
        r"CUDA driver version is insufficient|[Nn]vidia driver on your system is too old|NVIDIA Driver Release \S+ or",
        "the machine's NVIDIA driver is older than this image needs.",
        "Update the driver, or take an older image; ./workshop doctor compares the two.",
    ),
    known(
        r"CUDA out of memory|CUDA failure 2: out of memory|"
        r"cudaMalloc.*out of memory|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|OutOfMemory",
        "the GPU's memory is full.",
        "Fewer instances, a smaller max_batch_size, or another GPU.",
    ),
    known(
        r"error while loading shared libraries: (?P<l>[^:]*)|symbol lookup error",
        "the program does not find the library {l}.",
        "Check LD_LIBRARY_PATH; start it through serve(), which sets it.",
    ),
    known(
        r"terminate called after throwing an instance of 'std::out_of_range'",
        "the server ended at a number that does not fit into 64 bits, such as the name of a version folder.",
        "Rename the folder; ./workshop lint names it.",
        "version-folder",
    ),
    known(
        r"terminate called after throwing an instance of 'std::length_error'",
        "the server ended while it read a text file that is none, such as a folder named by label_filename.",
        "Put the label file there; ./workshop lint names it.",
        "label-file",
    ),
    known(
        r"Signal \((?P<n>\d+)\) received|Segmentation fault|terminate called",
        "the server itself crashed (signal {n}).",
        "Look at the lines before: the model or backend that ran last.",
    ),
    known(
        r"RESOURCE_EXHAUSTED|Received message larger than max",
        "a gRPC message is larger than a limit (4 MB by default).",
        "Raise max_receive_message_length and max_send_message_length in the client.",
    ),
    known(
        r"[Pp]ermission denied",
        "a file or folder may not be read by the user the server runs as.",
        "chmod -R a+rX the repository, or run the container with your user id.",
    ),
)
INCIDENTS: tuple[Known, ...] = (*PYTHON[:-1], *SERVER, PYTHON[-1])
