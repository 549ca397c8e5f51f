# The version script, made from the reviewed list of exported symbols.
# tests/package compares the list with the headers and with the library.
set(SNIB_SYMBOL_LIST "${CMAKE_CURRENT_LIST_DIR}/exported.symbols")
set(SNIB_VERSION_SCRIPT "${CMAKE_CURRENT_BINARY_DIR}/snib.map")

file(STRINGS "${SNIB_SYMBOL_LIST}" snib_symbols REGEX "^snib_[a-z0-9_]+$")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
                                       "${SNIB_SYMBOL_LIST}")
list(JOIN snib_symbols ";\n        " snib_symbols)
file(CONFIGURE OUTPUT "${SNIB_VERSION_SCRIPT}" CONTENT
"SNIB_${SNIB_SOVERSION} {
    global:
        ${snib_symbols};
    local:
        *;
};
")
