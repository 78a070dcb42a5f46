#!/usr/bin/env bash
# gpu_nccl.sh - tests the backend nccl on a machine with a GPU, without CMake and the libraries of the tool: builds with cc into
# build-gpu/, then runs the module alone, the conformance suite and the benchmark. Several ranks share the GPU.
#
#   scripts/gpu_nccl.sh [build] [engine] [faults] [suite] [bench]      all of them without arguments
#
# The libraries are those of torch, of /usr/local/cuda or of the system, unless MUSTER_NCCL_LIBRARY and MUSTER_CUDART_LIBRARY
# name them. Output of each step is in build-gpu/log/.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
out=$PWD/build-gpu
jobs=$(nproc)
cc=${CC:-cc}
failed=()
mkdir -p "$out/obj" "$out/log"

flags=(-std=c11 -D_GNU_SOURCE -O2 -g -fPIC -Wall -Wextra -Iinclude -I. -Isrc -Itests "-DMSI_BACKEND_DIR=\"$out\"")

kernel_flags() { # source file
    case $(uname -m)/$1 in
    x86_64/*_avx2.c) echo -mavx2 -mf16c ;;
    x86_64/*_avx512.c) echo -mavx512f -mavx512bw -mavx512dq -mavx512vl -mf16c ;;
    x86_64/*_avx512fp16.c)
        if "$cc" -mavx512fp16 -E -x c /dev/null >/dev/null 2>&1; then
            echo -mavx512f -mavx512bw -mavx512dq -mavx512vl -mf16c -mavx512fp16
        fi
        ;;
    aarch64/*_bf16.c) echo -march=armv8.2-a+fp16+fp16fml+bf16 ;;
    esac
}

compile_library() {
    local file object
    find src -name '*.c' | while read -r file; do
        object=$out/obj/$(echo "${file%.c}" | tr / _).o
        [[ $file != src/reduce/kernels_* ]] || echo -ffp-contract=off "$(kernel_flags "$file") -c $file -o $object"
        [[ $file == src/reduce/kernels_* ]] || echo "-c $file -o $object"
    done | xargs -P "$jobs" -I{} sh -c "$cc ${flags[*]@Q} {}"
}

program() { # source file, and a directory beside it that belongs to it
    local parts=("${1%.c}"/*.c)
    [[ -e ${parts[0]} ]] || parts=()
    "$cc" "${flags[@]}" "$1" "${parts[@]}" -o "$out/$(basename "${1%.c}")" "$out/libmuster.a" -pthread -ldl -lrt -lm
}

build() {
    rm -f "$out/libmuster.a" "$out"/obj/*.o
    compile_library && ar rcs "$out/libmuster.a" "$out"/obj/*.o &&
        "$cc" "${flags[@]}" -fvisibility=hidden -shared backends/nccl/*.c -o "$out/mst_backend_nccl.so" -pthread -ldl &&
        program tests/interop/nccl_engine.c && program tests/interop/nccl_world.c &&
        program tests/multi/collective.c && program bench/nccl_direct.c
}

find_library() { # file name
    local base
    for base in "$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null)" \
        /opt/torch/.venv/lib/python3*/site-packages/nvidia /usr/local/cuda; do
        [[ -d $base ]] && find -L "$base" -name "$1" 2>/dev/null | head -1
    done | head -1
}

libraries() {
    local found name
    if [[ -z ${MUSTER_NCCL_LIBRARY:-} ]]; then
        found=$(find_library libnccl.so.2)
        [[ -z $found ]] || export MUSTER_NCCL_LIBRARY=$found
    fi
    for name in libcudart.so.13 libcudart.so.12; do
        if [[ -z ${MUSTER_CUDART_LIBRARY:-} ]]; then
            found=$(find_library $name)
            [[ -z $found ]] || export MUSTER_CUDART_LIBRARY=$found
        fi
    done
    echo "gpu_nccl: NCCL ${MUSTER_NCCL_LIBRARY:-by its name}, CUDA runtime ${MUSTER_CUDART_LIBRARY:-by its name}"
}

