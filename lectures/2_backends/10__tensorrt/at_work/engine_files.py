"""Write what an engine needs beside itself: the command that builds it, and Triton's config.

    python engine_files.py model.onnx FOLDER 1 16 32    # the smallest, usual and largest batch

Run build.sh in the container that will serve the engine, on the GPU that will run it.
"""

import sys
from pathlib import Path

import onnx
from tritonclient.utils import np_to_triton_dtype


def dims(tensor):
    """The dimensions without the batch; each must be fixed in the ONNX file."""
    found = [each.dim_value for each in tensor.type.tensor_type.shape.dim][1:]
    if 0 in found:
        sys.exit(f"{tensor.name} has more than one free dimension: write its shapes yourself.")
    return found


def section(kind, tensor):
    number = onnx.helper.tensor_dtype_to_np_dtype(tensor.type.tensor_type.elem_type)
    named = f'name: "{tensor.name}" data_type: TYPE_{np_to_triton_dtype(number)}'
    return f"{kind} {{ {named} dims: {dims(tensor)} }}"


file, folder, *batches = sys.argv[1:]
graph, home = onnx.load(file).graph, Path(folder)
command = [f"trtexec --onnx={Path(file).name}", "--saveEngine=model.plan", "--skipInference"]
for option, rows in zip(("--minShapes", "--optShapes", "--maxShapes"), batches, strict=True):
    shapes = [(each.name, "x".join(map(str, [rows, *dims(each)]))) for each in graph.input]
    command.append(f"{option}={','.join(map(':'.join, shapes))}")
config = ['platform: "tensorrt_plan"', f"max_batch_size: {batches[-1]}"]
config += [section("input", each) for each in graph.input]
config += [section("output", each) for each in graph.output]
config += ["instance_group { kind: KIND_GPU }", "dynamic_batching { }"]
home.mkdir(exist_ok=True)
(home / "build.sh").write_text(" \\\n  ".join(command) + "\n")
(home / "config.pbtxt").write_text("\n".join(config) + "\n")
