/* SPDX-License-Identifier: Apache-2.0 */
/* test_manage_flatten.c -- a clone is flattened by a typed call: what is asked, answered, and refused at once */
#include <errno.h>

#include "base/num.h"
#include "cleave/manage.h"
#include "unit/client_fixture.h"

static struct {
	struct fixture *f;
	struct cleave_ask ask;
	int rc;
} told;

static void
on_done(struct cleave_ask *ask, int rc, const char *error, void *arg)
{
	cr_assert_eq(ask, &told.ask);
	cr_assert_eq(arg, &told);
	cr_assert_eq(rc == 0, error == NULL);
	told.f->is_answered = true;
	told.rc = rc;
}

static int
flatten(struct fixture *f, const char *name, unsigned flags)
{
	int rc;

	told.f = f;
	f->is_answered = false;
	rc = cleave_volume_flatten(f->client, &told.ask, name, flags, on_done, &told);
	if (rc != 0)
		return rc;
	fixture_run(f, fixture_is_answered);
	return told.rc;
}

CLIENT_BOTH(manage_flatten, it_is_begun_and_called_off)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	fixture_client(f);
	f->fake.control_answer = "{\"shard_count\":4,\"left\":3}";
	cr_assert_eq(flatten(f, "v", 0), 0, "%s", f->error);
	cr_assert_str_eq(f->fake.control_last, "{\"op\":\"volume.flatten\",\"name\":\"v\"}");
	cr_assert_eq(flatten(f, "v", CLEAVE_MANAGE_CANCEL), 0, "%s", f->error);
	cr_assert_str_eq(f->fake.control_last,
	    "{\"op\":\"volume.flatten\",\"name\":\"v\",\"cancel\":true}");
	f->fake.control_answer = "7";
	cr_assert_eq(flatten(f, "v", 0), -EBADMSG);
	fixture_destroy(f);
}

Test(manage_flatten, what_can_never_be_good_is_refused_at_once)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);

	fixture_client(f);
	cr_assert_eq(flatten(f, "", 0), -EINVAL);
	cr_assert_eq(flatten(f, "v", CLEAVE_MANAGE_FORCE), -EINVAL);
	cr_assert_eq(flatten(f, "v", CLEAVE_MANAGE_CANCEL | CLEAVE_MANAGE_PURGE), -EINVAL);
	cr_assert_not(f->is_answered);
	fixture_destroy(f);
}
