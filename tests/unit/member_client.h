/* SPDX-License-Identifier: Apache-2.0 */
/* member_client.h -- the gateways of member_fixture.h, and a client that asks one of them */
#ifndef CLEAVE_TESTS_MEMBER_CLIENT_H
#define CLEAVE_TESTS_MEMBER_CLIENT_H

#include "middletier/catalog/drained_key.h"
#include "middletier/meta/meta_txn.h"
#include "unit/control_ask.h"
#include "unit/member_fixture.h"

static struct sg sg; /* the client's half of it */
static struct sg_qp qp;

static inline void
client_open(void)
{
	setup();
	sg_client_open(&sg, rig->world, rig->net, &rig->gateway_options);
}

static inline void
client_close(void)
{
	if (qp.qp != NULL)
		sg_close(&qp);
	sg_client_close(&sg);
	teardown();
}

static inline void
connect_to(uint32_t index)
{
	if (qp.qp != NULL)
		sg_close(&qp);
	memset(&qp, 0, sizeof(qp));
	(void)snprintf(sg.options.ports[0].address, SPLIT_ADDRESS_BYTES_MAX, "sim://peer%u:7100",
	    index);
	sg_connect(&sg, &qp, NULL);
	cr_assert_eq(sg_wait_open(&qp), 0);
}

/* The gateways that @key, MT_DRAINED_KEY or MT_SEVERED_KEY, names in the store. */
static inline struct mt_drained
stored_marks(const char *key)
{
	struct meta_item *items = NULL;
	struct mt_drained marks = { .count = 0 };
	uint32_t count = 0;
	const char *field;

	cr_assert_eq(meta_store_list(rig->store, key, &items, &count), 0);
	if (count > 0)
		cr_assert_eq(mt_drained_decode(items[0].value, items[0].value_bytes, &marks,
				 &field),
		    0);
	mt_free(items);
	return marks;
}

#endif /* CLEAVE_TESTS_MEMBER_CLIENT_H */
