# System libraries. Sets MUSTER_SYSTEM_LIBRARIES (for the library) and MUSTER_PC_LIBS (the same as linker
# flags, for muster.pc). Finds libuv if the tool is built.
include(CheckFunctionExists)

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
set(MUSTER_SYSTEM_LIBRARIES Threads::Threads)
set(MUSTER_PC_LIBS -pthread)

# In older C libraries these two are not in libc.
check_function_exists(shm_open shm_open_in_libc)
if(NOT shm_open_in_libc)
    list(APPEND MUSTER_SYSTEM_LIBRARIES rt)
    string(APPEND MUSTER_PC_LIBS " -lrt")
endif()
check_function_exists(dlopen dlopen_in_libc)
if(NOT dlopen_in_libc)
    list(APPEND MUSTER_SYSTEM_LIBRARIES dl)
    string(APPEND MUSTER_PC_LIBS " -ldl")
endif()

if(MUSTER_BUILD_TOOL)
    find_package(PkgConfig)
    if(PKG_CONFIG_FOUND)
        pkg_check_modules(uv IMPORTED_TARGET libuv)
    endif()
    if(NOT uv_FOUND)
        message(FATAL_ERROR "the muster tool needs pkg-config and libuv: run scripts/deps.sh build, "
                            "or build without the tool: cmake -DMUSTER_BUILD_TOOL=OFF")
    endif()
endif()
