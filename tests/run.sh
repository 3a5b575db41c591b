#!/usr/bin/env bash
# All tests: the stories first, whose calendar runs too fast for a machine that does anything else; then the
# rest in three lanes side by side: those of trainings and those of screens and stories mostly wait, for
# processes that die and time out and for browsers, and would double the time if the others waited for them.
# The words of a lane come whole, the first one's as they are said.
set -uo pipefail
cd "$(dirname "$0")/.."
"$PYTHON" -m pytest tests/end_to_end/test_stories.py -p no:cacheprovider "$@"
told=$?
said=$(mktemp -d)
"$PYTHON" -m pytest tests/fallow tests/gpu -p no:cacheprovider "$@" >"$said/riding" 2>&1 &
riding=$!
"$PYTHON" -m pytest tests/end_to_end tests/dashboard tests/packaging \
    --ignore=tests/end_to_end/test_stories.py -p no:cacheprovider "$@" >"$said/playing" 2>&1 &
playing=$!
trap 'rm -rf "$said"; kill "$riding" "$playing" 2>/dev/null' EXIT
others=(fallow gpu end_to_end dashboard packaging)
"$PYTHON" -m pytest "${others[@]/#/--ignore=tests/}" "$@"
worst=$?
worst=$((worst > told ? worst : told))
for lane in riding playing; do
    wait "${!lane}"
    ended=$?
    cat "$said/$lane"
    worst=$((worst > ended ? worst : ended))
done
exit "$worst"
