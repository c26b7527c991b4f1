/* SPDX-License-Identifier: Apache-2.0 */
/* page.c -- see page.h: paths, and what answers them */
#include "page/page.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "control/metrics.h"
#include "health/health.h"
#include "page/page_json.h"

/* ---- /metrics ---- */

static void
page_on_metrics(const struct mt_ask *ask, void *arg)
{
	metrics_scrape_finish(arg,
	    ask == NULL ? -ENOMEM : mt_metrics_write(metrics_scrape_out(arg), ask));
}

static void
page_metrics(struct metrics_scrape *scrape, void *arg)
{
	struct mt_page *page = arg;
	int rc = mt_look(&page->metrics, page_on_metrics, scrape);

	if (rc != 0)
		metrics_scrape_finish(scrape, rc);
}

/* Health and the page want to know the cluster, which a gateway that starts has not read yet. */
static int
page_look(struct mt_page *page, mt_look_fn fn, void *arg)
{
	const struct mt_gateway *gateway = page->look.gateway;

	if (gateway == NULL || !gateway->volumes.is_loaded ||
	    gateway->sm.state >= MT_GATEWAY_FAILED)
		return -EHOSTDOWN;
	return mt_look(&page->look, fn, arg);
}

/* ---- /healthz ---- */

/* A line for each reason to call it ERROR; none: it is well enough. */
static uint32_t
write_errors(FILE *out, const struct mt_health *health)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < health->count; i++) {
		const struct cleave_health_info *info = health_info(health->reasons[i].code);

		if (info->level != CLEAVE_HEALTH_ERROR)
			continue;
		(void)fprintf(out, "%s: %s\n", info->name, health->reasons[i].text);
		count++;
	}
	return count;
}

static void
page_on_health(const struct mt_ask *ask, void *arg)
{
	struct mt_health *health = mt_calloc(1, sizeof(*health));
	FILE *out = metrics_scrape_out(arg);

	if (ask == NULL || health == NULL) {
		mt_free(health);
		metrics_scrape_finish(arg, -ENOMEM);
		return;
	}
	mt_health_judge(ask->gateway, ask, health);
	if (write_errors(out, health) > 0) {
		metrics_scrape_refuse(arg);
	} else {
		(void)fputs("ok\n", out);
		metrics_scrape_finish(arg, 0);
	}
	mt_free(health);
}

static void
page_health(struct metrics_scrape *scrape, void *arg)
{
	int rc = page_look(arg, page_on_health, scrape);

	if (rc != 0)
		metrics_scrape_finish(scrape, rc);
}

/* ---- /api/cluster ---- */

static bool
is_fresh(const struct mt_page *page)
{
	return page->text != NULL && loop_now_ns(page->loop) - page->text_ns < MT_PAGE_CACHE_NS;
}

static void
page_write_text(struct mt_page *page, struct metrics_scrape *scrape)
{
	int rc = page->text == NULL ? -ENOMEM : 0;

	if (rc == 0)
		(void)fputs(page->text, metrics_scrape_out(scrape));
	metrics_scrape_finish(scrape, rc);
}

/* A scrape that waits for the ports. */
struct page_ask {
	struct mt_page *page;
	struct metrics_scrape *scrape;
};

static void
page_on_cluster(const struct mt_ask *ask, void *arg)
{
	struct page_ask *asked = arg;
	struct mt_page *page = asked->page;

	/* The first of those who have waited together has it made. */
	if (!is_fresh(page)) {
		json_t *json = ask == NULL ? NULL : mt_page_json(ask);

		free(page->text);
		page->text = json == NULL ? NULL : json_dumps(json, JSON_COMPACT);
		json_decref(json);
		page->text_ns = loop_now_ns(page->loop);
	}
	page_write_text(page, asked->scrape);
	mt_free(asked);
}

static void
page_cluster(struct metrics_scrape *scrape, void *arg)
{
	struct mt_page *page = arg;
	struct page_ask *asked;
	int rc;

	if (is_fresh(page)) {
		page_write_text(page, scrape);
		return;
	}
	asked = mt_calloc(1, sizeof(*asked));
	rc = asked == NULL ? -ENOMEM : 0;
	if (rc == 0) {
		*asked = (struct page_ask){ .page = page, .scrape = scrape };
		rc = page_look(page, page_on_cluster, asked);
	}
	if (rc != 0) {
		mt_free(asked);
		metrics_scrape_finish(scrape, rc);
	}
}

/* ---- / ---- */

static void
page_html(struct metrics_scrape *scrape, void *arg)
{
	(void)arg;
	(void)fwrite(mt_page_html, 1, mt_page_html_bytes, metrics_scrape_out(scrape));
	metrics_scrape_finish(scrape, 0);
}

const struct metrics_path mt_page_paths[MT_PAGE_PATHS_NR] = {
	{ "/", "text/html; charset=utf-8", mt_page_policy, page_html },
	{ "/api/cluster", "application/json", NULL, page_cluster },
	{ "/metrics", METRICS_TYPE_METRICS, NULL, page_metrics },
	{ "/healthz", METRICS_TYPE_TEXT, NULL, page_health },
};

/* ---- life ---- */

void
mt_page_init(struct mt_page *page, struct loop *loop)
{
	assert(loop != NULL);
	*page = (struct mt_page){ .loop = loop };
	mt_look_init(&page->look, loop, MT_ASK_REBALANCE_LOOK);
	mt_look_init(&page->metrics, loop, MT_ASK_STATUS);
}

void
mt_page_begin(struct mt_page *page, struct mt_gateway *gateway)
{
	mt_look_begin(&page->look, gateway);
	mt_look_begin(&page->metrics, gateway);
}

void
mt_page_fini(struct mt_page *page)
{
	if (page->loop == NULL)
		return;
	mt_look_fini(&page->look);
	mt_look_fini(&page->metrics);
	free(page->text); /* jansson's */
}
