#!/usr/bin/env bash
# All tests, in two halves side by side: those of tests/fallow mostly wait for processes that die and time out,
# and would double the time if the others waited for them. Their words come when the first half has ended.
set -uo pipefail
cd "$(dirname "$0")/.."
said=$(mktemp)
"$PYTHON" -m pytest tests/fallow tests/gpu -p no:cacheprovider "$@" >"$said" 2>&1 &
riding=$!
trap 'rm -f "$said"; kill "$riding" 2>/dev/null' EXIT
"$PYTHON" -m pytest --ignore=tests/fallow --ignore=tests/gpu "$@"
rest=$?
wait "$riding"
rode=$?
cat "$said"
exit $((rest > rode ? rest : rode))
