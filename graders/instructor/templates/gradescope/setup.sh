#!/usr/bin/env bash
# Runs once, when Gradescope builds the autograder's image.
set -euo pipefail
root=${AUTOGRADER:-/autograder}

apt-get update
apt-get install -y --no-install-recommends python3 python3-venv python3-pip bubblewrap
python3 -m venv "$root/venv"
pip="$root/venv/bin/pip"
# There is no GPU, so torch's small CPU builds will do. Versions: the tested ones, or newer if this Python has none.
index="--extra-index-url https://download.pytorch.org/whl/cpu"
# shellcheck disable=SC2086
"$pip" install --no-cache-dir $index -c "$root/source/constraints.txt" -r "$root/source/requirements.txt" ||
    "$pip" install --no-cache-dir $index -r "$root/source/requirements.txt"
# Fail the build if the image cannot mark.
PYTHONPATH="$root/source/course" "$root/venv/bin/python" -m graders.cli grade --help >/dev/null
