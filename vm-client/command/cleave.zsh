#compdef cleave
# SPDX-License-Identifier: Apache-2.0
# zsh completion of cleave: the program itself knows its words (cleave complete)

local -a lines
lines=(${(f)"$(_call_program words ${(q)words[1]} complete ${(q)words[2,CURRENT]} 2>/dev/null)"})
if (( $#lines )); then
	compadd -a lines
else
	_files
fi
