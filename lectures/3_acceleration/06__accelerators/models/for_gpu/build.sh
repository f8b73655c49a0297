# For as_engine, a model of the backend tensorrt, which has a config of its own. Not run here:
# run it in the container that will serve the engine, on the GPU that will compute with it.
# For 1 to 16 pictures, fastest at 8. The timing cache keeps what the build has timed.
trtexec --onnx=compiled/1/model.onnx \
  --saveEngine=as_engine/1/model.plan \
  --minShapes=image:1x3x64x64 \
  --optShapes=image:8x3x64x64 \
  --maxShapes=image:16x3x64x64 \
  --timingCacheFile=/cache/timing
