# SPDX-License-Identifier: Apache-2.0
# bash completion of cleave: the program itself knows its words (cleave complete)

_cleave()
{
	local words=("${COMP_WORDS[@]:1:COMP_CWORD}") line
	COMPREPLY=()
	while IFS= read -r line; do
		COMPREPLY+=("$line")
	done < <("${COMP_WORDS[0]}" complete "${words[@]}" 2>/dev/null)
}
complete -o default -F _cleave cleave
