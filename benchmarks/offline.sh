#!/usr/bin/env bash
# The training benchmark on a machine without a network, such as a GPU node.
#
#   benchmarks/offline.sh pack FOLDER            here, where `weed` is on the PATH or in .venv: 44 MB of wheels and server
#   benchmarks/offline.sh run FOLDER RESULTS     there, with PyTorch, transformers, pandas and pyarrow on Linux (x86_64)
#
# Keep the results as benchmarks/results/gpu.*. PYTHON_VERSION is that of the other machine.
set -euo pipefail
folder=$(realpath -m "${2:-.}") results=$(realpath -m "${3:-.}")
cd "$(dirname "$0")/.."
PYTHON_VERSION=${PYTHON_VERSION:-3.12}
# What such a machine lacks. Roots get key= and secret=, so botocore is not needed.
WHEELS=(numcodecs obstore lz4 blake3 xxhash cloudpickle dask platformdirs webdataset braceexpand)

case "${1:-}" in
pack)
    mkdir -p "$folder/wheels"
    platforms=()
    for glibc in 2_28 2_27 2_17; do platforms+=(--platform "manylinux_${glibc}_x86_64"); done
    python3 -m pip download --quiet --no-deps --only-binary=:all: --implementation cp --python-version "$PYTHON_VERSION" \
        "${platforms[@]}" --platform manylinux2014_x86_64 --dest "$folder/wheels" "${WHEELS[@]}"
    PATH="$PWD/.venv/bin:$PATH"
    xz --threads 0 --stdout "$(command -v weed)" >"$folder/weed.xz"
    du -sh "$folder"
    ;;
run)
    site=$(mktemp -d)
    python3 -m pip install --quiet --no-index --no-deps --no-compile --target "$site" "$folder"/wheels/*.whl
    python3 -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), open(sys.argv[2], "wb"))' \
        "$folder/weed.xz" "$site/weed"
    chmod +x "$site/weed"
    PATH="$site:$PATH" PYTHONPATH="$site" python3 -m benchmarks training --megabytes "${MEGABYTES:-1600}" --results "$results"
    ;;
*)
    sed -n '2,7s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
