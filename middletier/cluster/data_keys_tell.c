/* SPDX-License-Identifier: Apache-2.0 */
/* data_keys_tell.c -- see data_keys_tell.h */
#include "cluster/data_keys_tell.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/log.h"
#include "cleave/keyring.h"
#include "cleave/loop.h"
#include "cluster/gateway_state.h"
#include "common/alloc.h"
#include "common/port.h"

/* A key on its way to every port. */
struct key_tell {
	struct loop_link link; /* gateway->data_keys.tells */
	uint32_t id;
	bool is_removal;
	uint8_t dek[MT_DEK_BYTES];
	uint32_t left_count;
	struct key_leg {
		struct loop_post post;
		struct key_tell *tell;
		struct mt_port *port;
	} legs[MT_PORTS_MAX];
};

static void
tell_free(struct key_tell *tell)
{
	list_remove(&tell->link);
	gnutls_memset(tell->dek, 0, sizeof(tell->dek));
	mt_free(tell);
}

static void
tell_on_main(struct loop_post *post, void *arg)
{
	struct key_leg *leg = arg;

	(void)post;
	assert(leg->tell->left_count > 0);
	if (--leg->tell->left_count == 0)
		tell_free(leg->tell);
}

static void
tell_on_port(struct loop_post *post, void *arg)
{
	struct key_leg *leg = arg;
	struct mt_port *port = leg->port;
	int rc = 0;

	if (leg->tell->is_removal)
		keyring_remove(port->keys, leg->tell->id);
	else
		rc = keyring_put(port->keys, leg->tell->id, leg->tell->dek);
	if (rc != 0)
		log_error(
		    "keys: a port has no room for a data key, what it encrypts waits there id=%" PRIu32
		    " rc=%s",
		    leg->tell->id, log_errno(rc));
	post->fn = tell_on_main;
	loop_post(port->main_loop, post);
}

int
mt_data_keys_tell(struct mt_gateway *gateway, uint32_t id, const uint8_t dek[MT_DEK_BYTES])
{
	struct key_tell *tell;

	assert(id != 0 && gateway->port_count > 0);
	if (gateway->sm.state >= MT_GATEWAY_STOPPING)
		return -ESHUTDOWN;
	tell = mt_calloc(1, sizeof(*tell));
	if (tell == NULL)
		return -ENOMEM;
	tell->id = id;
	tell->is_removal = dek == NULL;
	if (dek != NULL)
		memcpy(tell->dek, dek, sizeof(tell->dek));
	tell->left_count = gateway->port_count;
	list_push_back(&gateway->data_keys.tells, &tell->link);
	for (uint32_t i = 0; i < gateway->port_count; i++) {
		struct key_leg *leg = &tell->legs[i];

		leg->tell = tell;
		leg->port = &gateway->ports[i];
		leg->post = (struct loop_post){ .fn = tell_on_port, .arg = leg };
		loop_post(leg->port->loop, &leg->post);
	}
	return 0;
}

void
mt_data_keys_tells_drop(struct mt_gateway *gateway)
{
	struct loop_link *link;

	while ((link = list_first(&gateway->data_keys.tells)) != NULL)
		tell_free(LIST_ENTRY(link, struct key_tell, link));
}
