/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.c -- the transports of a port that is on no simulated machine: a new one gets a line here
 *
 * The registry stands above the transports, so that the core beneath them need not name any. The simulated
 * transport is not here: programs that users run have none of it.
 */
#include "base/num.h"
#include "core/port.h"
#include "tcp/tcp.h"
#ifdef CLEAVE_HAVE_VERBS
#include "verbs/verbs.h"
#endif

static const struct transport_ops *const registry[] = {
	&transport_tcp_ops,
	&transport_unix_ops,
#ifdef CLEAVE_HAVE_VERBS
	&transport_verbs_ops,
#endif
};

struct split_port *
open_roce_instance(const struct split_port_options *options)
{
	return port_create(options, registry, NUM_COUNT(registry));
}
