# make install: library, headers, command, manual pages, snib.pc, and the
# CMake package (find_package(Snib) gives snib::snib and snib::static).
include(CMakePackageConfigHelpers)

install(
    TARGETS snib_shared snib_static
    EXPORT SnibTargets
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
foreach(program snib_cli snib)
    if(TARGET ${program})
        get_target_property(type ${program} TYPE)
        if(type STREQUAL EXECUTABLE)
            install(TARGETS ${program}
                    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
        endif()
    endif()
endforeach()
if(TARGET snib_witness)
    install(TARGETS snib_witness
            RUNTIME DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/snib")
endif()
foreach(section 1 3 5 7 8)
    file(GLOB pages CONFIGURE_DEPENDS
         "${PROJECT_SOURCE_DIR}/docs/man/*.${section}")
    install(FILES ${pages}
            DESTINATION "${CMAKE_INSTALL_MANDIR}/man${section}")
endforeach()

# Install a page so that its links work there: those to headers lead to the
# installed ones, and those to tests, which are not installed, are no links.
function(snib_install_page file destination)
    file(READ "${PROJECT_SOURCE_DIR}/${file}" text)
    file(RELATIVE_PATH headers "/x/${destination}"
         "/x/${CMAKE_INSTALL_INCLUDEDIR}")
    if(IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}" OR IS_ABSOLUTE
                                                    "${destination}")
        set(headers "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
    endif()
    string(REGEX REPLACE "\\]\\((\\.\\./)?include/" "](${headers}/" text
                         "${text}")
    string(REGEX REPLACE "\\[([^][]*)\\]\\((\\.\\./)?tests/[^)]*\\)" "\\1"
                         text "${text}")
    file(WRITE "${PROJECT_BINARY_DIR}/pages/${file}" "${text}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
                                           "${PROJECT_SOURCE_DIR}/${file}")
    install(FILES "${PROJECT_BINARY_DIR}/pages/${file}"
            DESTINATION "${destination}")
endfunction()

# What the pages and doctor call docs/… and examples/ lies in share/doc/snib.
file(GLOB pages CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}"
     "${PROJECT_SOURCE_DIR}/docs/*.md")
foreach(page IN LISTS pages)
    snib_install_page("${page}" "${CMAKE_INSTALL_DOCDIR}/docs")
endforeach()
snib_install_page(README.md "${CMAKE_INSTALL_DOCDIR}")
install(FILES CHANGELOG.md SECURITY.md LICENSE
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY examples DESTINATION "${CMAKE_INSTALL_DOCDIR}"
        USE_SOURCE_PERMISSIONS PATTERN CMakeLists.txt EXCLUDE)

# Section 3 comes from the headers.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
    file(GLOB headers CONFIGURE_DEPENDS
         "${PROJECT_SOURCE_DIR}/include/snib.h"
         "${PROJECT_SOURCE_DIR}/include/snib/*.h")
    set(tool "${PROJECT_SOURCE_DIR}/tools/man/headers.py")
    set(pages "${PROJECT_BINARY_DIR}/man3")
    add_custom_command(
        OUTPUT "${pages}/made"
        COMMAND "${CMAKE_COMMAND}" -E rm -rf "${pages}"
        COMMAND Python3::Interpreter "${tool}" "${pages}" ${headers}
        COMMAND "${CMAKE_COMMAND}" -E touch "${pages}/made"
        DEPENDS "${tool}" ${headers}
        COMMENT "Making the manual pages of the library"
        VERBATIM)
    add_custom_target(snib_man3 ALL DEPENDS "${pages}/made")
    install(DIRECTORY "${pages}/" DESTINATION "${CMAKE_INSTALL_MANDIR}/man3"
            FILES_MATCHING PATTERN "*.3")
else()
    message(STATUS "snib: no python3: no manual pages of the library")
endif()

# Relative to the .pc file where possible, so that the tree can be moved.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" OR IS_ABSOLUTE
                                            "${CMAKE_INSTALL_INCLUDEDIR}")
    set(pc_prefix "${CMAKE_INSTALL_PREFIX}")
    set(pc_libdir "${CMAKE_INSTALL_FULL_LIBDIR}")
    set(pc_includedir "${CMAKE_INSTALL_FULL_INCLUDEDIR}")
else()
    file(RELATIVE_PATH up "/x/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/x")
    string(REGEX REPLACE "/$" "" up "${up}")
    set(pc_prefix "\${pcfiledir}/${up}")
    set(pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
    set(pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
# Libraries, not packages: a program that links libsnib.so needs none of their
# development files, and pkg-config would ask for those.
list(TRANSFORM SNIB_DEPS_NAMES PREPEND "-l" OUTPUT_VARIABLE pc_libraries)
list(JOIN pc_libraries " " pc_libraries)
configure_file("${CMAKE_CURRENT_LIST_DIR}/snib.pc.in"
               "${PROJECT_BINARY_DIR}/snib.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/snib.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

set(snib_package "${CMAKE_INSTALL_LIBDIR}/cmake/Snib")
configure_package_config_file(
    "${CMAKE_CURRENT_LIST_DIR}/SnibConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/SnibConfig.cmake"
    INSTALL_DESTINATION "${snib_package}")
# Before 1.0 each minor release may break its users.
write_basic_package_version_file(
    "${PROJECT_BINARY_DIR}/SnibConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/SnibConfig.cmake"
              "${PROJECT_BINARY_DIR}/SnibConfigVersion.cmake"
        DESTINATION "${snib_package}")
install(EXPORT SnibTargets NAMESPACE snib:: DESTINATION "${snib_package}")
