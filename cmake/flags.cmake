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
              -fno-common -fno-semantic-interposition)

# A release build in another directory gives the same files (scripts/reproduce.sh). Debuggers find the sources if they
# run in the source directory.
target_compile_options(muster_flags INTERFACE $<$<CONFIG:Release>:-fdebug-prefix-map=${PROJECT_SOURCE_DIR}=.
                                              -fmacro-prefix-map=${PROJECT_SOURCE_DIR}=.>)

# Hardening. tests/tools/test_hardening.py checks the result.
include(CheckCCompilerFlag)
target_compile_options(muster_flags INTERFACE -fstack-protector-strong)
target_link_options(muster_flags INTERFACE LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack LINKER:--as-needed)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
target_link_options(muster_flags INTERFACE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(branch_protection -fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(branch_protection -mbranch-protection=standard)
endif()
set(CMAKE_REQUIRED_FLAGS -Werror) # clang only warns of a flag that it does not use on this processor
foreach(flag -fstack-clash-protection ${branch_protection})
    string(MAKE_C_IDENTIFIER "MUSTER_HAS${flag}" known)
    check_c_compiler_flag(${flag} ${known})
    if(${known})
        target_compile_options(muster_flags INTERFACE ${flag})
    endif()
endforeach()
unset(CMAKE_REQUIRED_FLAGS)

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
    # Level 3 needs __builtin_dynamic_object_size and a C library that uses it; headers warn about a level they lack.
    include(CheckCSourceCompiles)
    set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
    check_c_source_compiles("#include <string.h>
        #if __USE_FORTIFY_LEVEL < 3
        #error
        #endif
        int main(void) { return 0; }" MUSTER_HAS_FORTIFY_3)
    unset(CMAKE_REQUIRED_FLAGS)
    set(fortify 2)
    if(MUSTER_HAS_FORTIFY_3)
        set(fortify 3)
    endif()
    target_compile_options(muster_flags
                           INTERFACE $<$<CONFIG:Release>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${fortify}>)
    target_link_options(muster_flags INTERFACE LINKER:-z,defs)
endif()
