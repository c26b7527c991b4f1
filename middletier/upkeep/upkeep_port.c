/* SPDX-License-Identifier: Apache-2.0 */
/* upkeep_port.c -- see upkeep_port.h */
#include "upkeep/upkeep_port.h"

#include <errno.h>

#include "base/check.h"
#include "common/alloc.h"
#include "common/port.h"

int
mt_upkeep_port_init(struct mt_port *port)
{
	assert(port->upkeep == NULL);
	port->upkeep = mt_calloc(1, sizeof(*port->upkeep));
	return port->upkeep == NULL ? -ENOMEM : 0;
}

void
mt_upkeep_port_fini(struct mt_port *port)
{
	mt_free(port->upkeep);
	port->upkeep = NULL;
}
