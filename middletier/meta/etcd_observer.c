/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_observer.c -- all leases of a store in etcd, observed; see etcd_observer.h
 *
 *	counting --> ending --> gone      by a timer of a quarter of its time, four times
 *	   ^            |
 *	   +------------+                 it was renewed, or the store did not answer
 */
#include "meta/etcd_observer.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sm.h"
#include "common/alloc.h"
#include "meta/etcd_json.h"
#include "meta/etcd_lease.h"
#include "meta/etcd_lease_value.h"

#define OBSERVER_SEEN_MAX 4096u
#define OBSERVER_QUARTERS 4u
#define OBSERVER_JITTER_NS NUM_MS(50)

enum seen_state { SEEN_COUNTING, SEEN_ENDING, SEEN_STATE_NR };

static const struct sm_state seen_table[SEEN_STATE_NR] = {
	[SEEN_COUNTING] = { "counting", SM_TO(SEEN_ENDING), SM_INITIAL },
	[SEEN_ENDING] = { "ending", SM_TO(SEEN_COUNTING), 0 },
};

struct etcd_lease {
	struct loop_link link; /* observer->seen */
	struct etcd_observer *observer;
	struct sm sm;
	uint64_t id, mod_revision, ttl_ns;
	uint64_t ending_revision; /* as which it is being ended */
	uint32_t quarters;        /* that are over since it was seen so */
	bool is_unseen;           /* a list is under way, and has not had it */
	struct loop_timer timer;
};

static void lease_on_ended(int rc, uint64_t id, void *arg);

static struct etcd_lease *
lease_find(const struct etcd_observer *observer, uint64_t id)
{
	struct loop_link *link;

	for (link = observer->seen.next; link != &observer->seen; link = link->next) {
		struct etcd_lease *lease = LIST_ENTRY(link, struct etcd_lease, link);

		if (lease->id == id)
			return lease;
	}
	return NULL;
}

static void
lease_forget(struct etcd_lease *lease)
{
	assert(lease->observer->seen_count > 0);
	lease->observer->seen_count--;
	loop_timer_stop(lease->observer->loop, &lease->timer);
	list_remove(&lease->link);
	mt_free(lease);
}

static void
lease_count(struct etcd_lease *lease, uint32_t quarters)
{
	assert(quarters < OBSERVER_QUARTERS);
	assert(lease->sm.state == SEEN_COUNTING);
	lease->quarters = quarters;
	loop_timer_start(lease->observer->loop, &lease->timer,
	    lease->ttl_ns / OBSERVER_QUARTERS + 1);
}

static void
lease_end(struct etcd_lease *lease)
{
	assert(lease->sm.state == SEEN_COUNTING);
	if (etcd_leases_expire(lease->observer->leases, lease->id, lease->mod_revision,
		lease_on_ended, lease) != 0) {
		lease_count(lease, OBSERVER_QUARTERS - 1);
		return;
	}
	lease->ending_revision = lease->mod_revision;
	sm_move(&lease->sm, SEEN_ENDING);
}

/* The lease cannot be forgotten before: it is ending. */
static void
lease_on_ended(int rc, uint64_t id, void *arg)
{
	struct etcd_lease *lease = arg;

	(void)id;
	assert(lease->sm.state == SEEN_ENDING);
	sm_move(&lease->sm, SEEN_COUNTING);
	if (rc == 0 || rc == -ENOENT)
		lease_forget(lease);
	else if (rc == -EAGAIN || lease->mod_revision != lease->ending_revision)
		lease_count(lease, 0); /* it was renewed, of which an event has told or will tell */
	else
		lease_count(lease,
		    OBSERVER_QUARTERS - 1); /* the store did not answer: soon again */
}

