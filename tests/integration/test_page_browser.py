#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a gateway in a browser: what it says, how soon, and whether everybody can read it."""
import json
import signal
import time

from libbrowser import Browser
from libcluster import Cluster, check, main
from libload import Load

METRICS = ["--metrics", "127.0.0.1:0"]
# watched: the ms from now on until the page says it, by its own clock.
UNTIL = """void (watched = new Promise((done) => {
	const began = performance.now(), look = () => (%s) && (observer.disconnect(), done(performance.now() - began));
	const observer = new MutationObserver(look);
	observer.observe(document.documentElement, { subtree: true, childList: true, characterData: true, attributes: true });
	look();
}))"""
# Texts whose contrast with what is behind them is below 4.5, as WCAG wants it.
FAINT = """(() => {
	const parts = (c) => (c.match(/[\\d.]+/g) || []).map(Number);
	const light = (c) => { const [r, g, b] = parts(c).map((v) => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
		return .2126 * r + .7152 * g + .0722 * b; };
	const behind = (e) => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
		if (parts(c)[3] !== 0) return c; } return "rgb(255, 255, 255)"; };
	const own = (e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
	return [...document.body.querySelectorAll("*")].filter((e) => own(e) && e.checkVisibility() && !e.closest("script"))
		.map((e) => { const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
			return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.textContent.slice(0, 40)]; })
		.filter(([ratio]) => ratio < 4.5).map(String);
})()"""
EVIL = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


def address_of(daemon):
    return daemon.wait_line(r"metrics listen=").rsplit("tcp://", 1)[1]


def has(text, part="body"):
    return f"(document.querySelector({part!r})?.innerText ?? '').includes({json.dumps(text)})"


def look_at(page, name):
    """No sideways scrolling, nothing too faint, in the light and in the dark."""
    for scheme in ("light", "dark"):
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        for width in (400, 1280):
            page.resize(width)
            wide = page.value("[document.documentElement.scrollWidth, innerWidth]")
            check(wide[1] == width and wide[0] <= wide[1], f"{name}: {wide[0]} px in a window of {wide[1]}")
            page.picture(f"{name}-{scheme}-{width}")
        faint = page.value(FAINT)
        check(faint == [], f"{name}, {scheme}: too faint: {faint}")


def keyboard_reaches_all(page):
    reached = []
    page.value("document.activeElement.blur()")
    for _ in range(12):
        page.press("Tab")
        reached.append(page.value("document.activeElement.id || document.activeElement.getAttribute('href')"))
        outline = page.value("getComputedStyle(document.activeElement).outlineStyle")
        check(outline != "none", f"focus at {reached[-1]} is not seen")
        if reached[-1] == "/healthz":
            break
    check(reached == ["#main", "pause", "/api/cluster", "/metrics", "/healthz"], f"Tab goes {reached}")
    page.value("document.getElementById('pause').focus()")
    page.press(" ")
    check(page.value("document.getElementById('pause').getAttribute('aria-pressed')") == "true", "Space pauses")
    check(page.value(has("Paused", "#link")), "it says that it is paused")
    page.press(" ")
    page.wait(has("every second", "#link"), "it goes on")


def reads_for_programs(page):
    """What a reader of screens is told: tables with captions and heads, one heading a section, live regions."""
    check(page.value("[...document.querySelectorAll('table')].every((t) => t.caption && t.querySelector('th[scope=col]'))"),
          "tables have captions and heads")
    check(page.value("[...document.querySelectorAll('section')].every((s) => document.getElementById("
                     "s.getAttribute('aria-labelledby')).tagName === 'H2')"), "sections have headings")
    check(page.value("document.getElementById('health').getAttribute('aria-live')") == "polite", "health is spoken")
    check(page.value("document.documentElement.lang") == "en", "it says its language")
    check(page.value("[...document.querySelectorAll('svg')].every((s) => s.getAttribute('aria-label'))"), "plots are told")


