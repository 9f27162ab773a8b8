"""TorchServe around the bench's ONNX file: archive, configuration, start; runs in an environment of its own."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

BIN = Path(sys.executable).parent
MODEL = {"defaultVersion": True, "marName": "resnet.mar", "minWorkers": 1, "maxWorkers": 1, "batchSize": 16,
         "maxBatchDelay": 1, "responseTimeout": 60}  # fmt: skip


def main(folder: Path) -> None:
    handler = Path(__file__).with_name("torchserve_handler.py")
    archive = ["--model-name", "resnet", "--version", "1.0", "--handler", str(handler), "--export-path", str(folder)]
    subprocess.run([BIN / "torch-model-archiver", *archive], check=True)
    ports = [os.environ[name] for name in ("BENCH_PORT", "BENCH_PORT_2", "BENCH_PORT_3")]
    lines = [
        *(f"{name}_address=http://127.0.0.1:{port}"
          for name, port in zip(("inference", "management", "metrics"), ports, strict=True)),
        f"model_store={folder}",
        "load_models=resnet.mar",
        "disable_token_authorization=true",
        f"models={json.dumps({'resnet': {'1.0': MODEL}})}",
    ]  # fmt: skip
    (folder / "config.properties").write_text("\n".join(lines))
    command = ["--start", "--foreground", "--ncs", "--disable-token-auth"]
    command += ["--ts-config", str(folder / "config.properties"), "--model-store", str(folder)]
    environment = os.environ | {"LOG_LOCATION": str(folder), "METRICS_LOCATION": str(folder)}
    environment["PATH"] = f"{BIN}{os.pathsep}{environment['PATH']}"
    subprocess.run([BIN / "torchserve", *command], check=True, cwd=folder, env=environment)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        main(Path(place))
