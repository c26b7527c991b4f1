# SPDX-License-Identifier: Apache-2.0
#
# embed.cmake -- page.html with page.css and page.js in it, as a C file: mt_page_html, and mt_page_policy
#
#	cmake -DFOLDER=middletier/page -DOUT=page_html.c -P embed.cmake
#
# The policy names the SHA-256 of the style and of the script: a browser takes nothing else, whatever stands in the
# texts that the page shows.
set(PAGE_BYTES_MAX 30720)

# base64_of(HEX VAR): base64 of 32 bytes
function(base64_of hex ret)
	set(digits "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
	set(text "")
	# Three hex digits are two of base64; of the 64 one is left, which is four bits of a last one.
	string(APPEND hex 00)
	foreach(at RANGE 0 63 3)
		string(SUBSTRING ${hex} ${at} 3 three)
		math(EXPR high "0x${three} >> 6")
		math(EXPR low "0x${three} & 63")
		string(SUBSTRING ${digits} ${high} 1 first)
		string(SUBSTRING ${digits} ${low} 1 second)
		string(APPEND text ${first}${second})
	endforeach()
	string(SUBSTRING ${text} 0 43 text)
	set(${ret} "${text}=" PARENT_SCOPE)
endfunction()

# What stands between the tags, with the line ends around it, is what is hashed.
foreach(part css js)
	file(READ ${FOLDER}/page.${part} ${part})
	set(${part} "\n${${part}}")
	string(SHA256 hash "${${part}}")
	base64_of(${hash} ${part}_hash)
endforeach()
file(READ ${FOLDER}/page.html html)
string(REPLACE "@CSS@" "${css}" html "${html}")
string(REPLACE "@JS@" "${js}" html "${html}")
string(LENGTH "${html}" bytes)
if(bytes GREATER PAGE_BYTES_MAX)
	message(FATAL_ERROR "the page has ${bytes} bytes, more than ${PAGE_BYTES_MAX}")
endif()
file(WRITE ${OUT}.html "${html}")
file(READ ${OUT}.html hex HEX)
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
string(CONCAT policy "default-src 'none'; connect-src 'self'; style-src 'sha256-${css_hash}'; "
	"script-src 'sha256-${js_hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
file(WRITE ${OUT} "/* embed.cmake made this of page.html, page.css and page.js. */
#include \"page/page.h\"

const char mt_page_html[] = {
${hex}
};
const size_t mt_page_html_bytes = sizeof(mt_page_html);
const char mt_page_policy[] =
    \"${policy}\";
")
