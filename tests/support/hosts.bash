# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
#
# hosts.bash -- ./dev up --hosts: a cluster on several hosts of one machine, to try and to break
#
#	                    bridge cleave0, 198.51.100.254: this machine
#	        .----------------------.----------------------.
#	198.51.100.1 host1     198.51.100.2 host2     198.51.100.3 host3    network namespaces cleave-host1 ...
#	  etcd :2379             etcd :2379             etcd :2379          the metadata store, a member each
#	  gateway :7100          gateway :7100          gateway :7100
#	  nodes :7201 :7202      nodes :7201 :7202      nodes :7201 :7202   copies are on three different hosts
#	  agent unix:nbd1        agent unix:nbd2        agent unix:nbd3     volumes host1 ... as NBD disks
#
# A part of the dev script, which sources it: $home, say, die, start_daemon, stop_daemon, wait_until.
# 198.51.100.0/24 is for examples (RFC 5737); CLEAVE_HOSTS_NET is another one, its first three parts.

hosts_net=${CLEAVE_HOSTS_NET:-198.51.100}
hosts_bridge=cleave0
hosts_max=9
hosts_disk_size=${CLEAVE_DISK_SIZE:-1G}
hosts_cluster_id=c1ea7e0000000003

host_space() { printf 'cleave-host%s' "$1"; }
host_address() { printf '%s.%s' "$hosts_net" "$1"; }

# hosts_list PORT: of all hosts, with commas
hosts_list() {
	local i
	for ((i = 1; i <= host_count; i++)); do
		printf '%s%s:%s' "$([ "$i" -eq 1 ] || echo ,)" "$(host_address "$i")" "$1"
	done
}

# hosts_load: how many there are, as up has left it
hosts_load() {
	host_count=$(cat "$home/hosts" 2>/dev/null) ||
		die "there are no hosts in $home: ./dev up --hosts 3 makes them"
}

# hosts_network: namespaces and links, where they are not there yet. A machine that was started anew has none.
hosts_network() {
	local i space
	if [ ! -e "/sys/class/net/$hosts_bridge" ]; then
		[ -z "$(ip -4 route show root "$hosts_net.0/24")" ] ||
			die "this machine has a route into $hosts_net.0/24: set CLEAVE_HOSTS_NET to another one, like 198.18.7"
		ip link add "$hosts_bridge" type bridge
		ip address add "$hosts_net.254/24" dev "$hosts_bridge"
	fi
	ip link set "$hosts_bridge" up
	for ((i = 1; i <= host_count; i++)); do
		space=$(host_space "$i")
		[ ! -e "/run/netns/$space" ] || continue
		ip netns add "$space"
		ip link add "cleave-h$i" type veth peer name eth0 netns "$space"
		ip link set "cleave-h$i" master "$hosts_bridge" up
		ip -n "$space" link set lo up
		ip -n "$space" address add "$(host_address "$i")/24" dev eth0
		ip -n "$space" link set eth0 up
	done
}

hosts_network_down() {
	local i
	for ((i = 1; i <= hosts_max; i++)); do
		[ ! -e "/sys/class/net/cleave-h$i" ] || ip link delete "cleave-h$i"
		[ ! -e "/run/netns/$(host_space "$i")" ] || ip netns delete "$(host_space "$i")"
	done
	[ ! -e "/sys/class/net/$hosts_bridge" ] || ip link delete "$hosts_bridge"
}

# hosts_network_left: spaces that this folder has not made. Those that something runs in are another cluster's;
# those that nothing runs in were left by a script that was killed, and hold nothing: they are removed.
hosts_network_left() {
	local i space pids left=
	for ((i = 1; i <= hosts_max; i++)); do
		space=$(host_space "$i")
		[ -e "/run/netns/$space" ] || continue
		pids=$(ip netns pids "$space" | paste -sd ' ')
		[ -z "$pids" ] || die "$space is there already, of another folder, and runs (pids $pids): ./dev down --hosts there"
		left=1
	done
	[ -n "$left" ] || return 0
	say "nothing runs in the network namespaces that an earlier ./dev up --hosts left: they are made anew"
	hosts_network_down
}

# on_host N COMMAND...: replaces this shell; start_daemon runs it in the background
on_host() {
	local i=$1
	shift
	start_daemon "$host_part" ip netns exec "$(host_space "$i")" "$@"
}

