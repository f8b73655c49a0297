# In the container that will serve the engine, on the GPU that will run it. Not run here.
trtexec --onnx=compiled/1/model.onnx \
  --saveEngine=as_engine/1/model.plan \
  --minShapes=image:1x3x64x64 \
  --optShapes=image:8x3x64x64 \
  --maxShapes=image:16x3x64x64 \
  --timingCacheFile=/cache/timing
