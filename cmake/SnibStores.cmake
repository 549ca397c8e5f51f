# Which stores are built in, and why not where not.
#
# Sets SNIB_STORE_FOLDERS (sources), SNIB_DEPS_SHARED and SNIB_DEPS_STATIC
# (what the shared library and our own programs link), SNIB_DEPS_NAMES (the
# same for installed users of the static library), snib_headers_of_FOLDER (the
# include path of the client library that the files of src/… call), snib_with
# (SNIB_WITH_… as 0 or 1), and the target snib_store_headers: all of these, for
# tests.
#
# hiredis is linked statically where an archive is at hand: its shared library
# exports names (sds…, hi_…) that a host program may have, too.
# libpq, libmariadb and nghttp2 are not linked at all: libpq brings some twenty
# libraries, whose loading takes longer than a lock in a file. A store loads its
# library when one is opened.

add_library(snib_store_headers INTERFACE)
set(SNIB_STORE_FOLDERS src/store/memory src/store/file)
set(SNIB_DEPS_SHARED "")
set(SNIB_DEPS_STATIC "")
set(SNIB_DEPS_NAMES "")
set(SNIB_STORES memory file)

function(snib_find_archive name found)
    find_library(SNIB_ARCHIVE_${name} NAMES "lib${name}.a")
    find_library(SNIB_LIBRARY_${name} NAMES "${name}")
    mark_as_advanced(SNIB_ARCHIVE_${name} SNIB_LIBRARY_${name})
    if(SNIB_ARCHIVE_${name})
        set(${found} "${SNIB_ARCHIVE_${name}}" PARENT_SCOPE)
    else()
        set(${found} "${SNIB_LIBRARY_${name}}" PARENT_SCOPE)
    endif()
endfunction()

# -- redis ---------------------------------------------------------------------

set(snib_redis 0)
set(snib_redis_why "")
if(NOT SNIB_WITH_REDIS)
    set(snib_redis_why "switched off by SNIB_WITH_REDIS")
else()
    find_path(SNIB_HIREDIS_INCLUDE hiredis/read.h)
    mark_as_advanced(SNIB_HIREDIS_INCLUDE)
    snib_find_archive(hiredis snib_hiredis)
    if(NOT SNIB_HIREDIS_INCLUDE OR NOT snib_hiredis)
        set(snib_redis_why "hiredis not found (Debian: libhiredis-dev)")
    elseif(NOT EXISTS "${PROJECT_SOURCE_DIR}/src/store/redis")
        set(snib_redis_why "src/store/redis is not there")
    else()
        set(snib_redis 1)
    endif()
endif()
if(snib_redis)
    list(APPEND SNIB_STORES redis)
    list(APPEND SNIB_STORE_FOLDERS src/proto src/store/redis
         src/store/quorum src/store/cluster)
    list(APPEND SNIB_DEPS_SHARED "${snib_hiredis}")
    list(APPEND SNIB_DEPS_STATIC "${snib_hiredis}")
    list(APPEND SNIB_DEPS_NAMES hiredis)
    set(snib_headers_of_src/proto "${SNIB_HIREDIS_INCLUDE}")
    target_include_directories(snib_store_headers SYSTEM
                               INTERFACE "${SNIB_HIREDIS_INCLUDE}")
    # The Lua scripts become C text: snib_embed_scripts(TARGET).
    include("${PROJECT_SOURCE_DIR}/src/store/redis/embed.cmake" OPTIONAL)
endif()

# -- etcd ------------------------------------------------------------------------

set(snib_etcd 0)
set(snib_etcd_why "")
if(NOT SNIB_WITH_ETCD)
    set(snib_etcd_why "switched off by SNIB_WITH_ETCD")
else()
    find_path(SNIB_NGHTTP2_INCLUDE nghttp2/nghttp2.h)
    mark_as_advanced(SNIB_NGHTTP2_INCLUDE)
    if(NOT SNIB_NGHTTP2_INCLUDE)
        set(snib_etcd_why "nghttp2 not found (Debian: libnghttp2-dev)")
    elseif(NOT EXISTS "${PROJECT_SOURCE_DIR}/src/store/etcd")
        set(snib_etcd_why "src/store/etcd is not there")
    else()
        set(snib_etcd 1)
    endif()
