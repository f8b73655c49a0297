import torch

from workbook.lessons import formats

program = torch.onnx.export(
    formats.network(),
    (torch.zeros(2, 3, 64, 64),),
    input_names=["image"],
    output_names=["logits"],
    dynamic_shapes=({0: torch.export.Dim("batch")},),
    verbose=False,
)
program.save(models / "frozen/1/model.onnx", external_data=False)
write(
    models / "frozen/config.pbtxt",
    """
platform: "onnxruntime_onnx"
max_batch_size: 8
input [ { name: "image" data_type: TYPE_FP32 dims: [ 3, 64, 64 ] } ]
output [ { name: "logits" data_type: TYPE_FP32 dims: [ 2 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
""",
)
lab.load("frozen")
