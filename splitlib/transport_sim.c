/* SPDX-License-Identifier: Apache-2.0 */
#include "internal.h"
#include <errno.h>
static int
none_listen(struct split_listener *l, const char *a, char *r)
{
	(void)l;
	(void)a;
	(void)r;
	return -ENOTSUP;
}
static int
none_connect(struct split_qp *q, const char *a)
{
	(void)q;
	(void)a;
	return -ENOTSUP;
}
void
sim_host_attach(struct split_port *port)
{
	(void)port;
}
const struct transport_ops transport_sim_ops = { .scheme = "sim",
	.listen = none_listen,
	.connect = none_connect };
