/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rekey.c -- a client's key, read again while it runs
 *
 * What stands goes on: sessions are their gateways', which have judged the certificate that they began with. New
 * connections show the new one. A gateway that is on a list which has come with it is left at once.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "base/alloc.h"
#include "base/check.h"
#include "client_key.h"
#include "internal.h"

/* A copy of @text, or NULL as it is. False: no memory. */
static bool
copy_take(const char *text, char **ret_copy)
{
	*ret_copy = text == NULL ? NULL : alloc_text(ALLOC_CLIENT, text);
	return text == NULL || *ret_copy != NULL;
}

bool
rekey_take(struct cleave_client *client, const struct secure_options *options)
{
	return copy_take(options->key, &client->rekey.key) &&
	    copy_take(options->security, &client->rekey.security) &&
	    copy_take(options->revoked, &client->rekey.revoked);
}

void
rekey_fini(struct cleave_client *client)
{
	alloc_free(ALLOC_CLIENT, client->rekey.key);
	alloc_free(ALLOC_CLIENT, client->rekey.security);
	alloc_free(ALLOC_CLIENT, client->rekey.revoked);
	secure_close(&client->secure);
}

const struct split_key *
client_key(const struct cleave_client *client)
{
	CHECK_OBJ(client, CLIENT_MAGIC);
	return client->secure.key;
}

int
cleave_client_rekey(struct cleave_client *client, char *ret_error)
{
	const struct secure_options options = { client->rekey.key, client->rekey.security,
		client->rekey.revoked };
	struct split_wanted wanted = { .number = 0 };
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	struct split_key *next;
	int rc;

	CHECK_OBJ(client, CLIENT_MAGIC);
	if (client->secure.key == NULL)
		return 0;
	wanted.roles = split_key_subject(client->secure.key)->role;
	rc = secure_renew(&options, &wanted, client->secure.key, &next, why);
	if (rc != 0) {
		if (ret_error != NULL)
			(void)snprintf(ret_error, CLEAVE_ERROR_BYTES_MAX, "%s", why);
		return rc;
	}
	split_key_free(client->secure.key);
	client->secure.key = next;
	(void)split_port_rekey(client->port, next, NULL, NULL);
	return 1;
}