def page_tells_what_happens():
    with Cluster(nodes=3, shards=4, ports=2, gateway_args=METRICS) as c, Browser() as browser:
        c.volume_create("disk1", "64M")
        c.volume_create("db-main", "10G", "--service-class", "latency")
        address = address_of(c.gateway)
        began = time.monotonic()
        page = browser.open(f"http://{address}/")
        page.wait(has("HEALTH OK", "#health"), "it never says HEALTH OK")
        print(f"HEALTH OK {time.monotonic() - began:.1f} s after the page was asked for")
        c.cleave("node", "set", "1", "--note", EVIL)
        page.wait(has(EVIL, "#nodes"), "a note is shown as it is")
        page.wait("document.title.startsWith('OK')", "and nothing of it runs")
        c.volume_create("old-disk", "2G")
        c.cleave("volume", "delete", "old-disk", "--keep", "47h")
        c.cleave("volume", "set", "db-main", "--iops", "5000", "--write-bandwidth", "200M", "--burst", "2s")
        page.wait(has("old-disk", "#trash"), "the trash is not shown")
        check(page.value(has("another 47 h, until", "#trash")), "until when")
        page.wait(has("iops 5,000, write-bandwidth 200 MiB/s, burst 2,000 ms", "#volumes"), "limits")
        for word in ("disk1", "db-main", "10.0 GiB", "Domain rack3", "(this one)", "volume-created"):
            check(page.value(has(word, "main")), f"'{word}' is nowhere")
        with Load(c, volume="disk1", size=None, in_flight=8):
            page.wait("points.length > 2 && rate('writes') > 0", "no writes in the plot")
            look_at(page, "well")
            keyboard_reaches_all(page)
            reads_for_programs(page)
            page.wait("!" + has("node-down"), "all nodes are up")
            page.value(UNTIL % has("node-down", "#reasons"))
            c.nodes[2].kill()
            print(f"node-down {page.value('watched') / 1000:.1f} s after its node was killed, by the page's clock")
            check(page.value(has("HEALTH WARN", "#health")), "and its level")
            check(page.value(has("cleave node remove --lost", "#reasons")), "and what helps")
            page.wait(has("node-lost", "#events"), "the event comes")
            look_at(page, "down")
            c.nodes[2].start()
            page.wait(has("HEALTH OK", "#health"), "it never says that all is well again")
        said = [e for e in page.told("Log.entryAdded")] + page.told("Runtime.exceptionThrown")
        check(said == [], f"the browser complains: {said}")
        urls = {e["request"]["url"] for e in page.told("Network.requestWillBeSent")}
        check(urls == {f"http://{address}/", f"http://{address}/api/cluster"}, f"it loads {urls}")
        page.value(UNTIL % has("does not answer", "#link"))
        c.gateway.kill()
        print(f"no answer {page.value('watched') / 1000:.1f} s after the gateway was killed")
        check(page.value("document.body.classList.contains('gone')"), "what it shows is greyed")
        check(page.value("getComputedStyle(document.querySelector('main')).opacity") == "0.5", "greyed")
        page.picture("gone")
        check(page.value("document.title").startswith("no answer"), "the title says it, too")


def gateway_that_stands_still_is_told():
    with Cluster(nodes=3, gateway_args=METRICS) as c, Browser() as browser:
        page = browser.open(f"http://{address_of(c.gateway)}/")
        page.wait(has("HEALTH OK", "#health"), "it never says HEALTH OK")
        page.value(UNTIL % has("does not answer", "#link"))
        c.gateway.signal(signal.SIGSTOP)
        print(f"no answer {page.value('watched') / 1000:.1f} s after the gateway was stopped")
        c.gateway.signal(signal.SIGCONT)
        page.wait("!document.body.classList.contains('gone')", "it never says that it is back")


# Answers as a gateway of another release might give, behind the page's back.
ANSWER = """window.true_fetch ??= window.fetch, window.fetch = async (...words) => {
	const reply = await true_fetch(...words), told = await reply.json();
	%s;
	return { ok: true, json: async () => told };
}, 0"""


def answer_that_cannot_be_shown_is_told():
    """A gateway that was upgraded under an open page: what is old does not look like what is new."""
    with Cluster(nodes=3, gateway_args=METRICS) as c, Browser() as browser:
        page = browser.open(f"http://{address_of(c.gateway)}/")
        page.wait(has("HEALTH OK", "#health"), "it never says HEALTH OK")
        for change in ("told.schema++", "delete told.schema", "delete told.nodes", "told.events = null"):
            page.value(ANSWER % change)
            page.wait(has("load this page anew", "#link"), f"{change}: it shows that")
            page.wait("document.body.classList.contains('gone')", f"{change}: and looks well")
            page.value("window.fetch = window.true_fetch, 0")
            page.wait(has("Told by the gateway", "#link"), f"{change}: it never comes back")


main(page_tells_what_happens, gateway_that_stands_still_is_told, answer_that_cannot_be_shown_is_told)
