# Reduction kernels: one source per instruction set, compiled for it and optimised in every build type.
# Products and sums are not contracted, so that all variants give the same bits.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(kernel_flags_avx2 -mavx2 -mf16c)
    set(kernel_flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mf16c)
    include(CheckCCompilerFlag)
    check_c_compiler_flag(-mavx512fp16 MUSTER_KNOWS_AVX512FP16)
    if(MUSTER_KNOWS_AVX512FP16)
        set(kernel_flags_avx512fp16 ${kernel_flags_avx512} -mavx512fp16)
    endif()
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(kernel_flags_bf16 -march=armv8.2-a+fp16+fp16fml+bf16)
endif()
# With checks for undefined behaviour the vectorised kernels take minutes to compile; only the scalar kernels, from the same source, have
# them. Address checks are calls, in code with less optimisation, which takes a third of the time.
set(kernel_flags -O2 -g1 -ffp-contract=off) # full debug information doubles the compile time
if(MUSTER_SANITIZE MATCHES address AND CMAKE_C_COMPILER_ID STREQUAL GNU)
    set(kernel_flags -O1 -g1 -ffp-contract=off --param=asan-instrumentation-with-call-threshold=0)
endif()
# They are the code of AVX2 with wider vectors and other conversions, and half of the time to compile the library with a sanitizer.
# unit/test_reduce puts arrays before a page without access, which shows an access beyond them in every variant of the release build.
if(MUSTER_SANITIZE)
    set_source_files_properties(src/reduce/reduce.c src/reduce/kernels_avx512.c src/reduce/kernels_avx512fp16.c
                                PROPERTIES COMPILE_DEFINITIONS MSI_WITHOUT_AVX512)
endif()
if(MUSTER_SANITIZE MATCHES fuzzer)
    list(APPEND kernel_flags -fno-sanitize=all) # the kernels process no untrusted input
elseif(MUSTER_SANITIZE MATCHES undefined)
    # Of a pointer to an element there is nothing to check beyond the address, and the checks double the time.
    set(kernel_flags_scalar -fno-sanitize=null,object-size,pointer-overflow)
    foreach(variant neon bf16 avx2 avx512 avx512fp16)
        list(APPEND kernel_flags_${variant} -fno-sanitize=undefined)
    endforeach()
endif()
foreach(variant scalar neon bf16 avx2 avx512 avx512fp16)
    set_source_files_properties(src/reduce/kernels_${variant}.c PROPERTIES
        COMPILE_OPTIONS "${kernel_flags};${kernel_flags_${variant}}")
endforeach()
# The benchmark compares the kernels with a plain loop in this file.
set_source_files_properties(tools/muster/bench/kernels.c PROPERTIES COMPILE_OPTIONS -O3)
