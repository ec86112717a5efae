#!/usr/bin/env bash
# Run all measurements that need a GPU, stage by stage, in about ten minutes:
#
#     PYTHONPATH=src benchmarks/gpu.sh DATA OUT [DEVICE]
#
# DATA is the directory of the Multi30k files. One file of figures (JSON) and one log per stage are written to
# OUT. If a stage fails, it is reported and the next stage is run. No network is needed: set WHEELS to a
# directory of wheels for packages that the machine does not have (such as pydantic with pydantic-core,
# annotated-types and typing-inspection; sacremoses; rapidfuzz; tomli-w; beartype; entmax). STAGES selects
# stages, such as STAGES="tests maps". The default of DEVICE is cuda; use `cpu` to test this script.
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
every="tests exactness maps throughput mechanisms mechanisms-transformer recipe"
stages=" ${STAGES:-$every} "
for name in $stages; do
  case " $every " in *" $name "*) ;; *) echo "STAGES: unknown stage $name; expected some of: $every" >&2; exit 2 ;; esac
done
package=()
"$python" -c "import entmax" 2> "$out/entmax.log" || package=(--no-package)

stage() { # name, seconds, command...
  local name=$1 limit=$2
  shift 2
  case $stages in *" $name "*) ;; *) return ;; esac
  echo "== $name"
  timeout "$limit" "$@" 2>&1 | tee "$out/$name.log" | tail -n 12
  local status=${PIPESTATUS[0]}
  if [ "$status" -ne 0 ]; then
    echo "== $name failed with status $status"
    failed=1
  fi
}

prepared=$(mktemp -d)
trap 'rm -rf "$prepared"' EXIT
text=
case $stages in *" mechanisms"*)
  text=$("$python" -c 'import sys
from pathlib import Path
from multi30k import prepare
print(prepare(*map(Path, sys.argv[1:])))' "$data" "$prepared") ;;
esac
# The plugin pytest-benchmark, where it is installed, warns of several workers, and the suite allows no warning.
stage tests 150 "$python" -m pytest -q -m gpu -n 8 -p no:benchmark "$here/../tests/models" "$here/../tests/kernels"
stage exactness 120 "$python" "$here/gpu.py" exactness --device "$device" --json "$out/exactness.json"
stage maps 70 "$python" "$here/maps.py" --device "$device" "${package[@]}" --rounds 7 --json "$out/maps.json"
stage throughput 60 "$python" "$here/gpu.py" throughput --data "$data" --cache "$prepared" \
  --device "$device" --json "$out/throughput.json"
for kind in lstm transformer; do
  name=mechanisms
  [ $kind = lstm ] || name=mechanisms-$kind
  stage $name 60 "$python" "$here/mechanisms.py" --data "$text" --kind $kind \
    --device "$device" --rounds 3 --updates 4 --sentences 64 --json "$out/$name.json"
done
stage recipe 280 "$python" "$here/gpu.py" recipe --data "$data" --device "$device" --json "$out/recipe.json"
exit "$failed"
