"use strict";
// The page of a gateway: /api/cluster once a second, shown. Every text of a cluster goes through a text node.
const POLL_MS = 1000, GIVE_UP_MS = 2000, STALE_MS = 2300, TICK_MS = 250, KEEP_MS = 120000, SCHEMA = 1;
const $ = (id) => document.getElementById(id);

// el("td", {class: "x"}, "text", node, ...)
function el(name, attributes, ...children) {
	const node = document.createElement(name);
	for (const key in attributes)
		node.setAttribute(key, attributes[key]);
	node.append(...children.filter((child) => child !== null));
	return node;
}

// Live regions are spoken when they change, so they are set when they do.
function say(id, text) {
	if ($(id).textContent !== text)
		$(id).textContent = text;
}

// A part of the page is made anew when what it shows has changed: what is selected or read stays.
const shown = {};
function show(id, value, make) {
	const text = JSON.stringify(value);
	if (shown[id] === text)
		return;
	shown[id] = text;
	$(id).replaceChildren(...make(value));
}

const count = (n) => Math.round(n).toLocaleString("en");
function size(bytes) {
	const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
	let at = 0;
	for (; bytes >= 1024 && at < units.length - 1; at++)
		bytes /= 1024;
	return (at === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toPrecision(3)) + " " + units[at];
}
function time(seconds) {
	if (seconds < 90)
		return Math.round(seconds) + " s";
	if (seconds < 5400)
		return Math.round(seconds / 60) + " min";
	return seconds < 172800 ? Math.round(seconds / 3600) + " h" : Math.round(seconds / 86400) + " days";
}
const day = (ms) => new Date(ms).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");
const many = (n, one, more) => count(n) + " " + (n === 1 ? one : more);
const id = (hex) => hex.replace(/^0+(?=.)/, "");
const level = (text) => ["OK", "WARN", "ERROR"].includes(text) ? text : "NONE";
const SIGNS = { OK: "\u2713", WARN: "\u26a0\ufe0e", ERROR: "\u2715", INFO: "\u00b7" };
const sign = (text) => (SIGNS[text] || "?") + " " + text;

function table(caption, columns, groups) {
	const head = el("tr", { role: "row" }, ...columns.map((c) => el("th", { scope: "col", role: "columnheader" }, c)));
	const bodies = groups.map((group) => {
		const body = el("tbody", { role: "rowgroup" });
		if (group.name)
			body.append(el("tr", { class: "group", role: "row" },
				el("th", { scope: "rowgroup", role: "rowheader", colspan: columns.length }, group.name)));
		for (const row of group.rows)
			body.append(el("tr", { role: "row" }, ...row.map((cell, i) => i === 0
				? el("th", { scope: "row", role: "rowheader" }, cell)
				: el("td", { role: "cell", "data-label": columns[i] }, el("div", {}, cell)))));
		return body;
	});
	return el("table", { role: "table" }, el("caption", {}, caption), el("thead", { role: "rowgroup" }, head), ...bodies);
}
const state = (tone, text) => el("span", { class: "state", "data-level": tone }, sign(tone).slice(0, 1) + " " + text);

// ---- parts ----

function reasons(list) {
	return list.map((r) => el("li", { "data-level": level(r.level) },
		el("p", {}, el("span", { class: "tag" }, sign(r.level) + " " + r.code), ": " + r.text +
			(r.for_ms >= 1000 ? " (for " + time(Math.floor(r.for_ms / 1000)) + ")" : "")),
		el("p", { class: "helps" }, r.means + " What helps: " + r.helps)));
}

function fact(name, text) {
	return el("div", {}, el("dt", {}, name), el("dd", {}, text));
}

function facts(d) {
	const room = d.health.room, totals = d.health.totals, up = d.nodes.filter((n) => n.state === "up").length;
	const used = room.data_total > 0 ? Math.floor(room.data_used * 100 / room.data_total) : 0;
	const owned = d.gateways.gateways.reduce((sum, g) => sum + g.shards_owned, 0);
	const ratio = totals.stored_bytes > 0 ? (totals.write_bytes / totals.stored_bytes).toFixed(2) + " : 1" : "nothing written yet";
	return [
		fact("Nodes", up + " of " + d.nodes.length + " up"),
		fact("Shards with an owner", owned + " of " + d.shards.count),
		fact("Room for new data", room.data_total > 0 ? size(room.data_free) + ", " + used + " % in use" : "not known yet"),
		fact("Disks", size(room.raw_total - room.raw_free) + " of " + size(room.raw_total) + " in use"),
		fact("Compression here", ratio),
		fact("Clients here", count(totals.sessions) + " connections"),
	];
}

