line = "trtexec --onnx=digits.onnx --saveEngine=digits_tensorrt/1/model.plan"
for which, rows in (("min", 1), ("opt", 8), ("max", 32)):
    line += f" --{which}Shapes=image:{rows}x1x8x8"
write(models / "build.sh", line + " --skipInference")
