/* SPDX-License-Identifier: Apache-2.0 */
/* member_client.h -- the gateways of member_fixture.h, and a client that asks one of them */
#ifndef CLEAVE_TESTS_MEMBER_CLIENT_H
#define CLEAVE_TESTS_MEMBER_CLIENT_H

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

#endif /* CLEAVE_TESTS_MEMBER_CLIENT_H */