endif()
if(snib_etcd)
    list(APPEND SNIB_STORES etcd)
    list(APPEND SNIB_STORE_FOLDERS src/proto/grpc src/store/etcd)
    set(snib_headers_of_src/proto/grpc "${SNIB_NGHTTP2_INCLUDE}")
    target_include_directories(snib_store_headers SYSTEM
                               INTERFACE "${SNIB_NGHTTP2_INCLUDE}")
endif()

# -- zookeeper -------------------------------------------------------------------

set(snib_zookeeper 0)
set(snib_zookeeper_why "")
if(NOT SNIB_WITH_ZOOKEEPER)
    set(snib_zookeeper_why "switched off by SNIB_WITH_ZOOKEEPER")
elseif(NOT EXISTS "${PROJECT_SOURCE_DIR}/src/store/zookeeper")
    set(snib_zookeeper_why "src/store/zookeeper is not there")
else()
    set(snib_zookeeper 1)
    list(APPEND SNIB_STORES zookeeper)
    list(APPEND SNIB_STORE_FOLDERS src/proto/zk src/store/zookeeper)
endif()

# -- rabbitmq --------------------------------------------------------------------

set(snib_rabbitmq 0)
set(snib_rabbitmq_why "")
if(NOT SNIB_WITH_RABBITMQ)
    set(snib_rabbitmq_why "switched off by SNIB_WITH_RABBITMQ")
elseif(NOT EXISTS "${PROJECT_SOURCE_DIR}/src/store/rabbitmq")
    set(snib_rabbitmq_why "src/store/rabbitmq is not there")
else()
    set(snib_rabbitmq 1)
    list(APPEND SNIB_STORES rabbitmq)
    list(APPEND SNIB_STORE_FOLDERS src/proto/amqp src/store/rabbitmq)
endif()

# -- TLS -------------------------------------------------------------------------

# Only its headers are needed: the library is loaded when TLS is first wanted
# (src/net/tls_openssl.h), so that a program without it starts as fast as ever.
set(snib_tls 0)
set(snib_tls_why "")
if(NOT SNIB_TLS)
    set(snib_tls_why "switched off by SNIB_TLS")
elseif(NOT snib_redis AND NOT snib_etcd AND NOT snib_rabbitmq)
    set(snib_tls_why "no store that is built would use it")
else()
    find_package(OpenSSL 3.0 QUIET)
    if(OPENSSL_FOUND)
        set(snib_tls 1)
    else()
        set(snib_tls_why "OpenSSL 3 not found (Debian: libssl-dev)")
    endif()
endif()
if(snib_tls)
    list(APPEND SNIB_DEPS_SHARED ${CMAKE_DL_LIBS})
    list(APPEND SNIB_DEPS_STATIC ${CMAKE_DL_LIBS})
    set(snib_headers_of_src/net "${OPENSSL_INCLUDE_DIR}")
    target_include_directories(snib_store_headers SYSTEM
                               INTERFACE "${OPENSSL_INCLUDE_DIR}")
endif()

# -- postgres --------------------------------------------------------------------

set(snib_postgres 0)
set(snib_postgres_why "")
if(NOT SNIB_WITH_POSTGRES)
    set(snib_postgres_why "switched off by SNIB_WITH_POSTGRES")
else()
    find_path(SNIB_LIBPQ_INCLUDE libpq-fe.h PATH_SUFFIXES postgresql)
    mark_as_advanced(SNIB_LIBPQ_INCLUDE)
    if(SNIB_LIBPQ_INCLUDE)
        file(STRINGS "${SNIB_LIBPQ_INCLUDE}/libpq-fe.h" snib_pipeline
             REGEX "LIBPQ_HAS_PIPELINING" LIMIT_COUNT 1)
    endif()
    if(NOT SNIB_LIBPQ_INCLUDE)
        set(snib_postgres_why "libpq not found (Debian: libpq-dev)")
    elseif(NOT snib_pipeline)
        set(snib_postgres_why "libpq is older than version 14")
    elseif(NOT EXISTS "${PROJECT_SOURCE_DIR}/src/store/postgres")
        set(snib_postgres_why "src/store/postgres is not there")
    else()
        set(snib_postgres 1)
    endif()
