# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# keys.bash -- ./dev up: an authority, and a key for each process, in $home/keys
#
# A part of the dev script, which sources it: $home, die, pid_of, the programs.
# An authority belongs on another machine: this one is of a cluster to try. $CLEAVE_KEY is an admin's from here on.

# key_of SUBJECT: the file
key_of() { printf '%s/keys/%s.key' "$(cd "$home" && pwd)" "${1//\//-}"; }

# keys_make CLUSTER SUBJECT...: those that are not there yet
keys_make() {
	local ca=$home/keys/ca subject
	if [ ! -e "$ca/ca.key" ]; then
		if pid_of gateway >/dev/null || pid_of gateway1 >/dev/null; then
			die "the cluster in $home runs without keys: ./dev down first, and up starts it with keys"
		fi
		rm -rf "$home/keys"
		mkdir -m 0700 "$home/keys"
		"$bin_cleave" key init --cluster-id "$1" --ca "$ca" >/dev/null
	fi
	for subject in admin/you "${@:2}"; do
		[ -e "$(key_of "$subject")" ] ||
			"$bin_cleave" key issue "$subject" --out "$(key_of "$subject")" --ca "$ca" >/dev/null
	done
	CLEAVE_KEY=$(key_of admin/you)
	export CLEAVE_KEY
}

# user_add GATEWAY NAME VOLUME: what an agent's key is for
user_add() {
	"$bin_cleave" --gateway "$1" user show "$2" >/dev/null 2>&1 ||
		"$bin_cleave" --gateway "$1" user add "$2" "$3:rw" >/dev/null
}

# keys_tell: for programs to be let in
keys_tell() { printf '     export CLEAVE_KEY=%q\n' "$(key_of admin/you)"; }

keys_remove() { rm -rf "$home/keys"; }
