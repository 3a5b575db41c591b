#!/usr/bin/env bash
# All tests: the stories first, whose calendar runs too fast for a machine that does anything else; then the
# rest in two lanes side by side: trainings and screens mostly wait, for processes that die and time out and for
# browsers, and would double the time if the others waited for them. Trainings from C (test_crashes and others)
# are in the other lane, so that both take about as long. The first lane's words come at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
stories=tests/end_to_end/test_stories.py
from_c='tests/fallow/test_c*' but_c='tests/fallow/test_[!c]*'
"$PYTHON" -m pytest "$stories" -p no:cacheprovider "$@"
told=$?
said=$(mktemp)
"$PYTHON" -m pytest tests/fallow tests/gpu tests/dashboard --ignore-glob="$from_c" -p no:cacheprovider "$@" >"$said" 2>&1 &
waiting=$!
trap 'rm -f "$said"; kill "$waiting" 2>/dev/null' EXIT
"$PYTHON" -m pytest --ignore-glob="$but_c" --ignore=tests/gpu --ignore=tests/dashboard --ignore="$stories" "$@"
rest=$?
wait "$waiting"
waited=$?
cat "$said"
worst=$((rest > waited ? rest : waited))
exit $((told > worst ? told : worst))
