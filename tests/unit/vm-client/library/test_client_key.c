/* SPDX-License-Identifier: Apache-2.0 */
/* A key that gateways refuse: a call fails at once, a session waits and says for what; a key's file that is read again. */
#include "tests/unit/client_fixture.h"

static char stall_reason[512];
static uint32_t stall_count;

static void
on_stall(const struct cleave_stall *stall, void *arg)
{
	(void)arg;
	if (stall->is_over)
		return;
	stall_count++;
	(void)snprintf(stall_reason, sizeof(stall_reason), "%s", stall->reason);
}

static bool
is_stalled(void *arg)
{
	(void)arg;
	return stall_count > 0;
}

TestSuite(client_key, .timeout = 60);

CLIENT_BOTH(client_key, an_open_that_every_gateway_refuses_fails_at_once)
{
	struct fixture *f = fixture_create(kind, 2, 4);

	fake_gateway_add(&f->fake, "v", NUM_MIB(64));
	f->fake.refuses_all = true;
	f->fake.refuses_all_rc = -EKEYREJECTED;
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == -EKEYREJECTED, "%d %s", f->rc, f->error);
	cr_assert(strstr(f->error, "not believed") != NULL, "%s", f->error);
	f->fake.refuses_all = false; /* it was given another key */
	cr_assert(fixture_open(f, "v") == 0, "%s", f->error);
	fixture_destroy(f);
}

CLIENT_BOTH(client_key, a_session_waits_and_says_why_once)
{
	struct fixture *f = fixture_create(kind, 2, 4);
	uint8_t *data = fixture_data(4096, 1);

	stall_count = 0;
	fake_gateway_add(&f->fake, "v", NUM_MIB(64));
	f->options.on_stall = on_stall;
	fixture_client(f);
	cr_assert(fixture_open(f, "v") == 0, "%s", f->error);
	f->fake.refuses_all = true;
	f->fake.refuses_all_rc = -EKEYREJECTED;
	fake_gateway_cut(&f->fake);
	cr_assert(fixture_submit(f, 0, CLEAVE_READ, 0, 4096, data) == 0);
	fixture_run(f, is_stalled);
	cr_assert(strstr(stall_reason, "not believed") != NULL, "%s", stall_reason);
	cr_assert(f->done_count == 0);
	f->fake.refuses_all = false; /* the gateway's key was renewed, or ours */
	fixture_wait(f, 1);
	cr_assert(f->ios[0].rc == 0 && stall_count == 1, "%d, told %u times", f->ios[0].rc,
	    stall_count);
	free(data);
	fixture_destroy(f);
}

CLIENT_BOTH(client_key, a_client_without_a_key_has_none_to_renew)
{
	struct fixture *f = fixture_with_volume(kind, NUM_MIB(64));

	cr_assert(cleave_client_rekey(f->client, f->error) == 0);
	fixture_destroy(f);
}
