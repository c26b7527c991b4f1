/* SPDX-License-Identifier: Apache-2.0 */
/* test_command_plan.c -- what goes into a backup's frames, against a model of blocks; how many questions are on their way */
#include "unit/client_fixture.h"
#include "vm-client/command/command_plan.h"

#define VOLUME_BYTES NUM_MIB(512)
#define BLOCKS (VOLUME_BYTES / CLEAVE_BLOCK_BYTES)

enum told { TOLD_NOTHING, TOLD_DATA, TOLD_ZEROS };

struct rig {
	struct fixture *f;
	struct command_options options;
	struct command_session session;
	struct command_disk data, changes;
	struct command_plan plan;
	struct command_frame slot;
	uint8_t told[BLOCKS]; /* enum told */
};

static struct rig *
rig_create(void)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	cr_assert_not_null(rig);
	rig->f = fixture_create(NET_TCP, 1, 1);
	fake_gateway_add(&rig->f->fake, "data", VOLUME_BYTES);
	fake_gateway_add(&rig->f->fake, "changes", VOLUME_BYTES);
	fixture_client(rig->f);
	rig->session = (struct command_session){ .options = &rig->options,
		.loop = rig->f->client_loop,
		.client = rig->f->client };
	cr_assert_eq(command_disk_open(&rig->data, &rig->session, "data", CLEAVE_OPEN_READ_ONLY),
	    0);
	cr_assert_eq(command_disk_open(&rig->changes, &rig->session, "changes",
			 CLEAVE_OPEN_READ_ONLY),
	    0);
	rig->slot.data = malloc(BACKUP_DATA_BYTES_MAX);
	cr_assert_not_null(rig->slot.data);
	return rig;
}

static void
rig_destroy(struct rig *rig)
{
	command_disk_close(&rig->changes);
	command_disk_close(&rig->data);
	fixture_destroy(rig->f);
	free(rig->slot.data);
	free(rig);
}

/* A block that has changed, and holds data, or zeros. */
static void
change(struct rig *rig, uint64_t block, bool has_data)
{
	rig->f->fake.volumes[1].data[block * CLEAVE_BLOCK_BYTES] = 1;
	rig->f->fake.volumes[0].data[block * CLEAVE_BLOCK_BYTES] = has_data;
}

/* A block shall be told as this. */
static enum told
wanted(const struct rig *rig, uint64_t block, bool is_full)
{
	bool has_data = rig->f->fake.volumes[0].data[block * CLEAVE_BLOCK_BYTES] != 0;

	if (!is_full && rig->f->fake.volumes[1].data[block * CLEAVE_BLOCK_BYTES] == 0)
		return TOLD_NOTHING;
	return has_data ? TOLD_DATA : TOLD_ZEROS;
}

/* The frame's ranges go forward, lie in the frame, and have their data one behind the other. */
static void
take_frame(struct rig *rig, uint64_t *at_bytes)
{
	const struct backup_frame *frame = &rig->slot.frame;
	const uint8_t *data = rig->slot.data;

	cr_assert_geq(frame->from_bytes, *at_bytes);
	cr_assert_leq(frame->range_count, BACKUP_RANGES_MAX);
	for (uint32_t i = 0; i < frame->range_count; i++) {
		const struct backup_range *range = &frame->ranges[i];

		cr_assert_geq(range->offset_bytes, *at_bytes);
		*at_bytes = range->offset_bytes + range->length_bytes;
		cr_assert_leq(*at_bytes, frame->to_bytes);
		for (uint64_t at = range->offset_bytes; at < *at_bytes; at += CLEAVE_BLOCK_BYTES)
			rig->told[at / CLEAVE_BLOCK_BYTES] = range->data != NULL ? TOLD_DATA
										 : TOLD_ZEROS;
		if (range->data != NULL)
			cr_assert_eq(range->data, data);
		data += range->data != NULL ? range->length_bytes : 0;
	}
	cr_assert_leq((uint64_t)(data - rig->slot.data), BACKUP_DATA_BYTES_MAX);
}

