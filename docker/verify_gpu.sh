#!/usr/bin/env bash
# Everything that a laptop cannot show, on a machine with an NVIDIA GPU: prints a table and writes
# docker/gpu/VERIFIED.md. docker/verify_gpu.py does the work and knows the options (--help).
#
#   docker/verify_gpu.sh                                        # this environment's own server
#   docker/verify_gpu.sh --container http://localhost:8000      # and NVIDIA's container, running
#   docker/verify_gpu.sh --only CUDA --only vLLM --output docker/gpu/VERIFIED.md    # some rows
#   docker/verify_gpu.sh --only lecture --jobs 4 --keep notebooks    # four lectures at a time
#
# Exit status: 0, every row that could run here passed; 1, a row failed; 2, it could not begin.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
if ! [ -x "$(command -v "$python")" ]; then
    echo "The course's environment is missing: $python is not there." >&2
    echo "  to do: make setup, or PYTHON=/path/to/python docker/verify_gpu.sh" >&2
    exit 2
fi
exec "$python" docker/verify_gpu.py "$@"
