# embed.cmake — the Lua scripts as C arrays with their SHA1.
#
#   include(src/store/redis/embed.cmake)
#   snib_embed_scripts(<target>)      adds redis_scripts.c to the target and
#                                     its folder (redis_scripts.h) to its
#                                     include path
#
# Also runs by itself at build time (cmake -DOUT=<folder> -P embed.cmake), so
# that an edited script is embedded anew. A script's text is its file with
# each line "-- @include NAME" replaced by NAME.lua, comment lines and
# indentation taken out. The SHA1 is of exactly that text: it is what the
# server computes.
set(SNIB_REDIS_SCRIPTS acquire release renew cancel inspect force probe
    params value_get value_put keep several ears drop epoch)
set(SNIB_REDIS_EMBED "${CMAKE_CURRENT_LIST_FILE}")
set(SNIB_REDIS_LUA "${CMAKE_CURRENT_LIST_DIR}/scripts")

function(snib_redis_script_text name ret)
    file(READ "${SNIB_REDIS_LUA}/${name}.lua" text)
    foreach(part acquire release enter settle)
        file(READ "${SNIB_REDIS_LUA}/${part}.lua" included)
        string(REPLACE "-- @include ${part}\n" "${included}" text "${text}")
    endforeach()
    set(text "\n${text}")
    string(REGEX REPLACE "\n[ \t]*--[^\n]*" "" text "${text}")
    string(REGEX REPLACE "\n[ \t\n]+" "\n" text "${text}")
    string(REGEX REPLACE "^\n" "" text "${text}")
    set(${ret} "${text}" PARENT_SCOPE)
endfunction()

function(snib_redis_scripts_write folder)
    set(enum "")
    set(arrays "")
    set(table "")
    foreach(name IN LISTS SNIB_REDIS_SCRIPTS)
        snib_redis_script_text(${name} text)
        file(WRITE "${folder}/redis_${name}.lua" "${text}")
        string(SHA1 sha1 "${text}")
        file(READ "${folder}/redis_${name}.lua" hex HEX)
        string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
        string(REGEX REPLACE
            "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
            "\n    \\1" bytes "${bytes}")
        string(TOUPPER ${name} upper)
        string(APPEND enum "    SNIB__SCRIPT_${upper},\n")
        string(APPEND arrays
            "static const char ${name}_text[] = {${bytes}\n    0};\n")
        string(APPEND table "    {\"${name}\", \"${sha1}\", ${name}_text,\n"
            "     sizeof ${name}_text - 1},\n")
    endforeach()
    file(WRITE "${folder}/redis_scripts.h.new"
"/* redis_scripts.h — made by embed.cmake from src/store/redis/scripts. */
#ifndef SNIB__REDIS_SCRIPTS_H
#define SNIB__REDIS_SCRIPTS_H

#include <stddef.h>

enum snib__script {
${enum}    SNIB__SCRIPTS
};

struct snib__redis_script {
    const char *name;
    const char *sha1; /* 40 hexadecimal digits                              */
    const char *text; /* NUL-terminated                                     */
    size_t size;
};

extern const struct snib__redis_script snib__redis_scripts[SNIB__SCRIPTS];

#endif
")
    file(WRITE "${folder}/redis_scripts.c.new"
"/* redis_scripts.c — made by embed.cmake from src/store/redis/scripts. */
#include \"redis_scripts.h\"

${arrays}
const struct snib__redis_script snib__redis_scripts[SNIB__SCRIPTS] = {
${table}};
")
    foreach(file redis_scripts.h redis_scripts.c)
        configure_file("${folder}/${file}.new" "${folder}/${file}" COPYONLY)
        file(REMOVE "${folder}/${file}.new")
    endforeach()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE)
    snib_redis_scripts_write("${OUT}")
    return()
endif()

# One build rule for all targets; further targets share its output.
set(SNIB_REDIS_OUT "${CMAKE_CURRENT_BINARY_DIR}/redis_scripts")
file(GLOB SNIB_REDIS_SOURCES CONFIGURE_DEPENDS "${SNIB_REDIS_LUA}/*.lua")
file(MAKE_DIRECTORY "${SNIB_REDIS_OUT}")
add_custom_command(
    OUTPUT "${SNIB_REDIS_OUT}/redis_scripts.c"
           "${SNIB_REDIS_OUT}/redis_scripts.h"
    COMMAND "${CMAKE_COMMAND}" "-DOUT=${SNIB_REDIS_OUT}"
            -P "${SNIB_REDIS_EMBED}"
    COMMAND "${CMAKE_COMMAND}" -E touch "${SNIB_REDIS_OUT}/redis_scripts.c"
            "${SNIB_REDIS_OUT}/redis_scripts.h"
    DEPENDS ${SNIB_REDIS_SOURCES} "${SNIB_REDIS_EMBED}"
    COMMENT "Embedding the Redis scripts"
    VERBATIM)
add_custom_target(snib_redis_scripts
    DEPENDS "${SNIB_REDIS_OUT}/redis_scripts.c")

# Whoever sees the stores' headers (unit tests) sees redis_scripts.h.
if(TARGET snib_store_headers)
    target_include_directories(snib_store_headers
                               INTERFACE "${SNIB_REDIS_OUT}")
    add_dependencies(snib_store_headers snib_redis_scripts)
endif()

function(snib_embed_scripts target)
    target_sources(${target} PRIVATE "${SNIB_REDIS_OUT}/redis_scripts.c")
    set_source_files_properties("${SNIB_REDIS_OUT}/redis_scripts.c"
        PROPERTIES GENERATED TRUE)
    target_include_directories(${target} PRIVATE "${SNIB_REDIS_OUT}")
    add_dependencies(${target} snib_redis_scripts)
endfunction()
