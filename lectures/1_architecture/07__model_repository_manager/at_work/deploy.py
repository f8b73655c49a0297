"""Put a new version of a model in, without a failed request. The server is in mode explicit.

    python deploy.py MODEL FOLDER        # the folder has the files of the new version

If the new version does not load, its folder is removed, and the old version goes on.
"""

import os
import shutil
import sys
from pathlib import Path

import tritonclient.grpc as grpc
from tritonclient.utils import InferenceServerException

ADDRESS = os.environ.get("TRITON_GRPC", "localhost:8001")
MODELS = Path(os.environ.get("TRITON_MODELS", "/models"))


def main(model, folder):
    client, home = grpc.InferenceServerClient(ADDRESS), MODELS / model
    new = 1 + max(int(path.name) for path in home.iterdir() if path.name.isdecimal())
    draft = home / "draft"  # no number, so Triton ignores it; and it is on the same disk
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(folder, draft)
    draft.rename(home / str(new))
    try:
        client.load_model(model)
    except InferenceServerException as error:
        shutil.rmtree(home / str(new))
        sys.exit(f"Version {new} does not load. The old one goes on. {error.message()}")
    if not client.is_model_ready(model, str(new)):
        sys.exit(f"Version {new} is not served. Look at version_policy in {home}/config.pbtxt.")
    print(f"Version {new} of {model} is ready.")


if __name__ == "__main__":
    main(*sys.argv[1:])
