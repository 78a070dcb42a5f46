# Compiler flags: the target muster_flags has the warnings, hardening and sanitizers.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2 -g -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g -DNDEBUG")

add_library(muster_flags INTERFACE)
target_compile_definitions(muster_flags INTERFACE _GNU_SOURCE)
target_compile_options(
    muster_flags
    INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wpointer-arith -Wcast-qual -Wvla -Wformat=2 -Wundef
              -Wwrite-strings -Wimplicit-fallthrough
              $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition>
              $<$<C_COMPILER_ID:GNU>:-Wlogical-op -Wduplicated-cond -Wduplicated-branches>
              $<$<BOOL:${MUSTER_WERROR}>:-Werror>
              -fno-common -fno-semantic-interposition -fstack-protector-strong)
target_link_options(muster_flags INTERFACE LINKER:-z,relro LINKER:-z,now LINKER:--as-needed)

if(MUSTER_SANITIZE)
    # All objects are instrumented for the fuzzer; only fuzz targets link its main().
    string(REPLACE "fuzzer" "fuzzer-no-link" instrument "${MUSTER_SANITIZE}")
    target_compile_options(muster_flags INTERFACE -fsanitize=${instrument} -fno-sanitize-recover=all
                                                  -fno-omit-frame-pointer)
    target_link_options(muster_flags INTERFACE -fsanitize=${instrument})
    # gcc's data-flow warnings have false positives in instrumented code.
    target_compile_options(muster_flags INTERFACE $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation
                                                  -Wno-maybe-uninitialized -Wno-stringop-overflow>)
else()
    target_compile_options(muster_flags
                           INTERFACE $<$<CONFIG:Release>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
    target_link_options(muster_flags INTERFACE LINKER:-z,defs)
endif()
