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
