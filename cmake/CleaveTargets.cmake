# SPDX-License-Identifier: Apache-2.0
#
# cleave_flags, and the functions with which each folder declares its targets.

add_library(cleave_flags INTERFACE)
target_include_directories(cleave_flags INTERFACE
	${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/splitlib)
target_compile_definitions(cleave_flags INTERFACE _GNU_SOURCE)
target_compile_options(cleave_flags INTERFACE
	-Wall -Wextra -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Wvla
	# Criterion's macros trip -Wconversion; tests set this property.
	$<$<NOT:$<BOOL:$<TARGET_PROPERTY:CLEAVE_NO_CONVERSION>>>:-Wconversion>)
target_link_libraries(cleave_flags INTERFACE Threads::Threads)

if(CLEAVE_WERROR)
	target_compile_options(cleave_flags INTERFACE -Werror)
endif()
if(CLEAVE_TEST_BUILD)
	target_compile_definitions(cleave_flags INTERFACE CLEAVE_TEST_BUILD=1)
endif()
if(CLEAVE_SANITIZE)
	target_compile_options(cleave_flags INTERFACE
		-O1 -fno-omit-frame-pointer -fsanitize=${CLEAVE_SANITIZE})
	target_link_options(cleave_flags INTERFACE -fsanitize=${CLEAVE_SANITIZE})
	if(CLEAVE_SANITIZE MATCHES "undefined")
		target_compile_options(cleave_flags INTERFACE -fno-sanitize-recover=undefined)
	endif()
endif()
if(CLEAVE_FUZZ)
	target_compile_options(cleave_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(CLEAVE_COVERAGE)
	target_compile_options(cleave_flags INTERFACE -O0 --coverage)
	target_link_options(cleave_flags INTERFACE --coverage)
endif()

# Those of the given targets that exist: a folder may still be empty.
function(cleave_existing_targets ret_list)
	set(found)
	foreach(candidate ${ARGN})
		if(TARGET ${candidate})
			list(APPEND found ${candidate})
		endif()
	endforeach()
	set(${ret_list} ${found} PARENT_SCOPE)
endfunction()

# cleave_add_library(NAME SOURCES file... LINK target...): no target without sources.
function(cleave_add_library name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
	if(NOT arg_SOURCES)
		return()
	endif()
	cleave_existing_targets(links ${arg_LINK})
	add_library(${name} STATIC ${arg_SOURCES})
	target_link_libraries(${name} PUBLIC cleave_flags ${links})
endfunction()

# cleave_add_program(NAME SOURCES file... LINK target...): files that do not exist are left out, and
# without any there is no target.
function(cleave_add_program name)
	cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
	set(sources)
	foreach(source ${arg_SOURCES})
		cmake_path(ABSOLUTE_PATH source)
		if(EXISTS ${source})
			list(APPEND sources ${source})
		endif()
	endforeach()
	if(NOT sources)
		return()
	endif()
	cleave_existing_targets(links ${arg_LINK})
	add_executable(${name} ${sources})
	target_link_libraries(${name} PRIVATE cleave_flags ${links})
endfunction()

set(CLEAVE_LIBRARIES cleave_gateway_core cleave_node_core cleave_client cleave_split cleave_engines
	cleave_base)
