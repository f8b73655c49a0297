import onnx
from onnxconverter_common import float16

raw = onnx.load(models / "eights_fp32/1/model.onnx")
first = raw.graph.node[0].name
mixed = float16.convert_float_to_float16(raw, keep_io_types=True, node_block_list=[first])
onnx.save(mixed, models / "eights_fp16/1/model.onnx")
lab.load("eights_fp16")