function copies(d) {
	const totals = d.health.totals, lines = [], copied = rate("copied_bytes");
	if (totals.extents_lacking > 0)
		lines.push(state("WARN", count(totals.extents_lacking) + " of " + count(totals.extents) + " extents lack copies"));
	if (totals.extents_leaving > 0)
		lines.push(count(totals.extents_leaving) + " extents are to be moved from nodes that drain");
	for (const n of d.nodes.filter((one) => one.member === "draining"))
		lines.push("node " + n.id + " drains: " + count(n.slots_total - n.slots_free) + " slots in use");
	if (d.rebalance.on)
		lines.push("rebalance: " + count(d.rebalance.copies) + " copies moved, " + size(d.rebalance.bytes) +
			(d.rebalance.waits !== "nothing" ? "; waits: " + d.rebalance.waits : ""));
	if (copied > 0)
		lines.push(size(copied) + " a second are copied");
	if (lines.length === 0)
		lines.push(state("OK", count(totals.extents) + " extents here have all their copies; nothing is moved"));
	return lines.map((line) => el("li", {}, line));
}

function nodeRow(n) {
	const total = n.slots_total * n.slot_bytes, used = (n.slots_total - n.slots_free) * n.slot_bytes;
	const kept = Math.min(n.slots_reserved, n.slots_free) * n.slot_bytes, fill = el("i"), keep = el("i", { class: "kept" });
	let tone = "OK", word = n.state;
	if (n.state !== "up")
		[tone, word] = ["ERROR", n.state + (n.trouble ? ": " + n.trouble : "")];
	else if (n.read_only)
		[tone, word] = ["ERROR", "read-only: its disk takes no more writes"];
	else if (n.maintenance_s > 0 || n.member === "draining" || n.full)
		[tone, word] = ["WARN", n.maintenance_s > 0 ? "in maintenance for " + time(n.maintenance_s) : n.full ? "full" : "draining"];
	fill.style.width = total > 0 ? used * 100 / total + "%" : "0";
	keep.style.width = total > 0 ? kept * 100 / total + "%" : "0";
	return [el("span", { class: "word" }, "node " + (n.id || "?")), state(tone, word), n.address.replace(/^tcp:\/\//, "") + (n.note ? " (" + n.note + ")" : ""),
		total === 0 ? "not known yet" : el("div", {}, el("div", { class: "bar", "aria-hidden": "true" }, fill, keep),
			Math.round(used * 100 / total) + " % of " + size(total) + ", " + size(kept) + " kept back")];
}

function nodes(list) {
	const domains = [...new Set(list.map((n) => n.domain))].sort();
	return [table(many(list.length, "node", "nodes") + ", by failure domain", ["Node", "State", "Address", "In use"],
		domains.map((name) => ({ name: "Domain " + (name || "(none)"), rows: list.filter((n) => n.domain === name).map(nodeRow) })))];
}

function gateways(g) {
	const rows = g.gateways.map((one) => ["gateway " + id(one.gateway) + (one.self ? " (this one)" : ""),
		state(one.state === "serving" ? "OK" : "WARN", one.state),
		one.shards_owned + ", its share is " + one.shards_share, one.ports.join(", "),
		one.self ? (one.lease_left_ms ? "told above" : "it has no lease") : "not known here"]);
	for (const away of g.drained_away)
		rows.push(["gateway " + id(away), state("WARN", "drained, and away"), "", "", "not known here"]);
	return [table(many(rows.length, "gateway", "gateways") + ", as the metadata store tells", ["Gateway", "State", "Shards", "Ports", "Health"],
		[{ rows: rows }])];
}

// As cleave volume set names them.
function limits(qos) {
	return Object.entries(qos).map(([name, n]) => name.replace("bytes_s", "bandwidth").replace("_ms", "").replaceAll("_", "-") +
		" " + (name.endsWith("bytes_s") ? size(n) + "/s" : name.endsWith("_ms") ? milliseconds(n * 1000) : count(n))).join(", ");
}

// What gateways held: clients of this release keep the limits themselves.
function waits(w) {
	return (w.waited > 0 ? many(w.waited, "request", "requests") + " waited here, " + milliseconds(w.wait_ms * 1000 / w.waited) +
		" in the mean" : "") + (w.held > 0 ? (w.waited > 0 ? "; " : "") + count(w.held) + " wait now" : "") +
		(w.refused > 0 ? (w.waited + w.held > 0 ? "; " : "") + count(w.refused) + " were told to come again" : "");
}

function limited(one, waited) {
	return el("div", {}, one.qos ? limits(one.qos) : "none",
		waited.has(one.name) ? el("p", { class: "helps" }, waits(waited.get(one.name))) : null);
}

function volumes(v) {
	const waited = new Map(v.waits.map((w) => [w.volume, w]));
	const more = v.count - v.list.length, rows = v.list.map((one) => [one.name, size(one.size_bytes), one.service_class,
		one.engine, limited(one, waited), one.holder ? one.holder.client + " at " + one.holder.address : "nobody"]);
	return [v.count === 0 ? el("p", {}, "There is none yet: cleave volume create")
		: table((more > 0 ? "the first " + v.list.length + " of " : "") + many(v.count, "volume", "volumes") + ", by name",
			["Volume", "Size", "Class", "Engine", "Limits", "Opened by"], [{ rows: rows }])];
}

// In the trash: until when is a time of this browser's clock, to the minute.
function trashed(list) {
	return list.map((one) => [one.name, String(one.id), size(one.size_bytes), count(one.snapshots), one.by || "not known", one.left_s > 0
		? "another " + time(one.left_s) + ", until " + day(Date.now() + one.left_s * 1000) : "it is being purged"]);
}

function trash(t) {
	const more = t.count - t.rows.length;
	return [t.count === 0 ? el("p", {}, "It is empty")
		: table((more > 0 ? "the first " + t.rows.length + " to go of " : "") + many(t.count, "deleted volume", "deleted volumes") +
			"; back with cleave trash restore", ["Volume", "Id", "Size", "Snapshots", "Deleted from", "Kept for"], [{ rows: t.rows }])];
}

function events(list) {
	const now = Date.now();
	return [table("the last " + list.length + ", newest first; cleave events has all gateways'", ["Time", "Event", "Of", "Text"],
		[{ rows: list.map((e) => [el("span", { class: "word" }, clock(now - e.age_ms)),
			el("span", { class: "state word", "data-level": e.level === "INFO" ? "NONE" : level(e.level) }, sign(e.level) + " " + e.code),
			e.object, e.text]) }])];
}

// ---- plots: rates between two answers ----

const milliseconds = (us) => (us < 10000 ? (us / 1000).toPrecision(2) : count(us / 1000)) + " ms";
let points = [], boot = "", busy = [], before = null;
const PLOTS = [
	["writes", "Writes a second", count], ["reads", "Reads a second", count],
	["write_bytes", "Written a second", size], ["read_bytes", "Read a second", size],
	["oldest", "Longest wait of a write", (ms) => count(ms) + " ms"],
	["write_p99", "99 of 100 writes took, last minute", milliseconds],
	["read_p99", "99 of 100 reads took, last minute", milliseconds],
];

function note(d) {
	const last = points[points.length - 1], now = { at: d.time_ms, counters: d.counters, rates: {} };
	if (d.boot !== boot) {
		boot = d.boot;
		points = [];
	} else if (last && d.time_ms <= last.at) {
		return;
	} else if (last) {
		for (const name in d.counters)
			now.rates[name] = Math.max(0, d.counters[name] - last.counters[name]) * 1000 / (d.time_ms - last.at);
	}
	now.rates.oldest = d.oldest_write_ms;
	for (const name in d.latency_us)
		now.rates[name] = d.latency_us[name];
	busy = busiest(d, before);
	before = d;
	points.push(now);
	points = points.filter((p) => p.at > d.time_ms - KEEP_MS);
}
const rate = (name) => points.length > 0 ? points[points.length - 1].rates[name] || 0 : 0;

// Volumes that were answered something since the answer before, the busiest first.
function busiest(d, before) {
	if (before === null || before.boot !== d.boot || d.time_ms <= before.time_ms)
		return [];
	const old = new Map(before.rates.map((r) => [r.volume, r])), seconds = (d.time_ms - before.time_ms) / 1000;
	return d.rates.filter((r) => old.has(r.volume)).map((r) => {
		const grown = (op, what) => (r[op][what] - old.get(r.volume)[op][what]) / seconds;
		return { volume: r.volume || "(all others)", reads: grown("read", "requests"), writes: grown("write", "requests"),
			held: (r.held - old.get(r.volume).held) / seconds, held_us: (r.held_us - old.get(r.volume).held_us) / seconds,
			bytes: grown("read", "bytes") + grown("write", "bytes"), took: grown("read", "took_us") + grown("write", "took_us") };
	}).filter((r) => r.reads + r.writes > 0).sort((a, b) => b.reads + b.writes - a.reads - a.writes);
}

function busyVolumes(list) {
	if (list.length === 0)
		return [el("p", {}, "No volume is read or written here now")];
	return [table("a second, at this gateway; cleave top has all gateways", ["Volume", "Reads", "Writes", "Bytes", "Mean time", "Held for others or limits"],
		[{ rows: list.map((r) => [r.volume, count(r.reads), count(r.writes), size(r.bytes),
			milliseconds(r.took / (r.reads + r.writes)), r.held > 0 ? count(r.held) + ", " + milliseconds(r.held_us / r.held) +
				" in the mean" : "none"]) }])];
}

function plots() {
	return PLOTS.map(([name, title, words]) => {
		const had = points.filter((p) => name in p.rates), end = points.length > 0 ? points[points.length - 1].at : 0;
		const most = had.reduce((max, p) => Math.max(max, p.rates[name]), 0);
		const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
		const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
		line.setAttribute("points", had.map((p) => ((p.at - end) / KEEP_MS * 120 + 120).toFixed(1) + "," +
			(39 - (most > 0 ? p.rates[name] / most * 37 : 0)).toFixed(1)).join(" "));
		svg.setAttribute("viewBox", "0 0 120 40");
		svg.setAttribute("preserveAspectRatio", "none");
		svg.setAttribute("role", "img");
		svg.setAttribute("aria-label", title + ": now " + words(rate(name)) + ", at most " + words(most));
		svg.append(line);
		return el("figure", {}, el("figcaption", {}, title, el("span", {}, el("b", {}, words(rate(name))),
			"at most " + words(most))), svg);
	});
}

// ---- an answer ----

function render(d) {
	const silent = d.silent_ports.length > 0 ? ", as far as is known: port " + d.silent_ports.join(", ") + " does not answer" : "";
	note(d);
	$("health").dataset.level = level(d.health.level);
	say("health", "HEALTH " + d.health.level + silent);
	document.title = d.health.level + " \u2013 Cleave " + id(d.cluster);
	say("who", "cluster " + id(d.cluster) + ", as gateway " + id(d.gateway) + " sees it; version " + d.version + " (" +
		d.commit + "), up for " + time(d.uptime_s));
	$("s-reasons").hidden = d.health.reasons.length === 0;
	show("reasons", d.health.reasons, reasons);
	$("unknown").hidden = d.unknown.text === "";
	say("unknown", d.unknown.text + (d.unknown.gateways.length > 0 ? " (gateway " + d.unknown.gateways.map(id).join(", ") + ")" : ""));
	$("facts").replaceChildren(...facts(d));
	$("plots").replaceChildren(...plots());
	show("busy", busy, busyVolumes);
	show("copies", { d: [d.health.totals, d.rebalance, d.nodes, rate("copied_bytes")] }, () => copies(d));
	show("nodes", d.nodes, nodes);
	show("gateways", d.gateways.gateways.map((g) => ({ ...g, seen_for_ms: 0, lease_left_ms: g.lease_left_ms > 0 }))
		.concat(d.gateways.drained_away), () => gateways(d.gateways));
	show("volumes", { count: d.volume_count, list: d.volumes, waits: d.waits }, volumes);
	show("trash", { count: d.trash_count, rows: trashed(d.trash) }, trash);
	show("events", [d.boot, d.events.length > 0 ? d.events[0].number : 0], () => events(d.events));
}

// ---- asking ----

let answered = 0, trouble = "", paused = false;

function judge() {
	const away = Date.now() - answered, gone = answered === 0 ? trouble !== "" : trouble !== "" || away > STALE_MS;
	if (paused)
		return;
	document.body.classList.toggle("gone", gone);
	if (!gone)
		return answered > 0 ? say("link", "Told by the gateway, every second") : undefined;
	say("link", (trouble || "The gateway does not answer") + (answered > 0
		? ". What is below is as it was at " + clock(answered) + "." : "."));
	document.title = "no answer \u2013 Cleave";
}

async function ask() {
	const stop = new AbortController(), timer = setTimeout(() => stop.abort(), GIVE_UP_MS);
	let told = null;
	try {
		const reply = await fetch("/api/cluster", { cache: "no-store", signal: stop.signal });
		if (reply.ok)
			told = await reply.json();
		trouble = reply.ok ? "" : "The gateway cannot tell: " + (await reply.text()).trim();
	} catch {
		trouble = "The gateway does not answer";
	}
	clearTimeout(timer);
	setTimeout(ask, POLL_MS);
	// What cannot be shown is no answer: old numbers would look like new ones.
	try {
		if (told !== null && told.schema !== SCHEMA)
			throw told;
		if (told !== null && !paused)
			render(told);
		if (told !== null)
			answered = Date.now();
	} catch {
		trouble = "The gateway tells what this page cannot show, as one of another release does: load this page anew";
	}
	judge();
}

$("pause").addEventListener("click", () => {
	paused = !paused;
	$("pause").setAttribute("aria-pressed", paused);
	if (paused)
		say("link", "Paused: what is below is as it was at " + clock(Date.now()) + ".");
});
setInterval(judge, TICK_MS);
ask();
