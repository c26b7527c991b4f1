# SPDX-License-Identifier: Apache-2.0
#
# rules.awk -- alert rules for Prometheus from the list of cleave/health.h
#
#	awk -f rules.awk include/cleave/health.h >cleave.rules.yml
#
# An alert a code, of the reasons that gateways tell (cleave_gateway_health_reasons). That a gateway is silent another
# one tells, and up; that there is none nobody does. Fails where the list is not read.

!/^[ \t]*\/\*/ { text = text " " $0 } # comments show what an entry looks like

# "node-down" -> "CleaveNodeDown"
function alert_of(code,    count, words, i, out) {
	out = "Cleave"
	count = split(code, words, "-")
	for (i = 1; i <= count; i++)
		out = out toupper(substr(words[i], 1, 1)) substr(words[i], 2)
	return out
}

# In single quotes, where YAML knows one escape alone.
function quoted(words) {
	gsub(/'/, "''", words)
	return "'" words "'"
}

# The text between the next two double quotes of rest, which goes on behind them.
function taken(    at, out) {
	at = index(rest, "\"")
	rest = substr(rest, at + 1)
	at = index(rest, "\"")
	out = substr(rest, 1, at - 1)
	rest = substr(rest, at + 1)
	return out
}

END {
	gsub(/\\[ \t]+/, " ", text)
	gsub(/"[ \t]+"/, "", text)
	print "# Made from include/cleave/health.h: HANDBOOK.md, Health, says the same. Prometheus: rule_files."
	print "groups:\n  - name: cleave\n    rules:"
	rest = text
	while (match(rest, /X\([A-Z_]+, "/)) {
		rest = substr(rest, RSTART + RLENGTH - 1)
		code = taken()
		match(rest, /(WARN|ERROR)/)
		level = substr(rest, RSTART, RLENGTH)
		means = taken()
		helps = taken()
		expr = code == "no-gateway" ? "absent(cleave_gateway_uptime_seconds)" \
		    : "max by (instance) (cleave_gateway_health_reasons{code=\"" code "\"}) > 0"
		if (code == "gateway-silent")
			expr = "up{job=~\"cleave.*gateway.*\"} == 0 or " expr
		print "      - alert: " alert_of(code)
		print "        expr: " quoted(expr)
		print "        for: " (level == "ERROR" ? "15s" : "1m")
		print "        labels:\n          severity: " (level == "ERROR" ? "critical" : "warning")
		print "        annotations:\n          summary: " quoted(means)
		print "          description: " quoted(helps)
		count++
	}
	if (count == 0) {
		print "rules.awk: there is no list of codes" > "/dev/stderr"
		exit 1
	}
}
