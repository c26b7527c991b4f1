# SPDX-License-Identifier: Apache-2.0
#
# build_commit.cmake -- writes OUT, a C file that says which commit is built
#
#	cmake -DOUT=FILE -DSOURCE=FOLDER [-DCOMMIT=WORD] -P build_commit.cmake
#
# Runs with each build, and touches OUT only where the commit is another one. COMMIT: what a packager says, where
# there is no git; else it is asked; else "unknown".
set(commit "${COMMIT}")
# A tree in somebody else's repository is no commit of that one.
if(commit STREQUAL "" AND EXISTS "${SOURCE}/.git")
	execute_process(COMMAND git -C ${SOURCE} rev-parse --short=7 HEAD
		OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE rc)
	if(NOT rc EQUAL 0)
		set(commit "")
	endif()
endif()
if(NOT commit MATCHES "^[0-9A-Za-z.+-]+$")
	set(commit unknown)
endif()
set(text "#include \"base/build_info.h\"\n\nconst char build_info_commit_text[] = \"${commit}\";\n")
set(before "")
if(EXISTS ${OUT})
	file(READ ${OUT} before)
endif()
if(NOT text STREQUAL before)
	file(WRITE ${OUT} "${text}")
endif()
