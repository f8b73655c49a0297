"""Find out the format of a model's file from its first bytes, and whether the file is complete.

    written_as(Path("1/model.pt"))       # "state dict"
    damage(Path("1/model.onnx"))         # "is a git-LFS pointer, not the file itself"
    how_to_convert("keras", "tensorflow", "model.keras")

An advice about a damaged copy needs a reason in the file itself; `damage` gives that reason. A
complete file of another format must be converted: another name does not help. `how_to_convert`
gives the line of code for that.
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

#: The first bytes of a file → its format.
_STARTS = (
    (b"\x89HDF\r\n\x1a\n", "hdf5"),
    (b"GGUF", "gguf"),
    (b"CBM1", "catboost"),
    (b"ftrt", "engine"),
    (b"ptrt", "engine"),
    (b"vtrt", "engine"),
    (b"tree\n", "lightgbm"),
    (b"\x93NUMPY", "npy"),
)
#: The ending of a file → its format, for files that the first bytes do not identify.
ENDINGS = {
    ".keras": "keras",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".safetensors": "safetensors",
    ".pkl": "pickle",
    ".pickle": "pickle",
    ".joblib": "pickle",
    ".sav": "pickle",
    ".cbm": "catboost",
    ".gguf": "gguf",
    ".ggml": "gguf",
    ".tflite": "tflite",
    ".onnx": "onnx",
    ".onx": "onnx",
    ".pt": "torch",
    ".pth": "torch",
    ".ckpt": "checkpoint",
    ".bin": "weights",
    ".torchscript": "torchscript",
    ".jit": "torchscript",
    ".ts": "torchscript",
    ".pt2": "exported",
    ".engine": "engine",
    ".trt": "engine",
    ".plan": "engine",
    ".xml": "ir",
    ".dali": "dali",
    ".pb": "graphdef",
    ".graphdef": "graphdef",
    ".npy": "npy",
    ".npz": "npy",
    ".json": "xgboost_json",
    ".ubj": "xgboost_ubj",
    ".txt": "lightgbm",
    ".tl": "treelite_checkpoint",
}
#: The formats → their names as a reader knows them.
NAMES = {
    "keras": "a file of Keras",
    "hdf5": "an HDF5 file, as Keras writes it",
    "safetensors": "a file of weights alone (safetensors)",
    "state dict": "a file of torch.save: weights or a pickled module, without code",
    "exported": "a file of torch.export or AOTInductor",
    "torchscript": "TorchScript",
    "torch": "a file of PyTorch",
    "pickle": "a pickled Python object",
    "catboost": "a model of CatBoost",
    "gguf": "a file of llama.cpp (GGUF)",
    "tflite": "a model of TensorFlow Lite",
    "onnx": "an ONNX model",
    "engine": "an engine of TensorRT",
    "ir": "OpenVINO's XML",
    "dali": "a DALI pipeline",
    "graphdef": "a graph of TensorFlow",
    "npy": "a file of numpy",
    "checkpoint": "a checkpoint: weights for going on with training",
    "weights": "a file of weights alone",
    "savedmodel": "a SavedModel",
    "xgboost_json": "a JSON file",
    "xgboost_ubj": "a UBJSON file",
    "lightgbm": "a text file of LightGBM",
    "treelite_checkpoint": "a checkpoint of Treelite",
    "zip": "a zip archive",
}
#: The formats that a backend reads as they are. FIL's formats are the values of its model_type.
READS = {
    "onnxruntime": {"onnx"},
    "pytorch": {"torchscript"},
    "openvino": {"ir"},
    "tensorflow": {"savedmodel", "graphdef"},
    "tensorrt": {"engine"},
    "dali": {"dali"},
}
_TO_TORCHSCRIPT = 'torch.jit.script(module.eval()).save("model.pt")'
_STATE = {
    "safetensors": 'safetensors.torch.load_file("{file}")',
    "state dict": 'torch.load("{file}", map_location="cpu")',
    "checkpoint": 'torch.load("{file}", map_location="cpu")["state_dict"]',
}
_STATE["weights"] = _STATE["torch"] = _STATE["state dict"]
_KERAS = 'keras.models.load_model("{file}")'
_SKLEARN = (
    'treelite.sklearn.import_model(joblib.load("{file}")).serialize("checkpoint.tl") for a forest '
    'of scikit-learn, with model_type "treelite_checkpoint"; a model of XGBoost or LightGBM saves '
    'itself: model.save_model("xgboost.json"), model.booster_.save_model("model.txt")'
)
#: (format, backend) → the line of code that converts. "" stands for any other backend.
_CONVERSIONS = {
    ("keras", "tensorflow"): f'{_KERAS}.export("model.savedmodel")',
    ("keras", "onnxruntime"): f'{_KERAS}.export("model.onnx", format="onnx")',
    ("keras", "openvino"): f'{_KERAS}.export("model.savedmodel"), then '
    'ov.save_model(ov.convert_model("model.savedmodel"), "model.xml")',
    ("checkpoint", "tensorflow"): 'make the model in Python, model.load_weights("{file}"), then '
    'model.export("model.savedmodel")',
    ("weights", "tensorflow"): "make the model in Python, load the weights into it, then "
    'model.export("model.savedmodel")',
    ("graphdef", "tensorflow"): 'no conversion is needed: write platform: "tensorflow_graphdef", '
    "and name it model.graphdef",
    ("pickle", "fil"): _SKLEARN,
    ("pickle", "onnxruntime"): 'skl2onnx.to_onnx(joblib.load("{file}"), rows), and write its '
    "SerializeToString() into model.onnx (for a model of scikit-learn)",
    ("pickle", "pytorch"): f'module = torch.load("{{file}}"), then {_TO_TORCHSCRIPT}',
    ("catboost", "onnxruntime"): 'CatBoost().load_model("{file}").save_model("model.onnx", '
    'format="onnx")',
    ("catboost", "fil"): 'CatBoost().load_model("{file}").save_model("model.onnx", '
    'format="onnx"), and serve it with backend: "onnxruntime". FIL reads no CatBoost',
    ("tflite", "openvino"): 'ov.save_model(ov.convert_model("{file}"), "model.xml")',
    ("onnx", "openvino"): 'ov.save_model(ov.convert_model("{file}"), "model.xml")',
    ("onnx", "tensorrt"): "trtexec --onnx={file} --saveEngine=model.plan, on the GPU that serves "
    "it",
    ("graphdef", "openvino"): 'ov.save_model(ov.convert_model("{file}"), "model.xml")',
    ("exported", "pytorch"): f"module = the module that was exported, then {_TO_TORCHSCRIPT}",
    **{
        (name, "pytorch"): f"make the module in Python, module.load_state_dict({state}), then "
        + _TO_TORCHSCRIPT
        for name, state in _STATE.items()
    },
    **{
        (name, "onnxruntime"): f"make the module in Python, module.load_state_dict({state}), then "
        'torch.onnx.export(module.eval(), (example,), "model.onnx")'
        for name, state in _STATE.items()
        if name != "weights"
    },
    **{
        (name, "openvino"): f"make the module in Python, module.load_state_dict({state}), then "
        'ov.save_model(ov.convert_model(module, example_input=example), "model.xml")'
        for name, state in _STATE.items()
        if name != "weights"
    },
    ("torchscript", "onnxruntime"): "torch.onnx.export(module.eval(), (example,), "
    '"model.onnx"), from the module in Python',
    ("torchscript", "openvino"): 'ov.save_model(ov.convert_model(torch.jit.load("{file}"), '
    'example_input=example), "model.xml")',
}
for _backend in ("tensorflow", "onnxruntime", "openvino"):
    _CONVERSIONS["hdf5", _backend] = _CONVERSIONS["keras", _backend]
#: Formats that cannot be converted → what to do instead.
_NO_WAY = {
    "gguf": "No backend of Triton reads it. Take the same model in its original format: with "
    'backend: "vllm" its folder of config.json and *.safetensors.',
    "engine": "An engine cannot be turned back: take the model from which it was built.",
    "tflite": "It cannot be turned back: export the model from which it was made. OpenVINO reads "
    "it: ov.convert_model.",
}
#: Formats that a backend of Triton reads as they are → the backend, and the usual name.
_HOMES = {
    "onnx": ("onnxruntime", "model.onnx"),
    "torchscript": ("pytorch", "model.pt"),
    "ir": ("openvino", "model.xml"),
    "savedmodel": ("tensorflow", "model.savedmodel"),
    "dali": ("dali", "model.dali"),
    "lightgbm": ("fil", "model.txt"),
    "treelite_checkpoint": ("fil", "checkpoint.tl"),
}
#: How many bytes of a file are read first.
_HEAD = 4096


def head(path: Path, size: int = _HEAD) -> bytes:
    """A file's first bytes; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def written_as(path: Path) -> str:
    """The format of a file or folder, a key of NAMES; "" if bytes and ending do not show it.

    written_as(Path("1/model.bin"))  # "state dict"
    """
    if path.is_dir():
        there = any((path / f"saved_model.{end}").is_file() for end in ("pb", "pbtxt"))
        return "savedmodel" if there else ""
    if path.suffix == ".index" or ".data-00000-of-" in path.name:
        return "checkpoint"
    return by_bytes(path) or ENDINGS.get(path.suffix.lower(), "")


