"""From a JPEG file to pixels, as another network takes them: the pipeline of the task."""

from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.triton import autoserialize


@autoserialize
@pipeline_def(batch_size=64, num_threads=1, device_id=None, output_dtype=types.FLOAT, output_ndim=3)
def pipeline():
    file = fn.external_source(name="jpeg", dtype=types.UINT8, ndim=1)
    image = fn.decoders.image(file, output_type=types.BGR)
    image = fn.resize(image, resize_x=64, resize_y=64, antialias=False)
    return fn.crop_mirror_normalize(
        image,
        mean=[123.675, 116.28, 103.53],
        std=[58.395, 57.12, 57.375],
        output_layout="CHW",
        dtype=types.FLOAT,
    )
