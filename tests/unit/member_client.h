/* SPDX-License-Identifier: Apache-2.0 */
/* member_client.h -- the gateways of member_fixture.h, and a client that asks one of them */
#ifndef CLEAVE_TESTS_MEMBER_CLIENT_H
#define CLEAVE_TESTS_MEMBER_CLIENT_H

#include "support/sim_gateway.h"
#include "unit/member_fixture.h"

static struct sg sg; /* the client's half of it */
static struct sg_qp qp;

static inline void
client_open(void)
{
	struct split_port_options options = { .receive_count = 64,
		.host_bytes = NUM_MIB(1),
		.device_bytes = NUM_MIB(16) };

	setup();
	sg = (struct sg){ .world = rig->world, .net = rig->net };
	sg.client_host = sim_host_create(rig->net, "client");
	sg.client_loop = sim_loop_create(rig->world, "client");
	options.loop = sg.client_loop;
	options.sim_host = sg.client_host;
	sg.client = open_roce_instance(&options);
	cr_assert_not_null(sg.client);
	sg.options = rig->gateway_options;
}

static inline void
client_close(void)
{
	if (qp.qp != NULL)
		sg_close(&qp);
	split_port_close(sg.client);
	loop_destroy(sg.client_loop);
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
