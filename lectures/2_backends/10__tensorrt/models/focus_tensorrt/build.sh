# In NVIDIA's container of the release that will serve the engine, on the GPU that will run it.
trtexec --onnx=focus.onnx \
  --saveEngine=focus_tensorrt/1/model.plan \
  --minShapes=image:1x3x64x64 \
  --optShapes=image:16x3x64x64 \
  --maxShapes=image:32x3x64x64 \
  --skipInference