endif()
if(snib_postgres)
    list(APPEND SNIB_STORES postgres)
    list(APPEND SNIB_STORE_FOLDERS src/store/sql src/store/postgres)
    set(snib_headers_of_src/store/postgres "${SNIB_LIBPQ_INCLUDE}")
    target_include_directories(snib_store_headers SYSTEM
                               INTERFACE "${SNIB_LIBPQ_INCLUDE}")
endif()

# -- mysql -----------------------------------------------------------------------

set(snib_mysql 0)
set(snib_mysql_why "")
if(NOT SNIB_WITH_MYSQL)
    set(snib_mysql_why "switched off by SNIB_WITH_MYSQL")
else()
    find_path(SNIB_LIBMARIADB_INCLUDE mysql.h PATH_SUFFIXES mariadb)
    mark_as_advanced(SNIB_LIBMARIADB_INCLUDE)
    if(SNIB_LIBMARIADB_INCLUDE) # MySQL's own header lacks it
        file(STRINGS "${SNIB_LIBMARIADB_INCLUDE}/mysql.h" snib_restricted
             REGEX "MARIADB_OPT_RESTRICTED_AUTH" LIMIT_COUNT 1)
    endif()
    if(NOT SNIB_LIBMARIADB_INCLUDE)
        set(snib_mysql_why "libmariadb not found (Debian: libmariadb-dev)")
    elseif(NOT snib_restricted)
        set(snib_mysql_why "libmariadb is older than version 3.3")
    elseif(NOT EXISTS "${PROJECT_SOURCE_DIR}/src/store/mysql")
        set(snib_mysql_why "src/store/mysql is not there")
    else()
        set(snib_mysql 1)
    endif()
endif()
if(snib_mysql)
    list(APPEND SNIB_STORES mysql)
    list(APPEND SNIB_STORE_FOLDERS src/store/sql src/store/mysql)
    set(snib_headers_of_src/store/mysql "${SNIB_LIBMARIADB_INCLUDE}")
    target_include_directories(snib_store_headers SYSTEM
                               INTERFACE "${SNIB_LIBMARIADB_INCLUDE}")
endif()

list(REMOVE_DUPLICATES SNIB_STORE_FOLDERS) # both of them may have store/sql

set(snib_with
    SNIB_WITH_REDIS=${snib_redis} SNIB_WITH_TLS=${snib_tls}
    SNIB_WITH_POSTGRES=${snib_postgres} SNIB_WITH_MYSQL=${snib_mysql}
    SNIB_WITH_ETCD=${snib_etcd} SNIB_WITH_ZOOKEEPER=${snib_zookeeper}
    SNIB_WITH_RABBITMQ=${snib_rabbitmq})
target_compile_definitions(snib_store_headers INTERFACE ${snib_with})

foreach(store redis postgres mysql etcd zookeeper rabbitmq)
    if(snib_${store})
        message(STATUS "snib: store ${store}: on")
    else()
        message(STATUS "snib: store ${store}: off, ${snib_${store}_why}")
    endif()
endforeach()
if(snib_tls)
    message(STATUS "snib: TLS: on")
else()
    message(STATUS "snib: TLS: off, ${snib_tls_why}")
endif()

# -- for the demo, the measurements and the step of snib/steps/sqlite.h -----------

# No store: the shop of demo/ is a database, and bench/ compares with one.
find_path(SNIB_SQLITE_INCLUDE sqlite3.h)
find_library(SNIB_LIBRARY_sqlite3 NAMES sqlite3)
mark_as_advanced(SNIB_SQLITE_INCLUDE SNIB_LIBRARY_sqlite3)
set(snib_sqlite3 "")
if(SNIB_SQLITE_INCLUDE AND SNIB_LIBRARY_sqlite3)
    set(snib_sqlite3 "${SNIB_LIBRARY_sqlite3}")
endif()