# What a member says when it serves ("ready to serve client requests") ends start_daemon's wait.
host_start_etcd() {
	local i=$1 j peers="" at
	at=http://$(host_address "$i")
	for ((j = 1; j <= host_count; j++)); do
		peers+="$([ "$j" -eq 1 ] || echo ,)host$j=http://$(host_address "$j"):2380"
	done
	host_part=etcd$i on_host "$i" etcd --name "host$i" --data-dir "$home/etcd$i" \
		--listen-client-urls "$at:2379" --advertise-client-urls "$at:2379" \
		--listen-peer-urls "$at:2380" --initial-advertise-peer-urls "$at:2380" \
		--initial-cluster "$peers" --initial-cluster-token cleave-dev
}

host_disk() { printf '%s/disk%s.%s' "$home" "$1" "$2"; }

host_start_nodes() {
	local i=$1 n disk
	for n in 1 2; do
		disk=$(host_disk "$i" "$n")
		if [ ! -e "$disk.formatted" ]; then
			rm -f "$disk"
			"$bin_storage" format --disk "$disk" --size "$hosts_disk_size" --slot-size 16M \
				--cluster-id "$hosts_cluster_id" --node-id "$((10 * i + n))"
			: >"$disk.formatted"
		fi
		host_part=node$i.$n on_host "$i" "$bin_storage" --disk "$disk" \
			--listen "tcp://$(host_address "$i"):720$n" --key "$(key_of "node/$((10 * i + n))")"
	done
}

# hosts_nodes: --node of each, to array nodes
hosts_nodes() {
	local i n
	nodes=()
	for ((i = 1; i <= host_count; i++)); do
		for n in 1 2; do
			nodes+=(--node "tcp://$(host_address "$i"):720$n,domain=host$i")
		done
	done
}

host_start_gateway() {
	local i=$1 nodes
	hosts_nodes
	host_part=gateway$i on_host "$i" "$bin_gateway" --meta "etcd://$(hosts_list 2379)" \
		--cluster-id "$hosts_cluster_id" --gateway-id "$i" --port "tcp://$(host_address "$i"):7100" \
		--key "$(key_of "gateway/$i")" "${nodes[@]}"
}

# The etcds all at once: one alone has no majority, and is not ready.
hosts_start_etcds() {
	local i pids=()
	for ((i = 1; i <= host_count; i++)); do
		host_start_etcd "$i" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do
		wait "$i" || die "the metadata store did not start"
	done
}

host_cleave() {
	"$bin_cleave" --gateway "tcp://$(host_address "$1"):7100" "${@:2}"
}

# Each host exports a volume of its own: its virtual machine's disk, so to say.
host_start_agent() {
	local i=$1 socket
	socket=$(cd "$home" && pwd)/nbd$i
	host_cleave "$i" volume show "host$i" >/dev/null 2>&1 ||
		host_cleave "$i" volume create "host$i" --size 256M >/dev/null
	user_add "tcp://$(host_address "$i"):7100" "host$i" "host$i"
	host_part=agent$i on_host "$i" "$bin_agent" --gateway "tcp://$(host_address "$i"):7100" \
		--key "$(key_of "client/host$i")" --volume "host$i" --listen "unix:$socket"
}

hosts_keys() {
	local i subjects=()
	for ((i = 1; i <= host_count; i++)); do
		subjects+=("gateway/$i" "client/host$i" "node/${i}1" "node/${i}2")
	done
	keys_make "$hosts_cluster_id" "${subjects[@]}"
}

hosts_up() {
	local i nodes
	[[ $1 =~ ^[1-9]$ ]] || die "up --hosts: '$1' is not understood: 1 to $hosts_max (3 lose one and go on)"
	install $packages_build iproute2 etcd-server
	build release cleave-storage cleave-gateway cleave cleave-load cleave-agent
	mkdir -p "$home"
	[ -e "$home/$home_mark" ] || [ -z "$(ls -A "$home")" ] ||
		die "$home holds something that ./dev up --hosts did not make: set CLEAVE_HOME to another folder"
	[ -e "$home/hosts" ] || hosts_network_left
	[ ! -e "$home/hosts" ] || [ "$(cat "$home/hosts")" = "$1" ] ||
		die "$home has $(cat "$home/hosts") hosts: ./dev down --hosts --erase, to begin with $1"
	echo "made by ./dev up --hosts, removed by ./dev down --hosts --erase" >"$home/$home_mark"
	host_count=$1
	echo "$host_count" >"$home/hosts"
	hosts_network
	hosts_keys
	hosts_start_etcds
	for ((i = 1; i <= host_count; i++)); do
		host_start_nodes "$i"
	done
	if [ ! -e "$home/created" ]; then
		hosts_nodes
		"$bin_gateway" --create --meta "etcd://$(hosts_list 2379)" --cluster-id "$hosts_cluster_id" \
			--key "$(key_of gateway/1)" "${nodes[@]}"
		: >"$home/created"
	fi
	for ((i = 1; i <= host_count; i++)); do
		host_start_gateway "$i"
	done
	gateway=tcp://$(host_address 1):7100
	demo
	for ((i = 1; i <= host_count; i++)); do
		host_start_agent "$i"
	done
	hosts_tell
}