def by_bytes(path: Path) -> str:
    """A file's format by its bytes alone; "" if they do not show it.

    by_bytes(Path("1/model.pt"))  # "torchscript"
    """
    start = head(path)
    for first, name in _STARTS:
        if start.startswith(first):
            return name
    if start[4:8] == b"TFL3":
        return "tflite"
    if start.startswith(b"PK\x03\x04"):
        return _archive(path)
    if start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        # torch.save before PyTorch 1.6: a pickle that begins with this number.
        return "state dict" if b"\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19" in start else "pickle"
    length = int.from_bytes(start[:8], "little")
    if 0 < length < 16 << 20 and start[8:9] == b"{" and start[9:].lstrip()[:1] in (b'"', b"}"):
        return "safetensors"
    text = start.lstrip()
    if text[:5] == b"<?xml" or text[:4] == b"<net":
        return "ir"
    if text[:1] == b"{":
        return "xgboost_json" if text[1:].lstrip()[:1] in (b'"', b"}") else "xgboost_ubj"
    # An ONNX model begins with ir_version and mostly producer_name.
    if re.match(rb"\x08[\x01-\x1f][\x12\x3a\x42]", start):
        return "onnx"
    return ""


def _archive(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.rpartition("/")[2] for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile):
        return ""
    if names & {"archive_format", "serialized_exported_program.json"}:
        return "exported"
    if "constants.pkl" in names:
        return "torchscript"
    if "data.pkl" in names:
        return "state dict"
    if {"metadata.json", "config.json"} <= names:
        return "keras"
    return "npy" if names and all(name.endswith(".npy") for name in names) else "zip"


