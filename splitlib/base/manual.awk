# SPDX-License-Identifier: Apache-2.0
#
# manual.awk -- a manual page from its hand-written part and what the program's --help says
#
#	awk -v program=build/dev/storage-node/cleave-storage -v version=0.1.0 -f manual.awk cleave-storage.8.in
#
# Lines of the input that begin with @ are replaced, all others are copied, with @VERSION@ filled in:
#
#	@SYNOPSIS         the program's usages
#	@OPTIONS [WORD]   the options that `program --help` (`program WORD --help`) lists, in its words
#	@COMMANDS         the list of commands behind them
#
# config_help.c makes --help from the table that parses; this reads what that writes, and fails where
# there is nothing to read.

function fail(text) {
	print "manual.awk: " FILENAME ": " text > "/dev/stderr"
	failed = 1
	exit 1
}

# Plain text as roff: `code` is bold, dashes that are typed are dashes.
function roff(text,    out) {
	gsub(/\\/, "\\e", text)
	out = ""
	while (match(text, /`[^`]*`/)) {
		out = out hyphens(substr(text, 1, RSTART - 1)) \
		    "\\fB" dashes(substr(text, RSTART + 1, RLENGTH - 2)) "\\fR"
		text = substr(text, RSTART + RLENGTH)
	}
	out = out hyphens(text)
	gsub(/\^/, "\\(ha", out)
	gsub(/~/, "\\(ti", out)
	if (out ~ /^[.']/)
		out = "\\&" out
	return out
}

function dashes(text) {
	gsub(/-/, "\\-", text)
	return text
}

# Dashes at the start of a word are typed: --size; those within "take-over" are not.
function hyphens(text,    count, words, i, out, word) {
	count = split(text, words, " ")
	out = text ~ /^ / ? " " : ""
	for (i = 1; i <= count; i++) {
		word = words[i]
		if (word ~ /^[([]?-/ || word ~ /\/\//)
			word = dashes(word)
		out = out (i > 1 ? " " : "") word
	}
	return out (text ~ /. $/ ? " " : "")
}

# A usage: what is typed is bold, what stands for something is italic.
function marked(text,    count, words, i, out, word, lead, tail, is_free) {
	count = split(text, words, " ")
	for (i = 1; i <= count; i++) {
		word = words[i]
		lead = tail = ""
		while (word ~ /^\[/) {
			lead = lead "["
			word = substr(word, 2)
			is_free = word !~ /^-/ # "[options of ...": words, not to be typed
		}
		while (word ~ /[].,]$/) {
			tail = substr(word, length(word)) tail
			word = substr(word, 1, length(word) - 1)
		}
		if (word ~ /^-/ || (word ~ /^[a-z]/ && word !~ /^or$|:\/\// && !is_free))
			word = "\\fB" dashes(word) "\\fR"
		else if (word ~ /^[A-Z]/)
			word = "\\fI" dashes(word) "\\fR"
		if (tail ~ /\]/)
			is_free = 0
		out = out (i > 1 ? " " : "") lead word tail
	}
	return out
}

# help[1..n]: the lines of `program words --help`.
function read_help(words,    command, line, n) {
	command = "'" program "' " words " --help"
	n = 0
	while ((command | getline line) > 0)
		help[++n] = line
	close(command)
	if (n == 0)
		fail("no answer from " command)
	return n
}

function print_synopsis(    n, i, usages, count, name) {
	n = read_help("")
	count = 0
	for (i = 1; i <= n && help[i] != ""; i++) {
		sub(/^Usage: /, "       ", help[i])
		name = help[i]
		sub(/^       /, "", name)
		if (name ~ /^cleave/)
			usages[++count] = name
		else {
			sub(/^ +/, "", name)
			usages[count] = usages[count] " " name
		}
	}
	if (count == 0)
		fail("no usage in --help")
	for (i = 1; i <= count; i++)
		print (i > 1 ? ".br\n" : "") marked(usages[i])
}

# An option's left column stands alone when it is too wide for its text to begin beside it.
function print_options(words,    n, i, count, text) {
	n = read_help(words)
	for (i = 1; i <= n && help[i] != "Options:"; i++)
		;
	for (i++; i <= n && help[i] != ""; i++) {
		if (help[i] !~ /^  (    |-., )--/)
			fail("not an option: " help[i])
		text = ""
		if (length(help[i]) > 26 && substr(help[i], 25, 2) == "  ") {
			text = substr(help[i], 27)
			help[i] = substr(help[i], 1, 26)
		}
		sub(/^ +/, "", help[i])
		sub(/ +$/, "", help[i])
		print ".TP\n" marked(help[i])
		while (i < n && help[i + 1] ~ /^                          [^ ]/)
			text = text (text == "" ? "" : " ") substr(help[++i], 27)
		print roff(text)
		count++
	}
	if (count == 0)
		fail("no options in --help")
}

# A command's words begin behind two spaces and go on behind eight, what it does stands behind six.
function print_commands(    n, i, count, words, text) {
	n = read_help("")
	for (i = 1; i <= n && help[i] !~ /^Commands/; i++)
		;
	for (i++; i <= n && help[i] != ""; i++) {
		words = substr(help[i], 3)
		while (i < n && help[i + 1] ~ /^        [^ ]/)
			words = words " " substr(help[++i], 9)
		text = ""
		while (i < n && help[i + 1] ~ /^      [^ ]/)
			text = text (text == "" ? "" : " ") substr(help[++i], 7)
		if (text == "")
			fail("not a command: " words)
		print ".TP\n" marked(words) "\n" roff(text)
		count++
	}
	if (count == 0)
		fail("no commands in --help")
}

/^@SYNOPSIS/ { print_synopsis(); next }
/^@OPTIONS/ { print_options($2); next }
/^@COMMANDS/ { print_commands(); next }
/^@/ { fail("unknown: " $0) }
{ gsub(/@VERSION@/, version); print }
END { exit failed }
