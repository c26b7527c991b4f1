# SPDX-License-Identifier: Apache-2.0
# bash completion of cleave: the program itself knows its words (cleave complete)

# bash cuts words at the characters of COMP_WORDBREAKS, among them @, : and =, and wants the part behind the last of
# them; the last @ is a part of it. The program is asked by whole words.
_cleave()
{
	local rest=${COMP_LINE:0:COMP_POINT} words=() blank part breaks cut line i
	COMPREPLY=()
	for ((i = 0; i <= COMP_CWORD; i++)); do
		blank=${rest%%[![:space:]]*}
		rest=${rest#"$blank"}
		part=${COMP_WORDS[i]}
		((i < COMP_CWORD)) || part=$rest # up to the cursor
		rest=${rest#"$part"}
		if [[ ${#words[@]} -eq 0 || -n $blank ]]; then
			words+=("$part")
		else
			words[-1]+=$part
		fi
	done
	breaks=${COMP_WORDBREAKS//[^@:=]/}
	cut=${breaks:+${words[-1]%"${words[-1]##*["$breaks"]}"}}
	cut=${cut%@}
	while IFS= read -r line; do
		COMPREPLY+=("${line#"$cut"}")
	done < <("${COMP_WORDS[0]}" complete "${words[@]:1}" 2>/dev/null)
}
complete -o default -F _cleave cleave
