# embed(TARGET NAME FILE): adds a source to TARGET that defines const char NAME[] with the text of FILE.
function(embed target name file)
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "(..)" "0x\\1," bytes ${hex})
    set(source ${PROJECT_BINARY_DIR}/embedded/${name}.c)
    file(CONFIGURE OUTPUT ${source} CONTENT "extern const char ${name}[];\nconst char ${name}[] = {${bytes}0};\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    target_sources(${target} PRIVATE ${source})
endfunction()