# Ranks of one GPU are hosts to NCCL, which then uses sockets; small buffers, since there are many communicators.
export MUSTER_NCCL_SHARE_GPU=1 MUSTER_BACKEND=cpu:native,cuda:nccl MUSTER_BACKEND_PATH=$out MUSTER_LOG=${MUSTER_LOG:-error}
export NCCL_SOCKET_IFNAME=${NCCL_SOCKET_IFNAME:-lo} NCCL_IB_DISABLE=1 NCCL_MAX_NCHANNELS=${NCCL_MAX_NCHANNELS:-2}
export NCCL_BUFFSIZE=${NCCL_BUFFSIZE:-1048576} CUDA_DEVICE_MAX_CONNECTIONS=32 NCCL_DEBUG=${NCCL_DEBUG:-WARN}

ranks() { # seconds, n, command...: as the launcher would start them
    local limit=$1 n=$2 port=$((20000 + RANDOM % 20000)) rank pids=() worst=0 code
    shift 2
    for ((rank = 0; rank < n; rank++)); do
        RANK=$rank WORLD_SIZE=$n LOCAL_RANK=$rank LOCAL_WORLD_SIZE=$n MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            timeout "$limit" "$@" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid"
        code=$?
        ((code <= worst)) || worst=$code
    done
    return $worst
}

step() { # name, command...
    local name=$1 begin=$SECONDS log=$out/log/${1// /_}
    shift
    if "$@" >"$log" 2>&1; then
        echo "gpu_nccl: $name: ok ($((SECONDS - begin)) s)"
    else
        echo "gpu_nccl: $name: FAILED with $? ($((SECONDS - begin)) s)"
        failed+=("$name")
        tail -25 "$log"
    fi
}

show() { grep -hE "$1" "$out/log/${2// /_}" | sed 's/^/    /'; }

engine() {
    local n
    step "probe" timeout 60 "$out/nccl_engine" "$out/mst_backend_nccl.so" 1 probe
    show "usable" "probe"
    for n in 1 2 4; do
        step "engine $n" timeout 170 "$out/nccl_engine" "$out/mst_backend_nccl.so" $n all
        show "nccl_engine:" "engine $n"
    done
    step "memory" timeout 60 "$out/nccl_engine" "$out/mst_backend_nccl.so" 1 memory
}

faults() {
    step "absent" timeout 60 "$out/nccl_engine" "$out/mst_backend_nccl.so" 2 absent
    show "gave up" "absent"
    step "death" timeout 90 "$out/nccl_engine" "$out/mst_backend_nccl.so" 3 death
    show "rank" "death"
    step "lost" lost
    show "culprit" "lost"
    step "late" ranks 60 2 "$out/nccl_world" late
    show "culprit" "late"
}

lost() { # the last rank is killed, on purpose
    ranks 90 3 "$out/nccl_world" lost
    (($? == 137))
}

suite() {
    local n
    step "streams" ranks 60 2 "$out/nccl_world" stream
    for n in 1 2 4; do
        step "suite $n" ranks 240 $n "$out/collective" --quick --device
        show "collective: ok" "suite $n"
    done
}

bench() {
    NCCL_MAX_NCHANNELS=32 NCCL_BUFFSIZE=4194304 step "bench 1" ranks 120 1 "$out/nccl_direct" "${BENCH_ROUNDS:-100}" 50
    show "nccl_direct|^ *[0-9a-z]" "bench 1"
    step "bench 2" ranks 120 2 "$out/nccl_direct" 3 4
    show "nccl_direct|^ *[0-9a-z]" "bench 2"
}

steps=("$@")
((${#steps[@]})) || steps=(build engine faults suite bench)
libraries
for one in "${steps[@]}"; do
    case $one in
    build) step "build" build ;;
    engine | faults | suite | bench) "$one" ;;
    *)
        echo "gpu_nccl: there is no step '$one'" >&2
        exit 2
        ;;
    esac
done
if ((${#failed[@]})); then
    echo "gpu_nccl: FAILED: ${failed[*]}"
    exit 1
fi
echo "gpu_nccl: all ok"