hosts_tell() {
	local i
	say "the cluster runs on $host_count hosts; each exports a volume as a disk:"
	for ((i = 1; i <= host_count; i++)); do
		echo "     nbd+unix:///host$i?socket=$(uri_path "$(cd "$home" && pwd)/nbd$i")"
	done
	cat <<-EOF
	   Try next:
	     export CLEAVE_GATEWAY=tcp://$(host_address 1):7100
	$(keys_tell)
	     $bin_cleave gateway list; $bin_cleave node list
	     $bin_load --volume demo --pattern random --in-flight 16 --seconds 60 &
	     ./dev break host$host_count          # its network is cut
	     ./dev break host$host_count --kill   # power fails: everything on it is killed
	     ./dev heal
	     ip netns exec $(host_space 1) bash   # a shell on host1
	   ./dev down --hosts stops it
	EOF
}

host_parts() {
	printf '%s ' "agent$1" "gateway$1" "node$1.1" "node$1.2" "etcd$1"
}

# hosts_named NAME: its number
hosts_named() {
	hosts_load
	[[ $1 =~ ^host([1-9])$ ]] && [ "${BASH_REMATCH[1]}" -le "$host_count" ] ||
		die "there is no '$1': host1 to host$host_count"
	printf '%s' "${BASH_REMATCH[1]}"
}

hosts_break() {
	local i part pid
	i=$(hosts_named "$1")
	host_count=$(cat "$home/hosts")
	case ${2:-} in
	"")
		ip link set "cleave-h$i" down
		say "host$i is cut off: nothing goes in or out"
		;;
	--kill)
		for part in $(host_parts "$i"); do
			pid=$(pid_of "$part") || continue
			kill -9 "$pid"
			wait_until is_gone "$pid" || die "$part (pid $pid) cannot be killed"
			rm -f "$home/$part.pid"
		done
		say "everything on host$i was killed"
		;;
	*) die "break: '$2' is not understood: see ./dev help" ;;
	esac
}

# What was cut is joined, what was killed is started; of what runs nothing is touched.
hosts_heal() {
	local i
	hosts_load
	hosts_network
	hosts_keys
	for ((i = 1; i <= host_count; i++)); do
		ip link set "cleave-h$i" up
	done
	hosts_start_etcds
	for ((i = 1; i <= host_count; i++)); do
		host_start_nodes "$i"
		host_start_gateway "$i"
		host_start_agent "$i"
	done
	say "all hosts are joined, and everything runs"
}

hosts_down() {
	local i part
	[ ! -e "$home" ] || [ -e "$home/$home_mark" ] || die "$home was not made by ./dev up: nothing is removed there"
	[ -e "$home/hosts" ] || die "there are no hosts in $home"
	hosts_load
	for part in agent gateway node etcd; do
		for ((i = 1; i <= host_count; i++)); do
			for part_of_host in $(host_parts "$i"); do
				[[ $part_of_host != "$part"* ]] || stop_daemon "$part_of_host"
			done
		done
	done
	hosts_network_down
	[ "${1:-}" = --erase ] || return 0
	for ((i = 1; i <= host_count; i++)); do
		rm -rf "$home/etcd$i"
		rm -f "$(host_disk "$i" 1)"{,.formatted} "$(host_disk "$i" 2)"{,.formatted} "$home/nbd$i"
		for part in $(host_parts "$i"); do
			rm -f "$home/$part.log" "$home/$part.log.1"
		done
	done
	keys_remove
	rm -f "$home"/data.{list,part,tar} "$home/created" "$home/hosts" "$home/$home_mark"
	rmdir "$home" 2>/dev/null || [ ! -e "$home" ] || say "$home holds more than this script made: left there"
}
