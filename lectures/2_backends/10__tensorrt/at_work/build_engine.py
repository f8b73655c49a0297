"""Build a plan and its config: python build_engine.py model.onnx FOLDER 1 16 32

The numbers: the smallest batch, the usual, the largest. In the file, only the batch may be free.
"""

import sys
from pathlib import Path

import tensorrt_rtx as trt  # in NVIDIA's container: import tensorrt as trt

TYPES = {"FLOAT": "FP32", "HALF": "FP16", "BOOL": "BOOL"}  # the others have the same name
file, home, *batches = sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:])
logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
parser = trt.OnnxParser(network, logger)
if not parser.parse_from_file(file):
    sys.exit("\n".join(parser.get_error(i).desc() for i in range(parser.num_errors)))
inputs = [network.get_input(i) for i in range(network.num_inputs)]
outputs = [network.get_output(i) for i in range(network.num_outputs)]
profile = builder.create_optimization_profile()
text = ['platform: "tensorrt_plan"', f"max_batch_size: {batches[-1]}"]
for kind, tensors in (("input", inputs), ("output", outputs)):
    for each in tensors:
        named = f'name: "{each.name}" data_type: TYPE_{TYPES.get(each.dtype.name, each.dtype.name)}'
        text.append(f"{kind} {{ {named} dims: {list(each.shape)[1:]} }}")
for each in inputs:
    profile.set_shape(each.name, *((rows, *list(each.shape)[1:]) for rows in batches))
config = builder.create_builder_config()
if config.add_optimization_profile(profile) < 0:
    sys.exit("The batches are not in order.")
if (plan := builder.build_serialized_network(network, config)) is None:
    sys.exit("TensorRT built no engine; its errors stand above.")
(home / "1").mkdir(parents=True, exist_ok=True)
(home / "1/model.plan").write_bytes(plan)
(home / "config.pbtxt").write_text("\n".join([*text, ""]))
