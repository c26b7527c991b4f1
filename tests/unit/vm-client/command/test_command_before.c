/* SPDX-License-Identifier: Apache-2.0 */
/* test_command_before.c -- the snapshot of what import and restore write over is of the volume that they have open */
#include <jansson.h>

#include "unit/client_fixture.h"
#include "vm-client/command/command_before.h"

static struct fixture *f;
static struct fake_volume *volume;
static struct command_options options;
static struct command_session session;
static struct command_disk disk;
static char name[COMMAND_BEFORE_BYTES], answer[256], with_id[32];

static void
setup(void)
{
	f = fixture_create(NET_TCP, 1, 1);
	volume = fake_gateway_add(&f->fake, "v", NUM_MIB(1));
	volume->data[CLEAVE_BLOCK_BYTES] = 1;
	fixture_client(f);
	options = (struct command_options){ .timeout_ns = NUM_S(60) };
	session = (struct command_session){ .options = &options,
		.loop = f->client_loop,
		.client = f->client };
	cr_assert_eq(command_disk_open(&disk, &session, "v", 0), 0, "%s", session.error);
	(void)snprintf(with_id, sizeof(with_id), "\"id\":%llu", (unsigned long long)volume->id);
}

static void
teardown(void)
{
	f->fake.control_answer = NULL;
	command_disk_close(&disk);
	fixture_destroy(f);
}

TestSuite(command_before, .init = setup, .fini = teardown, .timeout = 60);

/* Returns what became of it, where the gateway takes the snapshot of volume @volume_id. */
static int
keep(uint64_t volume_id)
{
	(void)snprintf(answer, sizeof(answer),
	    "{\"snapshot\":{\"name\":\"before\",\"volume\":\"v\",\"number\":7,\"volume_id\":%llu,"
	    "\"size_bytes\":1048576,\"created_s\":1,\"clones\":0}}",
	    (unsigned long long)volume_id);
	f->fake.control_answer = answer;
	return command_before_keep(&disk, "v", "import", name);
}

Test(command_before, the_gateway_is_told_which_volume_is_open)
{
	cr_assert_eq(keep(volume->id), 0, "%s", session.error);
	cr_assert_eq(strncmp(name, "v@before-import-", strlen("v@before-import-")), 0, "%s", name);
	cr_assert_not_null(strstr(f->fake.control_last, "snapshot.create"));
	cr_assert_not_null(strstr(f->fake.control_last, with_id), "%s", f->fake.control_last);
}

Test(command_before, one_that_knows_no_id_is_asked_by_the_name)
{
	f->fake.control_status_count = 1;
	f->fake.control_status_rc = -EINVAL;
	cr_assert_eq(keep(volume->id), 0, "%s", session.error);
	cr_assert_null(strstr(f->fake.control_last, with_id), "%s", f->fake.control_last);
}

Test(command_before, a_snapshot_of_another_volume_keeps_nothing)
{
	cr_assert_eq(keep(volume->id + 1), -ENOENT);
	cr_assert_str_empty(name);
	cr_assert_not_null(strstr(session.error, "of another volume"), "%s", session.error);
	cr_assert_not_null(strstr(session.error, "nothing was written"), "%s", session.error);
}
