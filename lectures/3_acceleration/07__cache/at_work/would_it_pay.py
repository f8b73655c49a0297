"""Would a response cache pay? python would_it_pay.py KEYS MISS_MS HIT_MS

KEYS has one line per request of your log, in their order: a hash of the input, or an ID. MISS_MS
and HIT_MS: how long a computed and a kept answer take. If the room is used up, the answer that was
used least recently is dropped, as in Triton's local cache.
"""

import sys
from collections import OrderedDict
from pathlib import Path

keys = Path(sys.argv[1]).read_text().split()
miss_ms, hit_ms = float(sys.argv[2]), float(sys.argv[3])
different = len(set(keys))
print(f"{len(keys)} requests, {different} different: a cache can answer {len(keys) - different}")

for room in (10, 30, 100, different):
    kept, hits = OrderedDict(), 0
    for key in keys:
        hits += key in kept
        kept[key] = True
        kept.move_to_end(key)
        if len(kept) > room:
            kept.popitem(last=False)
    share = hits / len(keys)
    gain = miss_ms / ((1 - share) * miss_ms + share * hit_ms)
    print(f"room for {room:4} answers: {share:4.0%} hits, about {gain:.1f} times as fast")
