# snib_wrap(TARGET FILE): "wraps: F …" in FILE, a test or a fuzz target: the
# product calls the F of the test, __wrap_F, in place of F, in whichever of its
# files that call stands.
function(snib_wrap target file)
    file(STRINGS "${file}" lines REGEX "wraps: [a-z0-9_ ]+")
    foreach(line IN LISTS lines)
        string(REGEX REPLACE ".*wraps: ([a-z0-9_ ]+).*" "\\1" wraps "${line}")
        string(STRIP "${wraps}" wraps)
        string(REPLACE " " ";" wraps "${wraps}")
        list(TRANSFORM wraps PREPEND "LINKER:--wrap=")
        target_link_options(${target} PRIVATE ${wraps})
    endforeach()
endfunction()
