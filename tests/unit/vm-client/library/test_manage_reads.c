/* SPDX-License-Identifier: Apache-2.0 */
/* test_manage_reads.c -- where a volume is read, changed by a typed call: what is asked, answered, and refused at once */
#include <errno.h>

#include "base/num.h"
#include "cleave/manage.h"
#include "unit/client_fixture.h"

static struct {
	struct fixture *f;
	struct cleave_ask ask;
	int rc;
	struct cleave_volume_entry volume;
} told;

static void
on_volume(struct cleave_ask *ask, int rc, const struct cleave_volume_entry *volume,
    const char *error, void *arg)
{
	cr_assert_eq(ask, &told.ask);
	cr_assert_eq(arg, &told);
	cr_assert_eq(rc == 0, error == NULL);
	told.f->is_answered = true;
	told.rc = rc;
	if (rc == 0)
		told.volume = *volume;
}

static int
set_reads(struct fixture *f, const char *name, const char *reads, unsigned flags)
{
	int rc;

	told.f = f;
	f->is_answered = false;
	rc = cleave_volume_set_reads(f->client, &told.ask, name, reads, flags, on_volume, &told);
	if (rc != 0)
		return rc;
	fixture_run(f, fixture_is_answered);
	return told.rc;
}

#define VOLUME                                                                                     \
	"{\"volume\":{\"name\":\"v\",\"id\":1,\"size_bytes\":4096,\"service_class\":\"standard\"," \
	"\"engine\":\"lz4\",\"level\":1,\"replicas\":3,\"segment_base\":1,\"segment_count\":1,"    \
	"\"attach\":4"

CLIENT_BOTH(manage_reads, it_is_set_and_told)
{
	struct fixture *f = fixture_create(kind, 1, 1);

	fixture_client(f);
	f->fake.control_answer = VOLUME ",\"reads\":\"direct\"}}";
	cr_assert_eq(set_reads(f, "v", "direct", 0), 0, "%s", f->error);
	cr_assert_str_eq(f->fake.control_last,
	    "{\"op\":\"volume.reads\",\"name\":\"v\",\"reads\":\"direct\"}");
	cr_assert_str_eq(told.volume.reads, "direct");
	/* Where nothing is said, as by a gateway of before. */
	f->fake.control_answer = VOLUME "}}";
	cr_assert_eq(set_reads(f, "v", "gateway", CLEAVE_MANAGE_FORCE), 0, "%s", f->error);
	cr_assert_str_eq(f->fake.control_last,
	    "{\"op\":\"volume.reads\",\"name\":\"v\",\"reads\":\"gateway\",\"force\":true}");
	cr_assert_str_eq(told.volume.reads, "gateway");
	fixture_destroy(f);
}

Test(manage_reads, what_can_never_be_good_is_refused_at_once)
{
	struct fixture *f = fixture_create(NET_SIM, 1, 1);

	fixture_client(f);
	cr_assert_eq(set_reads(f, "", "direct", 0), -EINVAL);
	cr_assert_eq(set_reads(f, "v", "", 0), -EINVAL);
	cr_assert_eq(set_reads(f, "v", "direct", CLEAVE_MANAGE_SHRINK), -EINVAL);
	fixture_destroy(f);
}
