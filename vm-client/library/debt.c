/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debt.c -- writes that were given up, of which nobody knows yet whether they take effect (I11)
 *
 * A port admits a newer incarnation of a session only after the older one's writes have ended, so what
 * was given up at a port is over before the next request to that port. Other ports know nothing of it:
 * a later write to one of them could be acknowledged first. So a write that ends without success, and
 * was sent and not answered since, leaves a *debt*, and no write of the volume is sent to anybody
 * before the last debt is paid. Reads go on.
 *
 * A debt names the address and the incarnation of the connection that was lost, the shard, and the
 * epoch that the write named. It is paid when
 *
 *   - that address has admitted a newer incarnation: its older writes are over; or
 *   - the map knows a newer epoch of the shard: the older one's owner serves no reads any more, its
 *     late appends are refused, and the heir's agreement decides about the write, for ever, before
 *     anybody reads the shard again. So the write is as good as done, or not done, by now.
 *
 * Nothing else pays. The same epoch at another address does not: a map names an heir before that has
 * claimed the shard, on the word of a gateway that may be mistaken. For the same reason a lost write is
 * sent again only when what was lost is settled like a debt: so it has never more than one place where
 * it may still take effect.
 *
 * While writes are held back the map is asked for, again and again with growing pauses: each map that
 * comes wakes the volume, which asks for the next one if it has to. What is held has its deadline like
 * any request, and ends unsent then, without a debt.
 *
 * Debts are of a session: one that attaches anew owes nothing, as every port drops or ends an older
 * attach's writes before it serves a newer one.
 *
 * Invariant: while debts is not empty no write of the volume is sent, so each one is of another message
 * that had been sent before the oldest: there are at most as many as messages.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mutant.h"
#include "internal.h"

int
debts_init(struct cleave_volume *volume)
{
	assert(volume->debts == NULL && volume->client->options.message_count_max > 0);
	volume->debts =
	    client_calloc(volume->client->options.message_count_max, sizeof(*volume->debts));
	return volume->debts == NULL ? -ENOMEM : 0;
}

void
debts_fini(struct cleave_volume *volume)
{
	assert(volume->debt_count <= volume->client->options.message_count_max);
	free(volume->debts);
	volume->debts = NULL;
}

bool
debt_is_paid(const struct cleave_volume *volume, const struct debt *debt)
{
	const struct client_map *map = volume->client->map;
	struct loop_link *link, *next;

	assert(debt->incarnation == 0 || debt->address[0] != '\0');
	assert(debt->incarnation == 0 || map != NULL); /* what was sent had a map */
	if (debt->incarnation == 0)
		return true;
	/* With fewer shards than that the cluster was made anew, and knows nothing of us. */
	if (debt->shard >= map->shard_count || map->epoch_of_shard[debt->shard] > debt->epoch)
		return true;
	LIST_FOREACH_SAFE((struct loop_link *)&volume->connections, link, next) {
		const struct connection *connection = LIST_ENTRY(link, struct connection, link);

		if (connection->sm.state == CONNECTION_UP &&
		    connection->incarnation > debt->incarnation &&
		    strcmp(connection->address, debt->address) == 0)
			return true;
	}
	return false;
}

void
debts_add(struct cleave_volume *volume, const struct debt *debt)
{
	struct cleave_client *client = volume->client;

	CHECK_OBJ(volume, VOLUME_MAGIC);
	if (!volume_is_live(volume) || debt_is_paid(volume, debt) || MUTANT(debt_ignored))
		return;
	assert(volume->debt_count < client->options.message_count_max);
	volume->debts[volume->debt_count++] = *debt;
	CLIENT_STAT(client, writes_owed, 1);
	client_want_map(client);
}

void
debts_settle(struct cleave_volume *volume)
{
	uint32_t kept_count = 0;

	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(volume->debt_count <= volume->client->options.message_count_max);
	if (volume->debt_count == 0)
		return;
	for (uint32_t i = 0; i < volume->debt_count; i++) {
		if (!debt_is_paid(volume, &volume->debts[i]))
			volume->debts[kept_count++] = volume->debts[i];
	}
	volume->debt_count = kept_count;
	if (kept_count == 0)
		volume_wake(volume);
}

bool
message_is_held(const struct message *message)
{
	const struct cleave_volume *volume = message->volume;

	assert(message->sm.state == MESSAGE_QUEUED);
	return message->is_write &&
	    (volume->debt_count > 0 || !debt_is_paid(volume, &message->debt));
}
