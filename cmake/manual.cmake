# Manual pages: those in man/, and muster-env.7, whose table the tool generates.
file(GLOB manual_pages CONFIGURE_DEPENDS man/*.1 man/*.3 man/*.7)
if(NOT TARGET muster_tool)
    list(FILTER manual_pages EXCLUDE REGEX "/muster[^/]*\\.1$")
endif()

if(EXISTS ${PROJECT_SOURCE_DIR}/man/muster-env.7.in AND TARGET muster_tool)
    set(env_page ${PROJECT_BINARY_DIR}/man/muster-env.7)
    add_custom_command(
        OUTPUT ${env_page}
        COMMAND ${CMAKE_COMMAND} -DTOOL=$<TARGET_FILE:muster_tool>
                -DTEMPLATE=${PROJECT_SOURCE_DIR}/man/muster-env.7.in -DPAGE=${env_page} -P
                ${PROJECT_SOURCE_DIR}/cmake/env_page.cmake
        DEPENDS muster_tool man/muster-env.7.in cmake/env_page.cmake
        COMMENT "Generating man/muster-env.7"
        VERBATIM)
    add_custom_target(manual ALL DEPENDS ${env_page})
    list(APPEND manual_pages ${env_page})
endif()

# Aliases: `man mst_all_reduce` shows the page whose NAME section has this name. So do the function behind a macro
# (mst_all_reduce_with), the dtypes, the operations and the status codes.
set(alias_dir ${PROJECT_BINARY_DIR}/man/aliases)
file(REMOVE_RECURSE ${alias_dir})
file(GLOB public_headers CONFIGURE_DEPENDS include/muster/*.h)
file(GLOB function_pages CONFIGURE_DEPENDS man/*.3)
foreach(header ${public_headers})
    file(STRINGS ${header} lines REGEX "^[a-z].* mst_[a-z0-9_]+_with\\(")
    string(REGEX MATCHALL "mst_[a-z0-9_]+_with\\(" found "${lines}")
    list(APPEND with_functions ${found})
endforeach()
foreach(page ${function_pages})
    cmake_path(GET page FILENAME own)
    file(READ ${page} text)
    set(constants)
    if(own MATCHES "mst_(dtype|error).3")
        string(REGEX MATCHALL "\n\\.It Dv [^\n]+" items "${text}")
        string(REGEX MATCHALL "MST_[A-Z0-9_]+" constants "${items}")
    endif()
    string(REGEX REPLACE "\n\\.Nd .*" "" text "${text}")
    string(REGEX MATCHALL "\n\\.Nm [A-Za-z0-9_]+" names "${text}")
    foreach(name ${names} ${constants})
        string(REGEX MATCH "(mst|MST)_[A-Za-z0-9_]+" name ${name})
        foreach(alias ${name} ${name}_with)
            if(NOT alias STREQUAL name AND NOT "${alias}(" IN_LIST with_functions)
                continue()
            endif()
            if(NOT "${alias}.3" STREQUAL own)
                file(WRITE ${alias_dir}/${alias}.3 ".so man3/${own}\n")
            endif()
        endforeach()
    endforeach()
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${function_pages} ${public_headers})
