# cmake -DTOOL= -DTEMPLATE= -DPAGE= -P env_page.cmake: writes PAGE, which is TEMPLATE with the table of TOOL for @TABLE@.
execute_process(COMMAND ${TOOL} info --env --man-table OUTPUT_VARIABLE TABLE
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
configure_file(${TEMPLATE} ${PAGE} @ONLY)
