/* SPDX-License-Identifier: Apache-2.0 */
/* ticket.c -- see cleave/ticket.h */
#include "cleave/ticket.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"

static const char ticket_label[] = "cleave-read-1";
#define TICKET_LABEL_BYTES (sizeof(ticket_label) - 1)
#define TICKET_FIELDS_BYTES 48u
#define TICKET_TEXT_BYTES (TICKET_LABEL_BYTES + TICKET_FIELDS_BYTES + SPLIT_SUBJECT_TEXT_BYTES_MAX)
#define TICKET_HASH_BYTES 32u
_Static_assert(WIRE_TICKET_MAC_BYTES <= TICKET_HASH_BYTES, "a mac is a part of the hash");

int
ticket_key_draw(struct wire_ticket_key *key)
{
	uint8_t random[WIRE_TICKET_KEY_BYTES + 4];

	if (gnutls_rnd(GNUTLS_RND_KEY, random, sizeof(random)) < 0)
		return -EIO;
	memcpy(key->key, random, WIRE_TICKET_KEY_BYTES);
	/* A number of before a restart is another one, all but surely: that ticket is old, and not forged. */
	key->number = key->number == 0 ? num_get_le32(random + WIRE_TICKET_KEY_BYTES)
				       : key->number + 1;
	if (key->number == 0)
		key->number = 1;
	gnutls_memset(random, 0, sizeof(random));
	return 0;
}

void
ticket_key_wipe(struct wire_ticket_key *key)
{
	gnutls_memset(key, 0, sizeof(*key));
}

static int
ticket_hash(const struct wire_ticket_key *key, const struct ticket_bearer *bearer,
    const struct wire_ticket *ticket, uint8_t ret_hash[TICKET_HASH_BYTES])
{
	uint8_t text[TICKET_TEXT_BYTES], *at = text + TICKET_LABEL_BYTES;

	assert(key->number != 0);
	memcpy(text, ticket_label, TICKET_LABEL_BYTES);
	num_put_le32(at, bearer->node_id);
	num_put_le32(at + 4, key->number);
	num_put_le64(at + 8, extent_id_pack(&ticket->id));
	num_put_le32(at + 16, ticket->from_bytes);
	num_put_le32(at + 20, ticket->to_bytes);
	num_put_le64(at + 24, ticket->volume_id);
	num_put_le64(at + 32, ticket->attach);
	num_put_le64(at + 40, bearer->session_id);
	at += TICKET_FIELDS_BYTES;
	if (bearer->subject != NULL)
		at += strlen(split_subject_text(bearer->subject, (char *)at));
	return gnutls_hmac_fast(GNUTLS_MAC_SHA256, key->key, sizeof(key->key), text,
		   (size_t)(at - text), ret_hash) < 0
	    ? -EIO
	    : 0;
}

int
ticket_make(const struct wire_ticket_key *key, const struct ticket_bearer *bearer,
    struct wire_ticket *ticket)
{
	uint8_t hash[TICKET_HASH_BYTES];
	int rc = ticket_hash(key, bearer, ticket, hash);

	if (rc != 0)
		return rc;
	ticket->key_number = key->number;
	memcpy(ticket->mac, hash, sizeof(ticket->mac));
	return 0;
}

bool
ticket_is_good(const struct wire_ticket_key *key, const struct ticket_bearer *bearer,
    const struct wire_ticket *ticket)
{
	uint8_t hash[TICKET_HASH_BYTES];

	assert(ticket->key_number == key->number);
	return ticket_hash(key, bearer, ticket, hash) == 0 &&
	    gnutls_memcmp(hash, ticket->mac, sizeof(ticket->mac)) == 0;
}
