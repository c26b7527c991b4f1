/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_age.c -- a metadata store that the mirror of a newer one is compared with */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "middletier/catalog/volume_table.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/cluster/store_age.h"
#include "middletier/common/alloc.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/manifest_state.h"

#define FIRST 10u /* what all that is counted has come to */

static struct mt_gateway *gateway;
static struct mt_manifest_state state;
static char text[MT_ERROR_BYTES];

/* Volume @id as store and mirror have it; 0: that one has not. */
static void
add_volume(uint64_t id, const char *name, uint64_t store_attach, uint64_t mirror_attach)
{
	struct mt_volume volume = { .id = id,
		.size_bytes = 4096,
		.segment_base = id,
		.segment_count = 1,
		.replica_count = 3 };
	const char *field;

	(void)snprintf(volume.name, sizeof(volume.name), "%s", name);
	mt_scope_init(&volume.scope, id);
	volume.attach = store_attach;
	if (store_attach != 0)
		cr_assert_eq(mt_volumes_put(&gateway->volumes, &volume, 1), 0);
	volume.attach = mirror_attach;
	if (mirror_attach != 0)
		cr_assert_eq(mt_manifest_state_apply(&state,
				 &(struct mt_edit){ .kind = MT_EDIT_VOLUME, .volume = volume },
				 &field),
		    0, "%s", field);
}

static void
setup(void)
{
	gateway = calloc(1, sizeof(*gateway));
	cr_assert_not_null(gateway);
	mt_volumes_init(&gateway->volumes);
	gateway->cluster.next_volume_id = gateway->cluster.next_segment = FIRST;
	gateway->cluster.next_snapshot = gateway->cluster.next_clone = FIRST;
	gateway->cluster.next_key = FIRST;
	mt_manifest_state_init(&state);
	state.epoch = 1;
	state.next_volume_id = state.next_segment = state.next_snapshot = FIRST;
	state.next_clone = state.next_key = FIRST;
	add_volume(3, "z", 7, 7);
	add_volume(1, "b", 7, 6);  /* not mirrored yet */
	add_volume(2, "a", 1, 0);  /* nor is this one */
	add_volume(9, "x", 0, 12); /* deleted since it was mirrored */
}

static void
teardown(void)
{
	mt_volumes_fini(&gateway->volumes);
	mt_manifest_state_fini(&state);
	free(gateway);
}

TestSuite(store_age, .init = setup, .fini = teardown);

static bool
is_old(void)
{
	struct mt_store_age age = { 0 };
	bool is;

	cr_assert_eq(mt_store_age_take(&age, &state), 0);
	is = mt_store_age_is_old(&age, gateway, text);
	mt_store_age_fini(&age);
	return is;
}

Test(store_age, a_store_that_is_ahead_of_its_mirror_is_not_old)
{
	cr_assert_not(is_old(), "%s", text);
	gateway->cluster.next_volume_id++;
	gateway->cluster.next_key++;
	cr_assert_not(is_old(), "%s", text);
}

Test(store_age, whatever_has_been_given_out_since_tells)
{
	uint64_t *const counts[] = { &state.next_volume_id, &state.next_segment,
		&state.next_snapshot, &state.next_clone, &state.next_key };

	for (size_t i = 0; i < NUM_COUNT(counts); i++) {
		++*counts[i];
		cr_assert(is_old(), "%zu", i);
		cr_assert_not_null(strstr(text, "cleave recover"), "%s", text);
		--*counts[i];
	}
	cr_assert_not(is_old());
}

/* Whoever opened it since has written: the store would let the one before in, and that one alone. */
Test(store_age, so_does_a_volume_that_was_opened_since)
{
	add_volume(5, "m", 3, 4);
	cr_assert(is_old());
	cr_assert_not_null(strstr(text, "'m' was opened since"), "%s", text);
}

Test(store_age, without_a_mirror_none_is_old)
{
	const struct mt_store_age age = { 0 };

	cr_assert_not(mt_store_age_is_old(&age, gateway, text));
}

Test(store_age, without_memory_nothing_is_taken)
{
	struct mt_store_age age = { 0 };

	mt_alloc_fail_at(1);
	cr_assert_eq(mt_store_age_take(&age, &state), -ENOMEM);
	mt_alloc_fail_at(0);
	mt_store_age_fini(&age);
}
