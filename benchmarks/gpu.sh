#!/usr/bin/env bash
# Everything that waits for a GPU, stage by stage, within ten minutes:
#
#     PYTHONPATH=src benchmarks/gpu.sh DATA OUT [DEVICE]
#
# DATA is the folder of the Multi30k files, OUT gets one file of figures a stage (JSON) and its log. A stage
# that fails is named and the next one goes on. No network: packages that the machine lacks (pydantic with
# pydantic-core, annotated-types and typing-inspection; sacremoses; beartype) are taken as wheels from the
# folder WHEELS where it is set. DEVICE is cuda; `cpu` tries the script out.
set -uo pipefail
data=${1:?usage: benchmarks/gpu.sh DATA OUT [DEVICE]}
out=${2:?usage: benchmarks/gpu.sh DATA OUT [DEVICE]}
device=${3:-cuda}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
export PYTHONPATH="$here/../src:$here${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
mkdir -p "$out"
if [ -n "${WHEELS:-}" ]; then
  site=$(mktemp -d)
  "$python" -m pip install -q --no-index --no-deps --no-compile --target "$site" "$WHEELS"/*.whl || exit 1
  export PYTHONPATH="$PYTHONPATH:$site"
fi
failed=0

stage() { # name, seconds, command...
  local name=$1 limit=$2
  shift 2
  echo "== $name"
  timeout "$limit" "$@" 2>&1 | tee "$out/$name.log" | tail -n 12
  local status=${PIPESTATUS[0]}
  if [ "$status" -ne 0 ]; then
    echo "== $name failed with status $status"
    failed=1
  fi
}

stage exactness 70 "$python" "$here/gpu.py" exactness --device "$device" --json "$out/exactness.json"
stage maps 70 "$python" "$here/maps.py" --device "$device" --no-package --json "$out/maps.json"
stage throughput 90 "$python" "$here/gpu.py" throughput --data "$data" --device "$device" --json "$out/throughput.json"
stage tests 70 "$python" -m pytest -q -m gpu "$here/../tests/models/test_lstm_gpu.py" "$here/../tests/kernels"
stage recipe 290 "$python" "$here/gpu.py" recipe --data "$data" --device "$device" --json "$out/recipe.json"
exit "$failed"
