# Compiler and linker flags, as the interface library snib_flags: never global,
# so that a project that pulls snib in keeps its own.
#
# The list follows the OpenSSF compiler options hardening guide; each flag is
# used where the compiler knows it. Left out on purpose:
#   -Wl,-z,nodlopen  bindings (ctypes, cffi, FFI) load libsnib by dlopen(3)
# Ours always keeps assertions (-UNDEBUG): a lock that goes on with a wrong
# idea of who holds is worse than one that stops.
include(CheckCCompilerFlag)
include(CheckLinkerFlag)
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)

add_library(snib_flags INTERFACE)
target_compile_features(snib_flags INTERFACE c_std_11)
target_compile_definitions(snib_flags INTERFACE _GNU_SOURCE=)
target_include_directories(
    snib_flags INTERFACE "${PROJECT_SOURCE_DIR}/include"
                         "${PROJECT_SOURCE_DIR}/src")

# Flags are tried all at once, for each try takes its time, and one by one where
# not all of them are known.
function(snib_try_compile_flags)
    string(MAKE_C_IDENTIFIER "snib_has${ARGN}" has)
    # A compiler that only warns about a flag does not have it.
    set(CMAKE_REQUIRED_FLAGS "-Werror -Wformat")
    set(CMAKE_REQUIRED_QUIET ON)
    check_c_compiler_flag("${ARGN}" ${has})
    if(${has})
        target_compile_options(snib_flags INTERFACE ${ARGN})
    elseif(ARGC GREATER 1)
        foreach(flag IN LISTS ARGN)
            snib_try_compile_flags("${flag}")
        endforeach()
    endif()
endfunction()

function(snib_try_link_flags)
    string(MAKE_C_IDENTIFIER "snib_has${ARGN}" has)
    set(CMAKE_REQUIRED_QUIET ON)
    check_linker_flag(C "${ARGN}" ${has})
    if(${has})
        target_link_options(snib_flags INTERFACE ${ARGN})
    elseif(ARGC GREATER 1)
        foreach(flag IN LISTS ARGN)
            snib_try_link_flags("${flag}")
        endforeach()
    endif()
endfunction()

target_compile_options(
    snib_flags INTERFACE -UNDEBUG -fvisibility=hidden -fexceptions
                         -ffunction-sections -fdata-sections)
if(SNIB_CHECKS) # core/check.c
    target_compile_definitions(snib_flags INTERFACE SNIB_CHECKS)
endif()
snib_try_compile_flags(
    -Wall
    -Wextra
    -Wformat=2
    -Wconversion
    -Wno-sign-conversion
    -Wshadow
    -Wstrict-prototypes
    -Wmissing-prototypes
    -Wold-style-definition
    -Wpointer-arith
    -Wwrite-strings
    -Wundef
    -Wvla
    -Werror=format-security
    -Werror=implicit
    -Werror=incompatible-pointer-types
    -Werror=int-conversion
    -fno-delete-null-pointer-checks
    -fno-strict-aliasing)
# GCC's, or Clang's, or those of newer ones.
snib_try_compile_flags(
    # assert(!"why") is how an impossible state is named.
    -Wno-string-conversion
    -Wtrampolines
    -Wbidi-chars=any
    -Wduplicated-cond
    # snprintf and strncat cut on purpose; what must not be cut is checked.
    -Wno-format-truncation
    -Wno-stringop-truncation
    -fstrict-flex-arrays=3
    -ftrivial-auto-var-init=zero
    -fzero-init-padding-bits=all)
if(NOT SNIB_SANITIZE)
    # It would hide signed overflow from UBSan, and bytes of others must not
    # lead to any.
    snib_try_compile_flags(-fno-strict-overflow)
endif()
# No path of the machine that built it in what is shipped (assertions name
# their file), and the same bytes wherever the tree lies. Debuggers of our own
# builds find the sources; those of a release are told where they are.
set(prefix_map "-f$<IF:$<CONFIG:Release>,file,macro>-prefix-map")
target_compile_options(
    snib_flags INTERFACE "${prefix_map}=${PROJECT_SOURCE_DIR}/="
                         "${prefix_map}=${PROJECT_BINARY_DIR}/=")
if(SNIB_WERROR)
    target_compile_options(snib_flags INTERFACE -Werror)
endif()

if(NOT SNIB_SANITIZE)
    # Sanitizers bring checks of their own, which these would hide.
    snib_try_compile_flags(-fstack-clash-protection -fstack-protector-strong)
    snib_try_compile_flags(-fcf-protection=full)
    snib_try_compile_flags(-mbranch-protection=standard)
    target_compile_options(
        snib_flags
        INTERFACE
            "$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>")
endif()

snib_try_link_flags(
    -Wl,-z,noexecstack
    -Wl,-z,relro
    -Wl,-z,now
    -Wl,--as-needed
    -Wl,--no-copy-dt-needed-entries
    -Wl,--gc-sections)
