/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_open.c -- which volume is opened: the one whose id is wanted, whatever the gateway knows of ids */
#include "unit/client_fixture.h"

/* Returns what the open said; the volume, if it did, is closed again. */
static int
open_as(struct fixture *f, unsigned flags, uint64_t id)
{
	const struct cleave_open_options options = { .name = "v", .flags = flags, .id = id };

	f->is_answered = false;
	f->volume = NULL;
	cr_assert_eq(cleave_volume_open_as(f->client, &options, fixture_on_open, f), 0);
	cr_assert(!f->is_answered, "a callback ran inside the call");
	fixture_run(f, fixture_is_answered);
	if (f->volume == NULL)
		return f->rc;
	cr_assert_eq(cleave_volume_info(f->volume)->id, f->fake.volumes[0].id);
	fixture_close(f);
	return 0;
}

static struct fixture *
with_volume(enum net_kind kind)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	fake_gateway_add(&f->fake, "v", NUM_MIB(1));
	fixture_client(f);
	return f;
}

CLIENT_BOTH(client_open, the_volume_that_is_wanted)
{
	struct fixture *f = with_volume(kind);
	uint64_t id = f->fake.volumes[0].id;

	cr_assert_eq(open_as(f, 0, id), 0);
	cr_assert_eq(open_as(f, CLEAVE_OPEN_TAKE, id), 0);
	cr_assert_eq(open_as(f, CLEAVE_OPEN_READ_ONLY, id), 0);
	cr_assert_eq(f->fake.attach_count, 2);
	cr_assert_eq(f->fake.detach_count, 2);
	cr_assert_not_null(strstr(f->fake.control_last, "\"id\""));
	cr_assert_eq(open_as(f, CLEAVE_OPEN_READ_ONLY, 0), 0);
	cr_assert_null(strstr(f->fake.control_last, "\"id\""), "a gateway of before knows none");
	fixture_destroy(f);
}

CLIENT_BOTH(client_open, another_one_is_refused)
{
	struct fixture *f = with_volume(kind);
	uint64_t id = f->fake.volumes[0].id + 1;

	cr_assert_eq(open_as(f, CLEAVE_OPEN_TAKE, id), -ENOENT);
	cr_assert_not_null(strstr(f->error, "another volume"), "%s", f->error);
	cr_assert_eq(open_as(f, CLEAVE_OPEN_READ_ONLY, id), -ENOENT);
	cr_assert_eq(f->fake.attach_count, 0, "it was taken");
	fixture_destroy(f);
}

/* The gateway is of a release that refuses the member "id". */
static int
open_without(struct fixture *f, unsigned flags, uint64_t id)
{
	int rc;

	f->fake.control_status_rc = -EINVAL;
	f->fake.control_status_count = 1;
	rc = open_as(f, flags, id);
	cr_assert_eq(f->fake.control_status_count, 0);
	return rc;
}

CLIENT_BOTH(client_open, where_no_ids_are_known_it_is_compared)
{
	struct fixture *f = with_volume(kind);
	uint64_t id = f->fake.volumes[0].id;

	cr_assert_eq(open_without(f, 0, id), 0, "%s", f->error);
	cr_assert_eq(open_without(f, CLEAVE_OPEN_READ_ONLY, id), 0, "%s", f->error);
	cr_assert_null(strstr(f->fake.control_last, "\"id\""));
	cr_assert_eq(f->fake.attach_count, 1);
	cr_assert_eq(f->fake.detach_count, 1);
	/* Another one's session is given back before the open fails. */
	cr_assert_eq(open_without(f, 0, id + 1), -ENOENT);
	cr_assert_not_null(strstr(f->error, "'v' is another one by now"), "%s", f->error);
	cr_assert_eq(f->fake.attach_count, 2);
	cr_assert_eq(f->fake.detach_count, 2);
	cr_assert_eq(open_without(f, CLEAVE_OPEN_READ_ONLY, id + 1), -ENOENT);
	cr_assert_eq(f->fake.detach_count, 2);
	fixture_destroy(f);
}

/* A name that no release takes is asked for twice, and not for ever. */
CLIENT_BOTH(client_open, what_is_wrong_anyway_is_told)
{
	struct fixture *f = with_volume(kind);
	struct cleave_open_options options = { .name = "v", .id = (uint64_t)INT64_MAX + 1 };

	cr_assert_eq(cleave_volume_open_as(f->client, &options, fixture_on_open, f), -EINVAL);
	f->fake.control_status_rc = -EINVAL;
	f->fake.control_status_count = 2;
	cr_assert_eq(open_as(f, 0, 1), -EINVAL);
	cr_assert_eq(f->fake.control_status_count, 0);
	fixture_destroy(f);
}