/* All frames from block @from on tell what the model says, and nothing before. */
static void
expect_plan(struct rig *rig, uint64_t from, bool is_full)
{
	uint64_t at_bytes = from * CLEAVE_BLOCK_BYTES;
	int rc;

	memset(rig->told, TOLD_NOTHING, sizeof(rig->told));
	command_plan_init(&rig->plan, &rig->data, is_full ? NULL : &rig->changes, VOLUME_BYTES,
	    at_bytes);
	while ((rc = command_plan_frame(&rig->plan, &rig->slot)) == 1)
		take_frame(rig, &at_bytes);
	cr_assert_eq(rc, 0);
	command_plan_fini(&rig->plan);
	for (uint64_t i = 0; i < BLOCKS; i++) {
		enum told want = i < from ? TOLD_NOTHING : wanted(rig, i, is_full);

		cr_assert_eq(rig->told[i], want, "block %llu: told %d, wanted %d",
		    (unsigned long long)i, rig->told[i], want);
	}
}

/* So far apart that no question is for two of them. */
static void
change_apart(struct rig *rig)
{
	for (uint64_t at = 0; at < VOLUME_BYTES; at += NUM_MIB(17))
		change(rig, at / CLEAVE_BLOCK_BYTES, at % NUM_MIB(2) == 0);
}

Test(command_plan, questions_about_changes_that_lie_apart_are_on_their_way_together)
{
	struct rig *rig = rig_create();

	change_apart(rig);
	rig->f->fake.delay_ns = NUM_MS(1);
	expect_plan(rig, 0, false);
	/* The library cuts one at the end of a chunk. */
	cr_assert_geq(rig->f->fake.volumes[0].held_count_max, PLAN_AHEAD_MAX);
	rig_destroy(rig);
}

Test(command_plan, changes_of_any_shape_are_told_as_they_are)
{
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct rig *rig = rig_create();
		uint64_t dice = num_mix_u64(seed), apart = UINT64_C(16) << dice % 12;

		for (uint64_t at = dice % 64; at < BLOCKS; at += 1 + (dice >> 8) % apart) {
			uint64_t count = 1 + (dice >> 40) % (dice % 5 == 0 ? 5000 : 3);

			for (uint64_t i = at; i < num_min(at + count, BLOCKS); i++)
				change(rig, i, (dice >> 50 & i & 3) != 0);
			at += count;
			dice = num_mix_u64(dice + at);
		}
		/* Answers that end early; data where nothing has changed. */
		rig->f->fake.status_blocks_max = seed % 3 == 0 ? 700 : 0;
		for (uint64_t at = 5; at < BLOCKS && seed % 2 == 0; at += 1000)
			rig->f->fake.volumes[0].data[at * CLEAVE_BLOCK_BYTES] = 1;
		expect_plan(rig, 0, false);
		expect_plan(rig, BLOCKS / 3, false);
		expect_plan(rig, 0, true);
		rig_destroy(rig);
	}
}

Test(command_plan, a_question_that_fails_ends_it_and_those_ahead_are_waited_for)
{
	struct rig *rig = rig_create();
	int rc;

	/* More ranges than a frame has, and then changes that are asked about ahead. */
	for (uint64_t i = 1; i < 2 * BACKUP_RANGES_MAX; i += 2)
		change(rig, i, true);
	change(rig, 2 * BACKUP_RANGES_MAX, false);
	change_apart(rig);
	rig->f->fake.delay_ns = NUM_MS(1);
	command_plan_init(&rig->plan, &rig->data, &rig->changes, VOLUME_BYTES, 0);
	cr_assert_eq(command_plan_frame(&rig->plan, &rig->slot), 1);
	cr_assert_gt(rig->plan.count, 0u);
	rig->f->fake.status_rc = -EIO;
	rig->f->fake.status_count = UINT32_MAX;
	do {
		rc = command_plan_frame(&rig->plan, &rig->slot);
	} while (rc == 1);
	cr_assert_eq(rc, -EIO);
	command_plan_fini(&rig->plan);
	cr_assert_eq(rig->f->fake.volumes[0].held_count, 0u);
	rig->f->fake.status_count = 0;
	expect_plan(rig, 0, false);
	rig_destroy(rig);
}
