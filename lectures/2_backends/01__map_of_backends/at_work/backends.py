"""Which backend computes each model of your server, and which backends does it need at all?

python backends.py
"""

import os

import tritonclient.http as http

ADDRESS = os.environ.get("TRITON_HTTP", "localhost:8000")


def main():
    client, needed = http.InferenceServerClient(ADDRESS), set()
    index = client.get_model_repository_index()
    for name in sorted({entry["name"] for entry in index if entry.get("state") == "READY"}):
        config = client.get_model_config(name)
        backend = config["backend"] or config["platform"]  # an ensemble has a platform only
        groups = config.get("instance_group", [])
        kinds = ", ".join(f"{group['count']} × {group['kind']}" for group in groups)
        print(f"{name:20} {backend:14} {kinds}")
        needed.add(backend)
    print("Backends that an image needs for them:", *sorted(needed - {"ensemble"}))


if __name__ == "__main__":
    main()
