/* SPDX-License-Identifier: Apache-2.0 */
/* port_keys.c -- see port_keys.h: one keyring and one envelope writer a port, from its beginning to its end */
#include "port/port_keys.h"

#include <errno.h>

#include "base/check.h"
#include "cleave/envelope.h"
#include "cleave/keyring.h"
#include "cleave/loop.h"
#include "common/port.h"
#include "port/port.h"
#include "port/port_life.h"

/* Salts of a simulated port come from its seed. */
static int
port_on_salt(void *arg, uint8_t *out, size_t bytes)
{
	struct mt_port *port = arg;

	CHECK_OBJ(port, MT_PORT_MAGIC);
	for (size_t i = 0; i < bytes; i++)
		out[i] = (uint8_t)loop_random_u64(port->loop);
	return 0;
}

int
mt_port_keys_init(struct mt_port *port)
{
	assert(port->keys == NULL && port->engines == NULL);
	envelope_writer_init(&port->envelopes,
	    port->life->options->sim_host != NULL ? port_on_salt : NULL, port);
	port->keys = keyring_create();
	return port->keys == NULL ? -ENOMEM : 0;
}

void
mt_port_keys_fini(struct mt_port *port)
{
	assert(port->engines == NULL);
	keyring_destroy(port->keys);
	port->keys = NULL;
}
