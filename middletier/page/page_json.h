/* SPDX-License-Identifier: Apache-2.0 */
/* page_json.h -- /api/cluster: what the page shows, as one gateway sees it */
#ifndef CLEAVE_MIDDLETIER_PAGE_PAGE_JSON_H
#define CLEAVE_MIDDLETIER_PAGE_PAGE_JSON_H

#include <jansson.h>

struct mt_ask;

#define MT_PAGE_EVENTS_MAX 50u /* the last */
#define MT_PAGE_RATES_MAX 20u  /* volumes, the busiest */

/*
 * mt_page_json -- all that this gateway knows, from the ports' answers and from what main knows of the cluster
 *
 *	{"schema":1,"version":V,"commit":C,"cluster":ID,"gateway":ID,"boot":ID,"state":S,"uptime_s":N,"level":N,
 *	 "time_ms":N,"partial":false,"silent_ports":[...],"health":{...},"unknown":{"gateways":[ID,...],"text":T},
 *	 "shards":{"count":N},"nodes":[...],"gateways":{...},"rebalance":{...},"volumes":[...],"volume_count":N,
 *	 "waits":[...],"trash":[...],"trash_count":N,"counters":{"writes":N,...},"rates":[...],"latency_us":{...},
 *	 "oldest_write_ms":N,"events":[...]}
 *
 * health, nodes, gateways, volumes, trash, events: members as in the answers of the control requests of those names;
 * waits: as "limits" of a port in status, of all ports together. time_ms
 * is by the gateway's own clock, which counts from anywhere: for rates between two answers.
 * @ask: an answered question that had the ports tell their status; also one of mt_ask_so_far.
 * Returns: NULL: out of memory. Threads: the main loop's.
 */
json_t *mt_page_json(const struct mt_ask *ask);

#endif /* CLEAVE_MIDDLETIER_PAGE_PAGE_JSON_H */
