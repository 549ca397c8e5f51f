# The command line tool. src/cli may bring its own CMakeLists.txt; else its
# files make the program. All but main.c also stand in the library
# snib_cli_parts, for unit tests and fuzz targets.
file(GLOB snib_cli_sources CONFIGURE_DEPENDS
     "${PROJECT_SOURCE_DIR}/src/cli/*.c" "${PROJECT_SOURCE_DIR}/src/cli/*/*.c")
set(snib_cli_main "${PROJECT_SOURCE_DIR}/src/cli/main.c")
if(snib_cli_sources)
    set(snib_cli_parts ${snib_cli_sources})
    list(REMOVE_ITEM snib_cli_parts "${snib_cli_main}")
    add_library(snib_cli_parts STATIC EXCLUDE_FROM_ALL ${snib_cli_parts})
    target_link_libraries(snib_cli_parts PUBLIC snib_internal)
endif()

if(EXISTS "${PROJECT_SOURCE_DIR}/src/cli/CMakeLists.txt")
    add_subdirectory(src/cli)
elseif(EXISTS "${snib_cli_main}")
    add_executable(snib_cli "${snib_cli_main}")
    set_target_properties(
        snib_cli PROPERTIES OUTPUT_NAME snib POSITION_INDEPENDENT_CODE ON
                            RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
    target_link_libraries(snib_cli PRIVATE snib_cli_parts)
endif()

# Unwinding tables (-fexceptions, for cleanups) ask for libgcc: linked in, as
# loading one more library would cost every `snib run`.
if(TARGET snib_cli)
    target_link_options(snib_cli PRIVATE -static-libgcc)
endif()
