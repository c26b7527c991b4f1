# SPDX-License-Identifier: Apache-2.0
#
# functions.awk -- manual pages of section 3 from a public header's comments
#
#	awk -v folder=OUT -v version=0.1.0 -v see=libcleave [-v overview=libcleave] \
#		-f functions.awk include/cleave/client.h
#
# Writes OUT/NAME.3 for each function: the first of a comment's names has the page, the others refer to it.
# All refer to SEE.3, which the comment at the head of the header that is given an overview becomes. Of a comment
#
#	NAME, NAME -- what       is the page's NAME, and the prototypes that follow are its SYNOPSIS;
#	Word: text               with text further in on the lines behind it: a section, such as ERRORS;
#	lines behind a tab       stay as they are;
#	"  - " in front          is an item of a list; all else is text, with a blank line between paragraphs.
#
# Fails where a function has no comment of its name.

function fail(text) {
	print "functions.awk: " FILENAME ":" FNR ": " text > "/dev/stderr"
	failed = 1
	exit 1
}

# Parameters are italic; dashes of numbers and arrows are dashes.
function roff(text,    out) {
	gsub(/\\/, "\\e", text)
	gsub(/\^/, "\\(ha", text)
	gsub(/~/, "\\(ti", text)
	gsub(/->/, "\\->", text)
	out = ""
	while (match(text, /(^|[ (*,])-[0-9A-Z]/)) { # -EINVAL, -1
		out = out substr(text, 1, RSTART + RLENGTH - 3) "\\-" substr(text, RSTART + RLENGTH - 1, 1)
		text = substr(text, RSTART + RLENGTH)
	}
	text = out text
	out = ""
	while (match(text, /(^|[ (*\[])@[a-z_]+/)) {
		at = index(substr(text, RSTART, RLENGTH), "@")
		out = out substr(text, 1, RSTART + at - 2) "\\fI" \
		    substr(text, RSTART + at, RLENGTH - at) "\\fR"
		text = substr(text, RSTART + RLENGTH)
	}
	return guarded(out text)
}

# No line of text begins with what roff takes for a request.
function guarded(text) {
	return text ~ /^[.']/ ? "\\&" text : text
}

function pre_end() {
	if (is_pre)
		text_of[section] = text_of[section] ".fi\n"
	is_pre = 0
}

# A line of a comment: into @section, which a "Word:" in front of it changes.
function take(line,    word) {
	if (match(line, /^[A-Z][a-z]+: +/) && line ~ /^(Shape|Ownership|Returns|Errors|Cancel|Limits|Lifetime|Threads|Source):/) {
		length_of = RLENGTH
		pre_end()
		word = substr(line, 1, index(line, ":") - 1)
		section = word == "Returns" ? "RETURN VALUE" : toupper(word)
		line = substr(line, length_of + 1)
		is_list = wants_break = 0
	}
	if (line ~ /^\t/) {
		if (!is_pre)
			text_of[section] = text_of[section] (text_of[section] == "" ? "" : ".PP\n") ".nf\n"
		is_pre = 1
		gsub(/\\/, "\\e", line)
		gsub(/->/, "\\->", line)
		text_of[section] = text_of[section] guarded(substr(line, 2)) "\n"
		return
	}
	if (is_pre && line == "")
		return
	if (is_pre) {
		pre_end()
		wants_break = 1
	}
	if (line == "") {
		wants_break = text_of[section] != ""
		return
	}
	if (line ~ /^ +- /) {
		sub(/^ +- /, "", line)
		text_of[section] = text_of[section] ".IP \\(bu 2\n"
		is_list = 1
	} else if (is_list && line !~ /^ /) {
		text_of[section] = text_of[section] ".PP\n"
		is_list = 0
	} else if (wants_break)
		text_of[section] = text_of[section] ".PP\n"
	wants_break = 0
	sub(/^ +/, "", line)
	text_of[section] = text_of[section] roff(line) "\n"
}

function page_write(    out, i, names, count, order, words) {
	count = split(title, names, /, */)
	out = folder "/" names[1] ".3"
	printf ".TH %s 3 2026-11-22 \"Cleave %s\" \"Cleave's libraries\"\n", toupper(names[1]), version > out
	printf ".SH NAME\n%s \\- %s\n", title, roff(what) > out
	printf ".SH SYNOPSIS\n.nf\n#include <cleave/%s>\n", header > out
	if (prototypes != "")
		printf ".PP\n%s", prototypes > out
	printf ".fi\n" > out
	pre_end()
	split("DESCRIPTION|SHAPE|RETURN VALUE|ERRORS|OWNERSHIP|CANCEL|LIMITS|LIFETIME|THREADS|SOURCE", order, "|")
	for (i = 1; i in order; i++)
		if (text_of[order[i]] != "")
			printf ".SH %s\n%s", order[i], text_of[order[i]] > out
	if (title != see)
		printf ".SH SEE ALSO\n.BR %s (3)\n", see > out
	close(out)
	for (i = 2; i <= count; i++) {
		printf ".so man3/%s.3\n", names[1] > (folder "/" names[i] ".3")
		close(folder "/" names[i] ".3")
	}
	pages++
}

function page_end() {
	if (prototypes != "")
		page_write()
	title = prototypes = ""
}

function page_begin(name, text) {
	page_end()
	title = name
	what = text
	section = "DESCRIPTION"
	split("", text_of)
	is_pre = is_list = wants_break = 0
}

FNR == 1 { header = FILENAME; sub(/.*\//, "", header) }

/^\/\*/ { page_end(); is_comment = $0 !~ /\*\/$/; line_count = 0; next }

is_comment && /^ \*\/$/ { is_comment = 0; next }

is_comment {
	line = $0
	sub(/^ \* ?/, "", line)
	if (++line_count > 1) {
		if (title != "")
			take(line)
	} else if (match(line, / -- /)) {
		page_begin(substr(line, 1, RSTART - 1), substr(line, RSTART + 4))
		if (title ~ /\.h$/) {
			is_head = 1
			if (title != header)
				fail("it is another header's comment")
		}
	}
	next
}

is_head {
	is_head = 0
	if (overview != "") {
		title = overview
		sub(/^[a-z_]+: /, "", what)
		page_write()
	}
	title = ""
}

# A prototype: from the first column to the semicolon. Types, inline functions and macros are none.
/^[a-z][^;={]*\(/ && !/^(typedef|static)/ { is_prototype = match($0, /[a-z_0-9]+\(/) }

is_prototype {
	if ($0 ~ /^[a-z]/) {
		name = substr($0, RSTART, RLENGTH - 1)
		if (!((", " title ",") ~ (", " name ",")))
			fail(name " has no comment of its name")
	}
	line = $0
	gsub(/\t/, "        ", line)
	prototypes = prototypes guarded(line) "\n"
	if (line ~ /;$/)
		is_prototype = 0
	next
}

END {
	if (failed)
		exit 1
	page_end()
	if (pages == 0)
		fail("there is no function")
}
