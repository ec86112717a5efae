#!/usr/bin/env bash
# Run commands of an installed regard as a container does: no other variables, a home directory that is read-only, and
# no permission to write where regard is installed. Usage: tools/check_bare.sh ENVIRONMENT
set -euo pipefail

environment=$(realpath "$1")
work=$(mktemp -d)
chmod 755 "$work"
mkdir "$work/home"
chmod 555 "$work/home"
chmod -R a-w "$environment"
trap 'chmod -R u+w "$environment"; rm -rf "$work"' EXIT

printf 'Ein Hund läuft.\nWir gehen nach Hause.\nDas ist gut.\n' >"$work/source"
printf 'A dog runs.\nWe go home.\nThis is good.\n' >"$work/target"
# Without its capabilities, root is bound by permissions, too.
limited=()
if [ "$(id -u)" = 0 ]; then limited=(setpriv --bounding-set=-all --inh-caps=-all); fi
regard() {
  (cd "$work/home" && "${limited[@]}" env -i PATH=/usr/bin:/bin HOME="$work/home" "$environment/bin/regard" "$@")
}
regard --version
regard check ../source ../target
[ "$(regard align ../source ../target | wc -l)" = 3 ]
