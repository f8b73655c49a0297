"""Where do the requests of an ensemble wait? What the server counted for each of its steps.

python steps.py ENSEMBLE
"""

import os
import sys

import tritonclient.grpc as grpc


def main(ensemble):
    client = grpc.InferenceServerClient(os.environ.get("TRITON_GRPC", "localhost:8001"))
    graph = client.get_model_config(ensemble).config.ensemble_scheduling
    for name in dict.fromkeys(step.model_name for step in graph.step):
        config = client.get_model_config(name).config
        stats = client.get_inference_statistics(name).model_stats[0]
        times, executions = stats.inference_stats, max(1, stats.execution_count)
        ms = 1e-6 / max(1, times.success.count)
        print(
            f"{name}: {sum(group.count for group in config.instance_group)} instance(s),"
            f" {'a' if config.HasField('dynamic_batching') else 'no'} dynamic batcher,"
            f" {stats.inference_count / executions:.1f} rows per execution;"
            f" a request waits for {times.queue.ns * ms:.0f} ms"
            f" and is computed for {times.compute_infer.ns * ms:.0f} ms"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
