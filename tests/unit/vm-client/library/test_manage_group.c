/* SPDX-License-Identifier: Apache-2.0 */
/* test_manage_group.c -- snapshots of several volumes by a typed call: what is asked, answered, and refused at once */
#include <errno.h>

#include "base/num.h"
#include "cleave/manage.h"
#include "unit/client_fixture.h"

#define SNAPSHOT(number, more)                                                                        \
	"{\"number\":" number                                                                         \
	",\"name\":\"s\",\"volume\":\"v\",\"volume_id\":3,\"size_bytes\":1048576,"                    \
	"\"segment_base\":9,\"segment_count\":1,\"created_s\":1,\"state\":\"live\",\"clones\":0" more \
	"}"

static struct {
	struct fixture *f;
	struct cleave_ask ask;
	bool is_more;
	int rc;
	uint32_t count;
	struct cleave_snapshot snapshots[4];
} told;

static void
on_snapshots(struct cleave_ask *ask, int rc, const struct cleave_snapshot_page *page,
    const char *error, void *arg)
{
	cr_assert_eq(ask, &told.ask);
	cr_assert_eq(arg, &told);
	cr_assert_eq(rc == 0, error == NULL);
	cr_assert_eq(rc == 0, page != NULL);
	told.f->is_answered = true;
	told.rc = rc;
	if (page == NULL)
		return;
	told.count = page->snapshot_count;
	told.is_more = page->is_more;
	cr_assert_leq(told.count, NUM_COUNT(told.snapshots));
	for (uint32_t i = 0; i < told.count; i++)
		told.snapshots[i] = page->snapshots[i];
}

static int
create(struct fixture *f, const char *const names[], uint32_t count)
{
	int rc;

	told.f = f;
	f->is_answered = false;
	rc = cleave_snapshot_create_group(f->client, &told.ask, names, count, on_snapshots, &told);
	if (rc != 0)
		return rc;
	fixture_run(f, fixture_is_answered);
	return told.rc;
}

Test(manage_group, all_are_told_with_their_group)
{
	static const char *const names[] = { "v@s", "w@s" };
	struct fixture *f = fixture_create(NET_SIM, 1, 1);

	fixture_client(f);
	f->fake.control_answer =
	    "{\"snapshots\":[" SNAPSHOT("8", ",\"group\":8") "," SNAPSHOT("9", ",\"group\":8") "]}";
	cr_assert_eq(create(f, names, 2), 0, "%s", f->error);
	cr_assert_str_eq(f->fake.control_last,
	    "{\"op\":\"snapshot.group\",\"names\":[\"v@s\",\"w@s\"]}");
	cr_assert_eq(told.count, 2);
	cr_assert_not(told.is_more);
	cr_assert(told.snapshots[0].number == 8 && told.snapshots[0].group == 8);
	cr_assert(told.snapshots[1].number == 9 && told.snapshots[1].group == 8);
	f->fake.control_answer = "{\"snapshots\":[" SNAPSHOT("8", "") "]}";
	cr_assert_eq(create(f, names, 1), 0, "%s", f->error);
	cr_assert(told.count == 1 && told.snapshots[0].group == 0);
	f->fake.control_answer = "{\"snapshots\":[" SNAPSHOT("8", ",\"group\":\"x\"") "]}";
	cr_assert_eq(create(f, names, 1), -EBADMSG);
	fixture_destroy(f);
}

Test(manage_group, what_can_never_be_good_is_refused_at_once)
{
	const char *many[CLEAVE_GROUP_VOLUMES_MAX + 1];
	struct fixture *f = fixture_create(NET_SIM, 1, 1);

	fixture_client(f);
	for (uint32_t i = 0; i < NUM_COUNT(many); i++)
		many[i] = "v@s";
	cr_assert_eq(create(f, many, 0), -EINVAL);
	cr_assert_eq(create(f, many, NUM_COUNT(many)), -EINVAL);
	many[1] = "";
	cr_assert_eq(create(f, many, 2), -EINVAL);
	cr_assert_not(f->is_answered);
	fixture_destroy(f);
}
