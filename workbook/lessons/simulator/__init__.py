"""A simulator of Triton's scheduler: queue, batchers and instances, as of release 24.10.

    from workbook import measure
    from workbook.lessons import simulator

    model = simulator.Model(
        max_batch_size=8,
        batching=simulator.DynamicBatching(max_queue_delay_us=20_000),
    )
    result = simulator.simulate(model, measure.every(5, 12), duration_ms=30)
    result.executions["rows"].tolist()          # [4, 4, 4]
    measure.plot_timeline(result.spans)         # the same picture as of a real server

It follows upstream's source (github.com/triton-inference-server/core) step by step. Each module and
each important function names the function that it follows. The most important rules:

- Without priorities, timeouts and queue sizes, batches are formed ahead: up to two batches per
  instance wait beside the queue, and the newest grows as long as no instance has taken it. With
  any of them a batch is formed only when an instance is free (`RateLimiter::PayloadSlotAvailable`).
- `max_queue_size` counts the requests of a level, not rows. The batch that was just taken from
  the queue does not count, so more requests are served than the queue's size.
- The delay is measured from the oldest request of the batch. A preferred size ends it. A batch that
  is too late goes as large as it is (`DynamicBatchScheduler::GetDynamicBatch`).
- A request's own timeout only shortens the default one. Without a default it has no effect
  (`PolicyQueue::Enqueue`).
- Where a policy needs a free instance, a request whose timeout is over is refused when the batcher
  looks at it: when an instance is free, or each half second
  (`DynamicBatchScheduler::WaitForPayloadSlotAvailable`).
- Where a free instance is needed, the end of an execution is a race: `Payload::Execute` wakes the
  batcher, and only then `RateLimiter::DequeuePayload` counts the instance as free. If the batcher
  looks first, it sleeps again, for half a second or until a request is queued, though the instance
  is idle and others wait. A request that is refused does not wake it. Measured on 24.10: in 6 of
  16 runs of 30 requests with `max_queue_size: 4`. `simulate(…, batcher_first=True)` shows it; by
  default it does not happen.

What it leaves out: the response cache, ragged batches and shapes that differ, custom batching,
cancelled requests, the rate limiter's resources, the timeout of a sequence that waits for a slot,
and the time that the server itself needs. In the real server this time decides how large the first
batch is: if several requests arrive within some tenths of a millisecond, it takes one or several of
them. With 30 requests within 3 ms and `max_queue_size: 4`, the server mostly serves 1 + 4
(measured: 13 of 16 runs). It serves one more or fewer if the first batch took two or the batcher
was late.
"""

from .config import from_config
from .settings import Direct, DynamicBatching, Model, Oldest, QueuePolicy, Request, clients
from .simulate import Simulation, simulate

__all__ = [
    "Direct",
    "DynamicBatching",
    "Model",
    "Oldest",
    "QueuePolicy",
    "Request",
    "Simulation",
    "clients",
    "from_config",
    "simulate",
]
