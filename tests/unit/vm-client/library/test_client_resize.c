/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_resize.c -- an open volume's size: asked anew, changed, and what can go wrong */
#include "unit/client_fixture.h"

static char told[CLEAVE_ERROR_BYTES_MAX]; /* what was wrong, the last time */

static void
on_size(int rc, const char *error, void *arg)
{
	struct fixture *f = arg;

	cr_assert((rc == 0) == (error == NULL));
	(void)snprintf(told, sizeof(told), "%s", error == NULL ? "" : error);
	f->rc = rc;
	f->is_answered = true;
}

static int
refresh(struct fixture *f)
{
	int rc;

	f->is_answered = false;
	rc = cleave_volume_refresh(f->volume, on_size, f);
	if (rc != 0)
		return rc;
	cr_assert(!f->is_answered, "a callback ran inside the call");
	fixture_run(f, fixture_is_answered);
	return f->rc;
}

static int
resize(struct fixture *f, uint64_t size_bytes, bool may_shrink)
{
	int rc;

	f->is_answered = false;
	rc = cleave_volume_resize(f->volume, size_bytes, may_shrink, on_size, f);
	if (rc != 0)
		return rc;
	fixture_run(f, fixture_is_answered);
	return f->rc;
}

static uint64_t
size_of(const struct fixture *f)
{
	return cleave_volume_info(f->volume)->size_bytes;
}

CLIENT_BOTH(client_resize, a_volume_grows_and_shrinks_in_place)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));
	uint8_t *data = fixture_data(4096, 3);

	cr_assert(fixture_submit(f, 0, CLEAVE_WRITE, NUM_MIB(8), 4096, data) == -ERANGE);
	cr_assert(resize(f, NUM_MIB(16), false) == 0);
	cr_assert(size_of(f) == NUM_MIB(16));
	cr_assert(fixture_io(f, CLEAVE_WRITE, NUM_MIB(16) - 4096, 4096, data) == 0);
	cr_assert(resize(f, NUM_MIB(16), false) == 0, "to what it is");
	cr_assert(resize(f, NUM_MIB(4), false) == -EINVAL, "smaller, which was not allowed");
	cr_assert(size_of(f) == NUM_MIB(16));
	cr_assert(resize(f, NUM_MIB(4), true) == 0);
	cr_assert(fixture_submit(f, 0, CLEAVE_READ, NUM_MIB(4), 4096, data) == -ERANGE);
	cr_assert(f->fake.attach_count == 1, "the session goes on");
	/* A second segment. */
	cr_assert(resize(f, NUM_GIB(40), false) == 0);
	cr_assert(cleave_volume_info(f->volume)->segment_count == 2);
	cr_assert(fixture_io(f, CLEAVE_WRITE, NUM_GIB(40) - 4096, 4096, data) == 0);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(client_resize, what_others_did_is_learned)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));

	cr_assert(refresh(f) == 0);
	cr_assert(size_of(f) == NUM_MIB(8));
	f->fake.volumes[0].size_bytes = NUM_MIB(4);
	cr_assert(refresh(f) == 0);
	cr_assert(size_of(f) == NUM_MIB(4));
	f->fake.volumes[0].size_bytes = NUM_MIB(8);
	/* Another one has its name by now, or none. */
	f->fake.volumes[0].id = 77;
	cr_assert(refresh(f) == -ENOENT);
	cr_assert_str_eq(told, "'v' is volume 77 by now");
	cr_assert(resize(f, NUM_MIB(16), false) == -ENOENT);
	f->fake.volumes[0].id = 1;
	f->fake.volumes[0].name[0] = 'w';
	cr_assert(refresh(f) == -ENOENT);
	f->fake.volumes[0].name[0] = 'v';
	/* Another session has it. */
	f->fake.volumes[0].attach++;
	cr_assert(refresh(f) == -ESHUTDOWN);
	/* An answer that makes no sense. */
	f->fake.volumes[0].attach--;
	f->fake.volumes[0].size_bytes = NUM_MIB(4) + 512;
	cr_assert(refresh(f) == -EBADMSG);
	f->fake.volumes[0].size_bytes = NUM_MIB(8);
	cr_assert(size_of(f) == NUM_MIB(4), "what is known");
	fixture_destroy(f);
}

/* The size of a snapshot stays, but the name may be another one's. */
CLIENT_BOTH(client_resize, a_snapshot_tells_whether_it_has_its_name)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));
	struct cleave_volume *volume = f->volume;

	(void)snprintf(f->fake.volumes[0].name, sizeof(f->fake.volumes[0].name), "v@s");
	cr_assert(fixture_open(f, "v@s") == 0);
	cr_assert(refresh(f) == 0);
	f->fake.volumes[0].id = 77;
	cr_assert(refresh(f) == -ENOENT);
	cr_assert_str_eq(told, "'v@s' is another snapshot by now");
	cleave_volume_close(volume, NULL, NULL);
	fixture_destroy(f);
}

CLIENT_BOTH(client_resize, what_is_refused_at_once)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));

	cr_assert(cleave_volume_resize(f->volume, 0, true, on_size, f) == -EINVAL);
	cr_assert(cleave_volume_resize(f->volume, NUM_MIB(8) + 512, false, on_size, f) == -EINVAL);
	cr_assert(cleave_volume_resize(f->volume, CLEAVE_VOLUME_BYTES_MAX + 4096, false, on_size,
		      f) == -ERANGE);
	f->is_answered = false;
	cr_assert(cleave_volume_refresh(f->volume, on_size, f) == 0);
	cr_assert(cleave_volume_refresh(f->volume, on_size, f) == -EBUSY, "one at a time");
	cr_assert(cleave_volume_resize(f->volume, NUM_MIB(16), false, on_size, f) == -EBUSY);
	fixture_run(f, fixture_is_answered);
	fixture_destroy(f);
}

/* The volume is closed when the resize is answered, and not before. */
CLIENT_BOTH(client_resize, a_volume_that_is_closed_meanwhile)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(8));
	bool is_answered;

	f->is_answered = false;
	cr_assert(cleave_volume_resize(f->volume, NUM_MIB(16), false, on_size, f) == 0);
	cleave_volume_close(f->volume, fixture_on_closed, f);
	cr_assert(cleave_volume_refresh(f->volume, on_size, f) == -ECANCELED);
	fixture_run(f, fixture_is_answered);
	is_answered = f->rc == 0;
	if (f->volume != NULL) {
		f->is_answered = false;
		fixture_run(f, fixture_is_answered);
	}
	cr_assert(is_answered && f->volume == NULL);
	fixture_destroy(f);
}
