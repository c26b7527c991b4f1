# SPDX-License-Identifier: Apache-2.0
#
# dashboard.awk -- a dashboard for Grafana of dashboard.list and the tables of metrics
#
#	awk -f dashboard.awk common/metric.h control/metrics.c control/metrics_rates.c control/metrics_room.c \
#	    ../storage-node/node.h ../storage-node/metrics.c ../vm-client/agent/nbd_metrics.h \
#	    ../vm-client/agent/nbd_metrics.c control/dashboard.list >cleave.dashboard.json
#
# Tables come first: they know each metric's name, its kind, its unit and what it means. A line of the list whose metric
# no table has fails, and so does the build: names cannot rot.

FNR == 1 { file_of[++files] = FILENAME; sub(/.*\//, "", file_of[files]) }
/^[ \t]*(\/\*|\*|#define|\/\/)/ && !/_LIST\(X\)/ { next }
{ text[files] = text[files] (file_of[files] ~ /list$/ ? "\n" : " ") $0 }

# The text between the next two double quotes of rest, which goes on behind them.
function taken(    at, out) {
	at = index(rest, "\"")
	rest = substr(rest, at + 1)
	at = index(rest, "\"")
	out = substr(rest, 1, at - 1)
	rest = substr(rest, at + 1)
	return out
}

function know(name, kind, unit, help) {
	kind_of[name] = kind
	unit_of[name] = unit
	help_of[name] = help
	known++
}

# What stands behind MACRO( in a table: what is quoted there, after a name that is not (the first, of a list).
function read_macro(at, macro, prefix, kind, is_list, unit,    name, own_unit) {
	rest = text[at]
	gsub(/\\[ \t]+/, " ", rest)
	gsub(/"[ \t]+"/, "", rest)
	while (match(rest, "[^A-Z_]" macro "\\([a-z_0-9]+, ")) {
		name = substr(rest, RSTART, RLENGTH)
		rest = substr(rest, RSTART + RLENGTH)
		if (is_list) {
			sub(/.*\(/, "", name)
			sub(/, $/, "", name)
		} else if (substr(rest, 1, 1) == "\"") {
			name = taken()
		} else
			continue # the macro itself
		own_unit = unit != "" ? unit : taken()
		know(prefix "_" name, kind, own_unit, taken())
	}
}

# METRIC_MEMBER(struct SAMPLE, member, "name", "unit", "help", METRIC_KIND)
function read_member(at, sample, prefix,    name, unit, help) {
	rest = text[at]
	gsub(/"[ \t]+"/, "", rest)
	while (match(rest, "METRIC_MEMBER\\(struct " sample ", [a-z_]+,[ \t]+\"")) {
		rest = substr(rest, RSTART + RLENGTH - 1)
		name = taken()
		unit = taken()
		help = taken()
		know(prefix "_" name, rest ~ /^,[ \t]+METRIC_COUNTER/ ? "counter" : "gauge", unit, help)
	}
}

function read_tables(    i) {
	for (i = 1; i <= files; i++) {
		if (file_of[i] == "metric.h")
			read_macro(i, "X", "cleave_gateway", "counter", 1)
		else if (file_of[i] == "node.h")
			read_macro(i, "X", "cleave_storage", "counter", 1)
		else if (file_of[i] == "metrics_rates.c")
			read_macro(i, "RATE", "cleave_gateway_volume", "counter", 0)
		else if (file_of[i] == "metrics_room.c") {
			read_macro(i, "ROOM", "cleave_gateway", "gauge", 0, "bytes")
			read_macro(i, "NODE_ROOM", "cleave_gateway_node", "gauge", 0, "bytes")
		} else if (file_of[i] == "metrics.c" && text[i] ~ /write_ports/) {
			read_macro(i, "SAMPLE", "cleave_gateway", "gauge", 0)
			read_macro(i, "PORT", "cleave_gateway", "gauge", 0)
			read_macro(i, "SHARD", "cleave_gateway_shard", "gauge", 0)
			read_macro(i, "SHARD_COUNTER", "cleave_gateway_shard", "counter", 0)
			read_macro(i, "NODE", "cleave_gateway_node", "gauge", 0)
			read_member(i, "event_sample", "cleave_gateway")
			read_member(i, "health_sample", "cleave_gateway_health")
			read_member(i, "mt_link_status", "cleave_gateway_node")
		} else if (file_of[i] == "nbd_metrics.h") {
			read_macro(i, "X", "cleave_agent", "counter", 1)
			read_macro(i, "X", "cleave_agent_export", "counter", 1)
		} else if (file_of[i] == "nbd_metrics.c") {
			read_macro(i, "AGENT", "cleave_agent", "gauge", 0)
			read_macro(i, "EXPORT", "cleave_agent_export", "gauge", 0)
		} else if (file_of[i] == "metrics.c") {
			read_macro(i, "NODE", "cleave_storage", "gauge", 0)
			read_macro(i, "DISK", "cleave_storage", "gauge", 0, "bytes")
		}
	}
}

function fail(words) {
	print "dashboard.awk: " words > "/dev/stderr"
	failed = 1
	exit 1
}

function quoted(words) {
	gsub(/\\/, "\\\\", words)
	gsub(/"/, "\\\"", words)
	return "\"" words "\""
}

function grafana_unit(name) {
	if (unit_of[name] == "bytes")
		return kind_of[name] == "counter" ? "binBps" : "bytes"
	if (unit_of[name] == "ns" || unit_of[name] == "seconds")
		return unit_of[name] == "ns" ? "ns" : "s"
	return kind_of[name] == "counter" ? "cps" : "short"
}

function print_panel(name, title, fold, by, legend,    expr) {
	if (!(name in kind_of))
		fail(name " is in no table of metrics")
	if (fold != "sum" && fold != "max")
		fail(name ": sum or max is wanted, not '" fold "'")
	expr = kind_of[name] == "counter" ? "rate(" name "_total[$__rate_interval])" : name
	expr = fold " by (" by ") (" expr ")"
	printf "%s    {\"id\": %d, \"type\": \"timeseries\", \"title\": %s, \"description\": %s,\n", comma, ++id, quoted(title),
	    quoted(help_of[name])
	printf "     \"datasource\": {\"type\": \"prometheus\", \"uid\": \"${datasource}\"},\n"
	printf "     \"gridPos\": {\"h\": 7, \"w\": 8, \"x\": %d, \"y\": %d},\n", column * 8, y
	printf "     \"fieldConfig\": {\"defaults\": {\"unit\": %s, \"min\": 0}, \"overrides\": []},\n", quoted(grafana_unit(name))
	printf "     \"targets\": [{\"refId\": \"A\", \"expr\": %s, \"legendFormat\": %s}]}", quoted(expr), quoted(legend)
	comma = ",\n"
	column = (column + 1) % 3
	y += column == 0 ? 7 : 0
}

function print_row(title) {
	y += column > 0 ? 7 : 0
	column = 0
	printf "%s    {\"id\": %d, \"type\": \"row\", \"title\": %s, \"collapsed\": false, \"panels\": [],\n", comma, ++id, quoted(title)
	printf "     \"gridPos\": {\"h\": 1, \"w\": 24, \"x\": 0, \"y\": %d}}", y++
	comma = ",\n"
}

END {
	read_tables()
	if (known < 50)
		fail("only " known + 0 " metrics were read from the tables")
	print "{\n  \"title\": \"Cleave\", \"uid\": \"cleave\", \"schemaVersion\": 38, \"version\": 1, \"editable\": true,"
	print "  \"tags\": [\"cleave\"], \"refresh\": \"10s\", \"time\": {\"from\": \"now-3h\", \"to\": \"now\"},"
	print "  \"templating\": {\"list\": [{\"name\": \"datasource\", \"type\": \"datasource\", \"query\": \"prometheus\"}]},"
	print "  \"panels\": ["
	count = split(text[files], lines, "\n")
	for (i = 1; i <= count; i++) {
		if (lines[i] == "" || lines[i] ~ /^#/)
			continue
		if (sub(/^row /, "", lines[i])) {
			print_row(lines[i])
			continue
		}
		if (split(lines[i], words, " [|] ") != 5)
			fail("'" lines[i] "' is no panel")
		print_panel(words[1], words[2], words[3], words[4], words[5])
	}
	if (!failed)
		print "\n  ]\n}"
}
