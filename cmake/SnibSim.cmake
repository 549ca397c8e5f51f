# The simulator is test code and runs the real Lua scripts in Lua 5.1.
# Tests that use a part of it look for the target sim_server.
if(SNIB_SIM AND NOT SNIB_FUZZ)
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
        pkg_check_modules(SNIB_LUA51 QUIET lua5.1)
    endif()
    if(NOT snib_redis)
        snib_part_is_off(simulator "it needs the store redis")
    elseif(NOT SNIB_LUA51_FOUND)
        snib_part_is_off(simulator "Lua 5.1 not found (Debian: pkg-config\
 liblua5.1-0-dev)")
    else()
        add_subdirectory(sim)
    endif()
elseif(SNIB_TESTS)
    snib_part_is_off(simulator "switched off by SNIB_SIM")
endif()
