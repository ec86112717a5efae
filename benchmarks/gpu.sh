#!/usr/bin/env bash
# Run all measurements that need a GPU, stage by stage, within ten minutes:
#
#     PYTHONPATH=src benchmarks/gpu.sh DATA OUT [DEVICE]
#
# DATA is the directory of the Multi30k files. One file of figures (JSON) and one log per stage are written to
# OUT. If a stage fails, it is reported and the next stage is run. No network is needed: set WHEELS to a
# directory of wheels for packages that the machine does not have (pydantic with pydantic-core, annotated-types
# and typing-inspection; sacremoses; beartype). The default of DEVICE is cuda; use `cpu` to test this script.
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
stage tests 70 "$python" -m pytest -q -m gpu "$here/../tests/models/test_rnn_gpu.py" "$here/../tests/kernels"
stage recipe 290 "$python" "$here/gpu.py" recipe --data "$data" --device "$device" --json "$out/recipe.json"
exit "$failed"
