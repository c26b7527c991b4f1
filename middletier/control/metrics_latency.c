/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics_latency.c -- how long requests and nodes take, for monitors
 *
 * A gateway's ports are taken together: which of them has a chunk is chance. A class that nobody uses has no series.
 */
#include "control/metrics_latency.h"

#include <errno.h>

#include "base/check.h"
#include "base/latency.h"
#include "base/metrics.h"
#include "base/num.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "common/hops.h"
#include "common/port.h"
#include "port/port_status.h"

#define HOPS_MAX ((MT_WRITE_HOP_NR + MT_READ_HOP_NR) * SERVICE_CLASS_NR)

struct latency_list {
	struct metric_object *objects;
	struct latency *values;
	uint32_t count, max;
};

static void
list_fini(struct latency_list *list)
{
	mt_free(list->objects);
	mt_free(list->values);
}

static int
list_init_of(struct latency_list *list, uint32_t max)
{
	*list = (struct latency_list){ .max = max };
	list->objects = mt_calloc(num_max(max, 1), sizeof(*list->objects));
	list->values = mt_calloc(num_max(max, 1), sizeof(*list->values));
	if (list->objects != NULL && list->values != NULL)
		return 0;
	list_fini(list);
	return -ENOMEM;
}

/* Adds what @ports have counted at @offset of struct mt_hops; nothing: the place is free again. */
static void
list_add_hop(struct latency_list *list, const struct mt_gateway *gateway, size_t offset,
    const char *op, enum service_class service_class, const char *hop)
{
	struct metric_object *object = &list->objects[list->count];
	struct latency *value = &list->values[list->count];

	assert(list->count < list->max);
	for (uint32_t i = 0; i < gateway->port_count; i++)
		latency_read(value, (const void *)((const char *)&gateway->ports[i].hops + offset));
	/* The classes that are used have all hops, the standard one in any case. */
	if (service_class != SERVICE_STANDARD && latency_total(value) == 0) {
		*value = (struct latency){ .sum_ns =
					       0 }; /* a time may be there whose count is not yet */
		return;
	}
	object->values = value;
	metric_label(object, "op", op);
	metric_label(object, "class", service_class_name(service_class));
	metric_label(object, "hop", hop);
	list->count++;
}

static int
write_hops(FILE *out, const struct mt_gateway *gateway)
{
	struct latency_list list;
	int rc = list_init_of(&list, HOPS_MAX);

	if (rc != 0)
		return rc;
	for (uint32_t i = 0; i < SERVICE_CLASS_NR; i++) {
		for (uint32_t k = 0; k < MT_WRITE_HOP_NR; k++)
			list_add_hop(&list, gateway, offsetof(struct mt_hops, writes[k][i]),
			    "write", (enum service_class)i,
			    mt_write_hop_name((enum mt_write_hop)k));
		for (uint32_t k = 0; k < MT_READ_HOP_NR; k++)
			list_add_hop(&list, gateway, offsetof(struct mt_hops, reads[k][i]), "read",
			    (enum service_class)i, mt_read_hop_name((enum mt_read_hop)k));
	}
	latency_print(out, "cleave_gateway_latency",
	    "how long requests of clients took, by hop, all ports together", list.objects,
	    list.count);
	list_fini(&list);
	return 0;
}

/* A node's link has the same index at every port: what these have counted is one series. */
static void
list_add_node(struct latency_list *list, const struct mt_ask *ask, uint32_t index,
    enum mt_link_took took, const char *op)
{
	struct metric_object *object = &list->objects[list->count];
	struct latency *value = &list->values[list->count];

	assert(list->count < list->max);
	for (uint32_t i = 0; i < ask->gateway->port_count; i++) {
		const struct mt_port_status *status = &ask->legs[i].status;

		if (status->links != NULL && index < status->link_count)
			latency_read(value, &status->links[index].took[took]);
	}
	object->values = value;
	metric_label_u64(object, "node", ask->legs[0].status.links[index].node_id);
	metric_label(object, "op", op);
	list->count++;
}

static int
write_nodes(FILE *out, const struct mt_ask *ask)
{
	const struct mt_port_status *status = &ask->legs[0].status;
	struct latency_list list;
	int rc = list_init_of(&list, MT_LINK_TOOK_NR * status->link_count);

	assert(ask->left_count == 0);
	if (rc != 0)
		return rc;
	for (uint32_t i = 0; status->links != NULL && i < status->link_count; i++) {
		if (mt_node_is_gone(&status->links[i].config) || status->links[i].node_id == 0)
			continue;
		list_add_node(&list, ask, i, MT_LINK_TOOK_APPEND, "append");
		list_add_node(&list, ask, i, MT_LINK_TOOK_READ, "read");
	}
	latency_print(out, "cleave_gateway_node_latency",
	    "how long nodes took to answer appends and reads, of clients and of all else",
	    list.objects, list.count);
	list_fini(&list);
	return 0;
}

int
mt_metrics_latency(FILE *out, const struct mt_ask *ask)
{
	int rc = write_hops(out, ask->gateway);

	assert(ask->gateway->port_count > 0);
	return rc != 0 ? rc : write_nodes(out, ask);
}
