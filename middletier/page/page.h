/* SPDX-License-Identifier: Apache-2.0 */
/*
 * page.h -- what a gateway serves over HTTP: /metrics and /healthz for monitors, / and /api/cluster for people
 *
 * Main's. Read only: nothing that is asked here changes anything.
 */
#ifndef CLEAVE_MIDDLETIER_PAGE_PAGE_H
#define CLEAVE_MIDDLETIER_PAGE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/metrics_http.h"
#include "base/num.h"
#include "cluster/look.h"

struct mt_gateway;

#define MT_PAGE_PATHS_NR 4u
#define MT_PAGE_KEEP_NS NUM_S(1) /* an answer that asked the ports is given again for so long */

/* The last answer of a path that asks the ports: who asks without a pause costs them no more than a monitor does. */
struct mt_page_kept {
	/* Writes it. 0; -ENOMEM. *@ret_is_refused: false; true: as a 503. */
	int (*make)(const struct mt_ask *ask, FILE *out, bool *ret_is_refused);
	char *text; /* NULL: there is none */
	size_t bytes;
	bool is_refused;
	uint64_t made_ns;
};

struct mt_page {
	struct loop *loop;      /* NULL: mt_page_init was not called */
	struct mt_look look;    /* has the nodes asked as well: a silent one is found out */
	struct mt_look metrics; /* does not */
	struct mt_page_kept metrics_text, health_text, cluster_text;
};

/* mt_page_paths -- for metrics_http_start, with a struct mt_page as their argument. */
extern const struct metrics_path mt_page_paths[MT_PAGE_PATHS_NR];

/* mt_page_init -- nobody can be told anything yet: 503 but for the page itself. @loop: main's. */
void mt_page_init(struct mt_page *page, struct loop *loop);
/* mt_page_begin -- @gateway tells. */
void mt_page_begin(struct mt_page *page, struct mt_gateway *gateway);
/* mt_page_fini -- who waits is refused. The loop does not run, the gateway may be gone. Also without mt_page_init. */
void mt_page_fini(struct mt_page *page);

/* page_html.c, which embed.cmake makes: the page, and the policy that lets a browser run its parts and no others. */
extern const char mt_page_html[];
extern const size_t mt_page_html_bytes;
extern const char mt_page_policy[];

#endif /* CLEAVE_MIDDLETIER_PAGE_PAGE_H */
