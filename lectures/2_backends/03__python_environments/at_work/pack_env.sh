#!/usr/bin/env bash
# Give a Python model packages of its own, without a new image:
#     pack_env.sh MODEL_FOLDER numpy==1.26.4 -r requirements.txt
# python3 must be the same version as Triton's stub. Load the model again afterwards.
set -euo pipefail
model=$1
shift
env=$(mktemp -d)
python3 -m venv --copies --without-pip "$env"
python3 -m pip --python "$env/bin/python" install --quiet "$@"
cat > "$env/bin/activate" <<'END'
VIRTUAL_ENV=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
export VIRTUAL_ENV PATH="$VIRTUAL_ENV/bin:$PATH" PYTHONNOUSERSITE=1
END
tar -czf "$model/env.tar.gz" -C "$env" .
grep -q EXECUTION_ENV_PATH "$model/config.pbtxt" || cat >> "$model/config.pbtxt" <<'END'
parameters { key: "EXECUTION_ENV_PATH" value { string_value: "$$TRITON_MODEL_DIRECTORY/env.tar.gz" } }
END
rm -r "$env"
