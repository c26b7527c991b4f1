/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_watch.h -- one stream of all changes under our prefix, kept up for as long as the store is open
 *
 * What a change is, the stream need not say exactly: the seam's watches mean "look again". It must not miss one
 * for good. So it resumes behind the last revision that it has seen, lists all leases anew when it cannot,
 * leaves a member whose stream does not tell of a change that we made ourselves, and once a minute calls all watches
 * and looks for leases that it was not told of.
 */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_WATCH_H
#define CLEAVE_MIDDLETIER_META_ETCD_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sm.h"
#include "cleave/loop.h"
#include "meta/etcd_json.h"

struct etcd_call;
struct etcd_client;
struct etcd_http_call;
struct etcd_observer;

struct etcd_watch {
	struct etcd_client *client;
	struct etcd_observer *observer;
	struct sm sm;
	/* A key of the seam changed; NULL: any may have. Nothing may be closed from within. */
	void (*on_change)(const char *key, void *arg);
	void *arg;
	uint64_t revision; /* all changes up to it are known */
	bool must_list;
	uint64_t expected_revision; /* the oldest change of our own that must come back; 0: none */
	uint64_t last_revision;     /* the newest one */
	uint32_t endpoint;
	struct etcd_call *call;           /* of listing; live: of the minute's look */
	struct etcd_http_call *http_call; /* of opening, live */
	struct etcd_text line;            /* the part of one that has come */
	struct loop_timer timer;          /* until it is open; of a pause */
	struct loop_timer echo_timer;     /* until our own change has come back */
	struct loop_timer minute_timer;
	uint32_t heard_count; /* lines since the last minute */
};

void etcd_watch_init(struct etcd_watch *watch, struct etcd_client *client,
    struct etcd_observer *observer, void (*on_change)(const char *key, void *arg), void *arg);
void etcd_watch_fini(struct etcd_watch *watch);
/* etcd_watch_expect -- we changed something, at @revision: the stream must tell of it soon. */
void etcd_watch_expect(struct etcd_watch *watch, uint64_t revision);
/* etcd_watch_restart -- the store was set back: list anew, call every watch. */
void etcd_watch_restart(struct etcd_watch *watch);
/* etcd_watch_is_live -- the stream is open, and nothing was missed. */
bool etcd_watch_is_live(const struct etcd_watch *watch);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_WATCH_H */
