/* SPDX-License-Identifier: Apache-2.0 */
/* page.c -- see page.h: paths, and what answers them */
#include "page/page.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>

#include "base/check.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "control/metrics.h"
#include "health/health.h"
#include "page/page_json.h"

/* ---- what is kept ---- */

/* A scrape that waits for the ports. */
struct page_ask {
	struct mt_page *page;
	struct mt_page_kept *kept;
	struct metrics_scrape *scrape;
};

static bool
is_fresh(const struct mt_page *page, const struct mt_page_kept *kept)
{
	return kept->text != NULL && loop_now_ns(page->loop) - kept->made_ns < MT_PAGE_KEEP_NS;
}

static void
kept_answer(const struct mt_page_kept *kept, struct metrics_scrape *scrape)
{
	if (kept->text != NULL)
		(void)fwrite(kept->text, 1, kept->bytes, metrics_scrape_out(scrape));
	if (kept->text != NULL && kept->is_refused)
		metrics_scrape_refuse(scrape);
	else
		metrics_scrape_finish(scrape, kept->text == NULL ? -ENOMEM : 0);
}

static void
kept_make(struct mt_page *page, struct mt_page_kept *kept, const struct mt_ask *ask)
{
	FILE *out;
	int rc;

	free(kept->text);
	kept->text = NULL;
	kept->is_refused = false;
	kept->made_ns = loop_now_ns(page->loop);
	out = open_memstream(&kept->text, &kept->bytes);
	if (out == NULL)
		return;
	rc = kept->make(ask, out, &kept->is_refused);
	if (fclose(out) == 0 && rc == 0)
		return;
	free(kept->text);
	kept->text = NULL;
}

/* The first of those who have waited together has it made. */
static void
page_on_ports(const struct mt_ask *ask, void *arg)
{
	struct page_ask *asked = arg;

	if (ask != NULL && !is_fresh(asked->page, asked->kept))
		kept_make(asked->page, asked->kept, ask);
	if (ask != NULL)
		kept_answer(asked->kept, asked->scrape);
	else
		metrics_scrape_finish(asked->scrape, -ENOMEM);
	mt_free(asked);
}

static void
page_tell(struct mt_page *page, struct mt_page_kept *kept, struct mt_look *look,
    struct metrics_scrape *scrape)
{
	struct page_ask *asked;
	int rc;

	if (is_fresh(page, kept)) {
		kept_answer(kept, scrape);
		return;
	}
	asked = mt_calloc(1, sizeof(*asked));
	rc = asked == NULL ? -ENOMEM : 0;
	if (rc == 0) {
		*asked = (struct page_ask){ .page = page, .kept = kept, .scrape = scrape };
		rc = mt_look(look, page_on_ports, asked);
	}
	if (rc != 0) {
		mt_free(asked);
		metrics_scrape_finish(scrape, rc);
	}
}

/* Health and the page want to know the cluster, which a gateway that starts has not read yet. */
static void
page_tell_cluster(struct mt_page *page, struct mt_page_kept *kept, struct metrics_scrape *scrape)
{
	const struct mt_gateway *gateway = page->look.gateway;

	if (gateway == NULL || !gateway->volumes.is_loaded ||
	    gateway->sm.state >= MT_GATEWAY_FAILED)
		metrics_scrape_finish(scrape, -EHOSTDOWN);
	else
		page_tell(page, kept, &page->look, scrape);
}

/* ---- /metrics ---- */

static int
make_metrics(const struct mt_ask *ask, FILE *out, bool *ret_is_refused)
{
	(void)ret_is_refused;
	return mt_metrics_write(out, ask);
}

static void
page_metrics(struct metrics_scrape *scrape, void *arg)
{
	struct mt_page *page = arg;

	page_tell(page, &page->metrics_text, &page->metrics, scrape);
}

/* ---- /healthz ---- */

/* A line for each reason to call it ERROR; none: it is well enough. */
static void
write_errors(FILE *out, const struct mt_health *health)
{
	for (uint32_t i = 0; i < health->count; i++) {
		const struct cleave_health_info *info = health_info(health->reasons[i].code);

		if (info->level == CLEAVE_HEALTH_ERROR)
			(void)fprintf(out, "%s: %s\n", info->name, health->reasons[i].text);
	}
	if (health->left_out > 0)
		(void)fprintf(out, "and %u reasons more\n", health->left_out);
}

static int
make_health(const struct mt_ask *ask, FILE *out, bool *ret_is_refused)
{
	struct mt_health *health = mt_calloc(1, sizeof(*health));

	if (health == NULL)
		return -ENOMEM;
	mt_health_judge(ask->gateway, ask, health);
	/* Also by what there was no room for among the reasons. */
	*ret_is_refused = health->level == CLEAVE_HEALTH_ERROR;
	if (*ret_is_refused)
		write_errors(out, health);
	else
		(void)fputs("ok\n", out);
	mt_free(health);
	return 0;
}

static void
page_health(struct metrics_scrape *scrape, void *arg)
{
	struct mt_page *page = arg;

	page_tell_cluster(page, &page->health_text, scrape);
}

/* ---- /api/cluster ---- */

static int
make_cluster(const struct mt_ask *ask, FILE *out, bool *ret_is_refused)
{
	json_t *json = mt_page_json(ask);
	int rc = json == NULL ? -1 : json_dumpf(json, out, JSON_COMPACT);

	(void)ret_is_refused;
	json_decref(json);
	return rc == 0 ? 0 : -ENOMEM;
}

static void
page_cluster(struct metrics_scrape *scrape, void *arg)
{
	struct mt_page *page = arg;

	page_tell_cluster(page, &page->cluster_text, scrape);
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
	{ "/", "text/html; charset=utf-8", mt_page_policy, true, page_html },
	{ "/api/cluster", "application/json", NULL, true, page_cluster },
	{ "/metrics", METRICS_TYPE_METRICS, NULL, false, page_metrics },
	{ "/healthz", METRICS_TYPE_TEXT, NULL, false, page_health },
};

/* ---- life ---- */

void
mt_page_init(struct mt_page *page, struct loop *loop)
{
	assert(loop != NULL);
	*page = (struct mt_page){ .loop = loop,
		.metrics_text.make = make_metrics,
		.health_text.make = make_health,
		.cluster_text.make = make_cluster };
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
	free(page->metrics_text.text);
	free(page->health_text.text);
	free(page->cluster_text.text);
}