def how_to_convert(written: str, backend: str, file: str) -> str:
    """The instruction for a file that has another format than the backend reads.

    how_to_convert("keras", "tensorflow", "model.keras")
    # Convert it: keras.models.load_model("model.keras").export("model.savedmodel").
    """
    if line := _CONVERSIONS.get((written, backend), ""):
        file = _own_name(written, re.sub(r"\.(index|data-\d+-of-\d+)$", "", file))
        alone = " Weights alone are not enough: the file has no code." if written in _STATE else ""
        return f"Convert it: {line.format(file=file)}.{alone}"
    if written in _NO_WAY:
        return _NO_WAY[written]
    if written in _HOMES:
        other, name = _HOMES[written]
        return f'Serve it with backend: "{other}", under the name {name}.'
    return (
        f"The backend {backend} does not read this format: export the model anew in a format that "
        'it reads, or load the file in a Python model (backend: "python").'
    )


#: The advice for a file that ends too early, or is empty.
_AGAIN = (
    "Copy it again, and compare its size with the original's. If the original is no longer, "
    "export it again."
)


def _own_name(written: str, file: str) -> str:
    """The name that a file needs for its framework: Keras reads only `.keras` and `.h5`."""
    own = {"keras": ".keras", "hdf5": ".h5", "tflite": ".tflite"}.get(written)
    stem = file.rpartition(".")[0] or file
    return file if own is None or ENDINGS.get(Path(file).suffix) == written else f"{stem}{own}"


def damage(path: Path) -> tuple[str, str] | None:
    """Why a file cannot be the model's file (damaged, a web page, …), and what to do; else None.

    damage(Path("1/model.onnx"))  # ("is a git-LFS pointer, not the file itself", "Fetch it: …")
    """
    try:
        size = path.stat().st_size
    except OSError:
        return None
    if size == 0:
        return "is empty", _AGAIN
    start = head(path)
    if start.startswith(b"version https://git-lfs"):
        real = re.search(rb"^size (\d+)", start, re.MULTILINE)
        has = f" (which has {int(real[1]):,} bytes)" if real else ""
        return (
            f"is a git-LFS pointer, not the file itself{has}",
            "Fetch the file: `git lfs pull` in the repository that it came from. Then copy it "
            "again.",
        )
    if re.match(rb"\s*(<!doctype html|<html)", start, re.IGNORECASE):
        return (
            "is a web page, not a model",
            "Download it again from the address of the file itself (on a hub it has /resolve/ or "
            "/raw/ where the page has /blob/), and look at the first bytes: `head -c 100 FILE`.",
        )
    if start.startswith(b"\x1f\x8b"):
        return "is packed with gzip", "Unpack it: `gunzip`, or `tar -xzf` for several files."
    why = _cut_off(path, start, size)
    return (why, _AGAIN) if why else None


