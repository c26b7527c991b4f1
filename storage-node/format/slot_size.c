/* SPDX-License-Identifier: Apache-2.0 */
/* slot_size.c -- see slot_size.h */
#include "slot_size.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/check.h"
#include "base/num.h"
#include "base/slot_sizes.h"
#include "format_pages.h"
#include "ondisk.h"

static uint64_t
kib(uint64_t bytes)
{
	return bytes / NUM_KIB(1);
}

/* A size that was given is no error: whoever gives it may know why. */
static void
warn_of_given(uint64_t given, uint64_t others, char text[SLOT_SIZE_TEXT_BYTES])
{
	bool is_small = given < others;

	if (others == 0 || given == others)
		return;
	(void)snprintf(text, SLOT_SIZE_TEXT_BYTES,
	    "warning: slots of %" PRIu64 " KiB, and the cluster's nodes have %" PRIu64
	    " KiB: an extent with a copy %s wastes %" PRIu64
	    " %% of each %s that it takes%s. Without --slot-size it gets theirs",
	    kib(given), kib(others), is_small ? "here" : "there", slot_sizes_wasted(given, others),
	    is_small ? "of their slots" : "slot here", is_small ? ", and they fill up sooner" : "");
}

/* The others' size for a disk of @capacity. Returns as slot_size_choose. */
static int
check_others(uint64_t capacity, uint64_t others, char text[SLOT_SIZE_TEXT_BYTES])
{
	uint64_t room = capacity - num_min(capacity, ONDISK_SLOTS_OFFSET), slots = room / others;
	uint64_t small = node_format_slot_bytes(capacity);

	assert(others > 0);
	if (slots < SLOT_SIZE_SLOTS_MIN) {
		(void)snprintf(text, SLOT_SIZE_TEXT_BYTES,
		    "it has room for %" PRIu64 " slots of %" PRIu64
		    " KiB, which the cluster's nodes have, and %u are the fewest. Give it a larger disk "
		    "or --size; or say --slot-size %" PRIu64
		    "K: then an extent with a copy here wastes %" PRIu64
		    " %% of each of their slots that it takes, and they fill up sooner",
		    slots, kib(others), SLOT_SIZE_SLOTS_MIN, kib(small),
		    slot_sizes_wasted(small, others));
		return -ENOSPC;
	}
	if (slots > ONDISK_SLOTS_MAX && room - ONDISK_SLOTS_MAX * others >= NUM_MIB(1))
		(void)snprintf(text, SLOT_SIZE_TEXT_BYTES,
		    "warning: %u slots of %" PRIu64
		    " KiB, which the cluster's nodes have, are the most of a disk: %" PRIu64
		    " MiB of it are not used. Split it, and join each part",
		    ONDISK_SLOTS_MAX, kib(others), (room - ONDISK_SLOTS_MAX * others) / NUM_MIB(1));
	return 0;
}

int
slot_size_choose(const struct slot_size_ask *ask, uint64_t *ret_slot_bytes,
    char text[SLOT_SIZE_TEXT_BYTES])
{
	int rc = 0;

	assert(ask != NULL && ret_slot_bytes != NULL);
	text[0] = '\0';
	if (ask->given_bytes != 0)
		warn_of_given(ask->given_bytes, ask->others_bytes, text);
	else if (ask->others_bytes != 0)
		rc = check_others(ask->capacity_bytes, ask->others_bytes, text);
	if (rc != 0)
		return rc;
	*ret_slot_bytes = ask->given_bytes != 0 ? ask->given_bytes
	    : ask->others_bytes != 0            ? ask->others_bytes
						: node_format_slot_bytes(ask->capacity_bytes);
	return 0;
}