static void
lease_on_timer(struct loop_timer *timer, void *arg)
{
	struct etcd_lease *lease = arg;
	struct loop *loop = lease->observer->loop;

	(void)timer;
	assert(lease->sm.state == SEEN_COUNTING);
	if (lease->quarters == OBSERVER_QUARTERS) {
		lease_end(lease);
		return;
	}
	if (lease->quarters + 1 < OBSERVER_QUARTERS) {
		lease_count(lease, lease->quarters + 1);
		return;
	}
	/* Not all who observe it at once. */
	lease->quarters = OBSERVER_QUARTERS;
	loop_timer_start(loop, timer, loop_random_below(loop, OBSERVER_JITTER_NS));
}

static struct etcd_lease *
lease_create(struct etcd_observer *observer, uint64_t id)
{
	struct etcd_lease *lease =
	    observer->seen_count == OBSERVER_SEEN_MAX ? NULL : mt_calloc(1, sizeof(*lease));

	assert(id != 0);
	assert(observer->seen_count <= OBSERVER_SEEN_MAX);
	assert(lease_find(observer, id) == NULL);
	if (lease == NULL)
		return NULL;
	lease->observer = observer;
	lease->id = id;
	sm_init(&lease->sm, "etcd-lease", seen_table, SEEN_COUNTING, (uint32_t)id);
	loop_timer_init(&lease->timer, lease_on_timer, lease);
	list_push_back(&observer->seen, &lease->link);
	observer->seen_count++;
	return lease;
}

int
etcd_observer_see(struct etcd_observer *observer, const char *name, const struct etcd_kv *kv)
{
	uint64_t id = strlen(name) == ETCD_LEASE_ID_CHARS ? etcd_lease_read_id(name) : 0;
	struct etcd_lease *lease = id == 0 ? NULL : lease_find(observer, id);
	uint64_t ttl_ns;

	assert(kv != NULL);
	if (id == 0)
		return 0; /* nothing of ours */
	if (kv->is_deleted) {
		/* A lease that is ending is looked after by its op. */
		if (lease != NULL && lease->sm.state == SEEN_COUNTING)
			lease_forget(lease);
		return 0;
	}
	ttl_ns = etcd_lease_read_ttl(kv->value, kv->value_bytes);
	if (ttl_ns == 0) {
		log_limited(LOG_WARN,
		    "meta: etcd: a lease that cannot be read is never ended key=%s", kv->key);
		return 0;
	}
	if (lease == NULL)
		lease = lease_create(observer, id);
	if (lease == NULL)
		return -ENOMEM;
	lease->is_unseen = false;
	if (lease->mod_revision == kv->mod_revision)
		return 0; /* it goes on counting */
	lease->mod_revision = kv->mod_revision;
	lease->ttl_ns = ttl_ns;
	if (lease->sm.state == SEEN_COUNTING)
		lease_count(lease, 0);
	return 0;
}

bool
etcd_observer_knows(const struct etcd_observer *observer, const char *name)
{
	uint64_t id = strlen(name) == ETCD_LEASE_ID_CHARS ? etcd_lease_read_id(name) : 0;

	return id != 0 && lease_find(observer, id) != NULL;
}

void
etcd_observer_see_none(struct etcd_observer *observer)
{
	struct loop_link *link;

	for (link = observer->seen.next; link != &observer->seen; link = link->next)
		LIST_ENTRY(link, struct etcd_lease, link)->is_unseen = true;
}

void
etcd_observer_see_all(struct etcd_observer *observer)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&observer->seen, link, next) {
		struct etcd_lease *lease = LIST_ENTRY(link, struct etcd_lease, link);

		if (lease->is_unseen && lease->sm.state == SEEN_COUNTING)
			lease_forget(lease);
	}
}

void
etcd_observer_init(struct etcd_observer *observer, struct loop *loop, struct etcd_leases *leases)
{
	assert(loop != NULL);
	assert(leases != NULL);
	*observer = (struct etcd_observer){ .loop = loop, .leases = leases };
	list_init(&observer->seen);
}

void
etcd_observer_fini(struct etcd_observer *observer)
{
	struct loop_link *link;

	while ((link = list_first(&observer->seen)) != NULL)
		lease_forget(LIST_ENTRY(link, struct etcd_lease, link));
	assert(observer->seen_count == 0);
}