def _cut_off(path: Path, start: bytes, size: int) -> str:
    """The reason to think that a file ends too early; "" if there is none."""
    if start.startswith(b"PK\x03\x04"):
        return "" if zipfile.is_zipfile(path) else "is a zip archive that ends too early"
    written, end = by_bytes(path), _tail(path, size).rstrip()
    if written in ("xgboost_json", "xgboost_ubj") and not end.endswith(b"}"):
        return "ends too early: its last brace is missing"
    if written == "lightgbm" and b"end of trees" not in _tail(path, size, 1 << 20):
        return "ends too early: it has no line `end of trees`"
    if written == "ir" and not end.endswith((b"</net>", b"-->")):
        return "ends too early: </net> is missing"
    if written == "safetensors":
        return _short_of(size, _safetensors(path, start))
    if path.suffix == ".bin" and (described := path.with_suffix(".xml")).is_file():
        return _short_of(size, _openvino(described))
    begins = written == "onnx" or (
        path.name == "saved_model.pb" and start.startswith(b"\x08\x01\x12")
    )
    return _short_of(size, _protobuf(path, size)) if begins else ""


def _openvino(path: Path) -> int:
    """How many bytes of weights OpenVINO's XML file needs."""
    text = head(path, 64 << 20)
    places = re.findall(rb'<data [^>]*\boffset="(\d+)"[^>]*\bsize="(\d+)"', text)
    return max((int(offset) + int(count) for offset, count in places), default=0)


def _tail(path: Path, size: int, count: int = 64) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, size - count))
        return file.read()


def _short_of(size: int, wanted: int | None) -> str:
    if wanted is None or wanted <= size:
        return ""
    return f"ends too early: it has {size:,} bytes, and what it holds needs {wanted:,}"


def _safetensors(path: Path, start: bytes) -> int | None:
    length = int.from_bytes(start[:8], "little")
    try:
        table = json.loads(head(path, 8 + length)[8:])
        ends = [t["data_offsets"][1] for name, t in table.items() if name != "__metadata__"]
    except (ValueError, KeyError, TypeError, IndexError):
        return 8 + length
    return 8 + length + max(ends, default=0)


def _protobuf(path: Path, size: int) -> int | None:
    """How many bytes a protobuf message needs; None if the file is not one.

    This function reads the outermost message's fields only: their lengths are in the file.
    """
    with path.open("rb") as file:
        while (at := file.tell()) < size:
            key, _ = _varint(file.read(10))
            if key is None or key >> 3 == 0:
                return None
            file.seek(at + _varint_size(key))
            kind, here = key & 7, file.tell()
            if kind == 0:
                value, used = _varint(file.read(10))
                if value is None:
                    return None
                file.seek(here + used)
            elif kind == 2:
                length, used = _varint(file.read(10))
                if length is None:
                    return None
                if here + used + length > size:
                    return here + used + length
                file.seek(here + used + length)
            elif kind in (1, 5):
                file.seek(here + (8 if kind == 1 else 4))
            else:
                return None
    return size


def _varint(data: bytes) -> tuple[int | None, int]:
    value = 0
    for i, byte in enumerate(data):
        value |= (byte & 127) << 7 * i
        if byte < 128:
            return value, i + 1
    return None, 0


def _varint_size(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)


def forward(path: Path) -> str:
    """The arguments of a TorchScript file's forward(), e.g. `(a: Tensor, b: Tensor)`.

    `()` if the file does not show them.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            code = {
                name: archive.read(name).decode("utf-8", errors="replace")
                for name in archive.namelist()
                if re.search(r"/code/__torch__.*\.py$", name)
            }
            data = next((n for n in archive.namelist() if n.endswith("/data.pkl")), "")
            top = archive.read(data)[:200] if data else b""
    except (OSError, zipfile.BadZipFile):
        return "()"
    # data.pkl begins with the module's own class: c__torch__.place\nName
    named = re.search(rb"c(__torch__[\w.]*)\n(\w+)", top)
    module = named[1].decode().replace(".", "/") if named else "__torch__"
    text = next((t for name, t in code.items() if name.endswith(f"/code/{module}.py")), "")
    own = text.partition(f"class {named[2].decode()}(" if named else "class ")[2]
    found = re.search(r"def forward\(self: [\w.]+,?\s*(.*?)\) ->", own, re.DOTALL)
    return f"({' '.join(found[1].split())})" if found else "()"
