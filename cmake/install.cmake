# Installed files: headers, libraries, tool, completion, manual pages, pkg-config file, CMake package.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/muster DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)
install(TARGETS muster muster_static EXPORT muster-targets)
if(TARGET muster_tool)
    install(TARGETS muster_tool)
    set(completion ${PROJECT_SOURCE_DIR}/tools/muster/complete)
    install(FILES ${completion}/muster.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
            RENAME muster)
    install(FILES ${completion}/_muster DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${completion}/muster.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
# The documents have the places that they have in the tree, so that their links lead to the same files.
install(FILES README.md CHANGELOG.md CONTRIBUTING.md LICENSE SECURITY.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
configure_file(cmake/muster.cdx.json.in muster.cdx.json @ONLY) # tests/tools/test_hardening.py checks it
install(FILES ${PROJECT_BINARY_DIR}/muster.cdx.json DESTINATION ${CMAKE_INSTALL_DOCDIR})
foreach(page ${manual_pages})
    cmake_path(GET page EXTENSION LAST_ONLY section)
    string(SUBSTRING ${section} 1 -1 section)
    install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()
install(DIRECTORY ${alias_dir}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)

# muster.pc derives its prefix from its own location, so the tree can be moved.
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir}
           OUTPUT_VARIABLE up_to_prefix)
cmake_path(APPEND up_to_prefix "")
configure_file(cmake/muster.pc.in muster.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/muster.pc DESTINATION ${pkgconfig_dir})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/muster)
configure_package_config_file(cmake/muster-config.cmake.in muster-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(muster-config-version.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT muster-targets NAMESPACE muster:: DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/muster-config.cmake ${PROJECT_BINARY_DIR}/muster-config-version.cmake
        DESTINATION ${package_dir})
