/* SPDX-License-Identifier: Apache-2.0 */
/* test_mirror_names.c -- names of encrypted volumes leave the mirror, and are encrypted once */
#include <criterion/criterion.h>
#include <string.h>

#include "cleave/keyring.h"
#include "middletier/catalog/snapshot.h"
#include "middletier/catalog/volume.h"
#include "middletier/cluster/mirror_names.h"
#include "middletier/manifest/edit.h"
#include "middletier/manifest/manifest_mirror.h"
#include "middletier/manifest/manifest_state.h"

TestSuite(mirror_names, .timeout = 60);

static const uint8_t key[KEYRING_KEY_BYTES] = { 1, 2, 3 };

struct rig {
	struct mt_volume volumes[3];
	struct mt_snapshot snapshots[3];
	struct mt_mirror_names names;
	struct mt_manifest_state state;
	struct keyring *keys;
};

/* A plain volume, an encrypted one, one in the trash; a snapshot of each of the first two, and of one that is gone. */
static void
rig_take(struct rig *rig)
{
	rig->volumes[0] = (struct mt_volume){ .id = 1, .name = "plain" };
	rig->volumes[1] = (struct mt_volume){ .id = 2, .name = "hidden", .key_id = 7 };
	rig->volumes[2] = (struct mt_volume){ .id = 3,
		.name = "trash/3",
		.key_id = 8,
		.trash = { .name = "old" } };
	rig->snapshots[0] = (struct mt_snapshot){ .number = 4, .volume_id = 1, .name = "s" };
	rig->snapshots[1] = (struct mt_snapshot){ .number = 5, .volume_id = 2, .name = "t" };
	rig->snapshots[2] = (struct mt_snapshot){ .number = 6, .volume_id = 9, .name = "u" };
	cr_assert_eq(mt_mirror_names_take(&rig->names, rig->volumes, 3, rig->snapshots, 3), 0);
}

static void
rig_init(struct rig *rig)
{
	memset(rig, 0, sizeof(*rig));
	mt_manifest_state_init(&rig->state);
	rig->state.epoch = 1;
	rig->keys = keyring_create();
	cr_assert_not_null(rig->keys);
	rig_take(rig);
}

static void
rig_fini(struct rig *rig)
{
	mt_mirror_names_fini(&rig->names);
	mt_manifest_state_fini(&rig->state);
	keyring_destroy(rig->keys);
}

/* All edits, applied. Returns how many. */
static uint32_t
rig_mirror(struct rig *rig)
{
	struct mt_mirror_names_at at = { 0 };
	uint32_t count = 0;
	struct mt_edit edit;
	const char *field;

	while (mt_mirror_names_next(&rig->names, &rig->state, rig->keys, false, &at, &edit)) {
		cr_assert_eq(mt_manifest_mirror_apply(&rig->state, &edit, &field), 0, "%s", field);
		at = (struct mt_mirror_names_at){ 0 }; /* as after a commit */
		count++;
		cr_assert_lt(count, 100u);
	}
	return count;
}

static void
expect_name(struct rig *rig, uint64_t number, const char *wanted)
{
	const struct mt_sealed_name *name = mt_manifest_state_name(&rig->state, number);
	char text[MT_NAME_BYTES];

	cr_assert_not_null(name, "%s", wanted);
	cr_assert_eq(mt_sealed_name_open(name, key, text), 0);
	cr_assert_str_eq(text, wanted);
}

Test(mirror_names, placeholders_come_in_their_places)
{
	struct rig rig;

	rig_init(&rig);
	cr_assert_str_eq(rig.volumes[0].name, "plain");
	cr_assert_str_eq(rig.volumes[1].name, "encrypted-2");
	cr_assert_str_eq(rig.volumes[2].name, "trash/3");
	cr_assert_str_eq(rig.volumes[2].trash.name, "encrypted-3");
	cr_assert_str_eq(rig.snapshots[0].name, "s");
	cr_assert_str_eq(rig.snapshots[1].name, "encrypted-5");
	cr_assert_str_eq(rig.snapshots[2].name, "encrypted-6");
	rig_fini(&rig);
}

Test(mirror_names, a_name_waits_for_its_key_and_is_encrypted_once)
{
	struct rig rig;
	struct mt_sealed_name first;

	rig_init(&rig);
	cr_assert_eq(rig_mirror(&rig), 0u, "there is no key");
	cr_assert_eq(keyring_put(rig.keys, 7, key), 0);
	cr_assert_eq(rig_mirror(&rig), 2u);
	expect_name(&rig, 2, "hidden");
	expect_name(&rig, 5 | MT_SNAPSHOT_ID, "t");
	cr_assert_eq(keyring_put(rig.keys, 8, key), 0);
	cr_assert_eq(rig_mirror(&rig), 1u);
	expect_name(&rig, 3, "old");
	first = *mt_manifest_state_name(&rig.state, 2);
	rig_take(&rig);
	cr_assert_eq(rig_mirror(&rig), 0u);
	/* Another gateway has it from the manifest alone. */
	mt_mirror_names_fini(&rig.names);
	rig_take(&rig);
	cr_assert_eq(rig_mirror(&rig), 0u);
	cr_assert_eq(memcmp(&first, mt_manifest_state_name(&rig.state, 2), sizeof(first)), 0);
	rig_fini(&rig);
}

Test(mirror_names, another_name_or_key_is_encrypted_anew)
{
	struct rig rig;

	rig_init(&rig);
	cr_assert_eq(keyring_put(rig.keys, 7, key), 0);
	cr_assert_eq(keyring_put(rig.keys, 9, key), 0);
	cr_assert_eq(rig_mirror(&rig), 2u);
	rig.volumes[1] = (struct mt_volume){ .id = 2, .name = "renamed", .key_id = 9 };
	cr_assert_eq(mt_mirror_names_take(&rig.names, rig.volumes + 1, 1, NULL, 0), 0);
	cr_assert_eq(rig_mirror(&rig), 2u, "the volume's, and the snapshot's goes");
	expect_name(&rig, 2, "renamed");
	cr_assert_eq(mt_manifest_state_name(&rig.state, 2)->key_id, 9u);
	cr_assert_null(mt_manifest_state_name(&rig.state, 5 | MT_SNAPSHOT_ID));
	rig_fini(&rig);
}

/* A volume that was recovered without its KEK: its name is not known, and must not be lost. */
Test(mirror_names, a_placeholder_takes_no_name_away)
{
	struct rig rig;

	rig_init(&rig);
	cr_assert_eq(keyring_put(rig.keys, 7, key), 0);
	cr_assert_eq(rig_mirror(&rig), 2u);
	rig.volumes[1] = (struct mt_volume){ .id = 2, .name = "encrypted-2", .key_id = 7 };
	cr_assert_eq(mt_mirror_names_take(&rig.names, rig.volumes + 1, 1, rig.snapshots + 1, 1), 0);
	cr_assert_eq(rig_mirror(&rig), 0u);
	expect_name(&rig, 2, "hidden");
	rig_fini(&rig);
}
