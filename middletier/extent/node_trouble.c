/* SPDX-License-Identifier: Apache-2.0 */
/* node_trouble.c -- see node_trouble.h */
#include "extent/node_trouble.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "cleave/loop.h"
#include "cleave/split.h"
#include "common/event.h"
#include "common/port.h"
#include "common/port_events.h"
#include "common/settings.h"
#include "extent/link_life.h"
#include "extent/node_link.h"

#define TROUBLE_STORE_TEXT "it obeys another metadata store"

/* A gateway's ports all have a link to each node: what an operator did wrong, the first one says. */
static enum log_level
trouble_level(const struct mt_link *link)
{
	return link->port->index == 0 ? LOG_ERROR : LOG_DEBUG;
}

static bool
trouble_is_news(struct mt_link *link, int rc, const char *reason)
{
	uint32_t crc = crc32c((uint32_t)-rc, reason, strlen(reason)) | 1;
	bool is_news = link->life->logged_crc != crc;

	link->life->logged_crc = crc;
	(void)snprintf(link->trouble, sizeof(link->trouble), "%s", reason); /* cut where too long */
	return is_news && !link->life->is_stopped;
}

void
mt_trouble_clear(struct mt_link *link)
{
	assert(mt_link_is_up(link));
	link->life->logged_crc = 0;
	link->trouble[0] = '\0';
}

void
mt_trouble_on_closed(struct mt_link *link, bool was_up, int rc, const char *reason)
{
	bool is_news;

	assert(!mt_link_is_up(link));
	if (rc == -EEXIST && !was_up)
		return; /* mt_trouble_on_duplicate has told of it */
	is_news = trouble_is_news(link, rc, reason);
	if (was_up && !link->life->is_stopped)
		mt_event_of(link->port->shared->events, loop_now_ns(link->port->loop),
		    CLEAVE_EVENT_NODE_LOST, "node", link->node_id, "node %u: lost rc=%s reason=%s",
		    link->node_id, log_errno(rc), reason);
	if (was_up || !is_news)
		return;
	if (rc == -EXDEV)
		log_at(trouble_level(link),
		    "node: is of another cluster address=%s reason=\"%s\": is that the right "
		    "address, and is --cluster-id right? A node that is to change its cluster is "
		    "formatted anew",
		    link->config.address, reason);
	else
		mt_event_of(link->port->shared->events, loop_now_ns(link->port->loop),
		    CLEAVE_EVENT_NODE_UNREACHED, "node", link->config.node_id,
		    "node: cannot be reached address=%s rc=%s reason=%s", link->config.address,
		    log_errno(rc), reason);
}

void
mt_trouble_on_other_store(struct mt_link *link)
{
	if (trouble_is_news(link, -ENOTUNIQ, TROUBLE_STORE_TEXT))
		log_at(trouble_level(link),
		    "node: refuses this gateway, " TROUBLE_STORE_TEXT " address=%s: is --meta "
		    "the right directory, and not an old copy? Did cleave recover make another? "
		    "A node that is to change its cluster is formatted anew",
		    link->config.address);
}

void
mt_trouble_on_duplicate(struct mt_link *link, const struct mt_link *other, uint32_t node_id)
{
	char text[SPLIT_ADDRESS_BYTES_MAX + 32], objection[MT_OBJECTION_BYTES];

	assert(link != other);
	assert(node_id != 0);
	(void)snprintf(text, sizeof(text), "node %u is at %s, too", node_id, other->config.address);
	if (!trouble_is_news(link, -EEXIST, text))
		return;
	(void)snprintf(objection, sizeof(objection),
	    "node %u: found at two addresses, %s and %s: a node's number is its own in a cluster. "
	    "Leave one of them out of --node; a disk that is a copy, or was formatted with another "
	    "node's number, is formatted anew with its own --node-id",
	    node_id, other->config.address, link->config.address); /* cut where too long */
	mt_port_on_objection(link->port, objection);
}
