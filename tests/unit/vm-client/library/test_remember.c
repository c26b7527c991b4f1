/* SPDX-License-Identifier: Apache-2.0 */
/* test_remember.c -- a client starts where its cluster was last, and only there */
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/client_fixture.h"
#include "unit/lookup.h"
#include "vm-client/library/internal.h"

#define NOBODY "tcp://127.0.0.1:1"

static char home[] = "/tmp/test_remember.XXXXXX";

static void
setup(void)
{
	cr_assert_not_null(mkdtemp(home));
	cr_assert_eq(setenv("XDG_STATE_HOME", home, 1), 0);
}

static int
remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
	(void)status;
	(void)type;
	(void)at;
	return remove(path);
}

static void
teardown(void)
{
	cr_assert_eq(nftw(home, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

TestSuite(remember, .init = setup, .fini = teardown, .timeout = 60);

static const char *
file_path(const char *name)
{
	static char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/cleave/%s", home, name);
	return path;
}

static bool
is_written(void *arg)
{
	const struct fixture *f = arg;

	return f->client->remember.text != NULL && !f->client->remember.is_writing;
}

/* A session with @gateways, which ends when it has written what it knows. The gateway stays. */
static struct fixture *
session(const char *gateways)
{
	struct fixture *f = fixture_create(NET_TCP, 2, 4);
	static char list[512];

	(void)snprintf(list, sizeof(list), "%s%s%s", gateways, gateways[0] != '\0' ? "," : "",
	    f->fake.addresses[0]);
	f->gateways[0] = list;
	f->options.forgets_gateways = false;
	fake_gateway_add(&f->fake, "v", 4096);
	fixture_client(f);
	cr_assert_eq(fixture_open(f, "v"), 0, "%s", f->error);
	fixture_run(f, is_written);
	fixture_close(f);
	cleave_client_destroy(f->client);
	return f;
}

/* A client that is configured with @gateways alone. What does it say? */
static int
start_anew(struct fixture *f, const char *gateways)
{
	f->gateways[0] = gateways;
	f->options.is_impatient = true;
	fixture_client(f);
	return fixture_control(f, "{\"op\":\"status\"}");
}

Test(remember, a_client_starts_although_all_that_it_was_told_are_gone)
{
	struct fixture *f = session(NOBODY);

	cr_assert_eq(start_anew(f, NOBODY), 0, "%s", f->error);
	cr_assert_eq(fixture_open(f, "v"), 0, "%s", f->error);
	fixture_destroy(f);
}

Test(remember, the_file_is_its_owners_and_says_what_was_asked_and_named)
{
	struct fixture *f = session("GW1.example:7100");
	char text[1024] = "", wanted[512];
	struct stat status;
	int fd = open(file_path("0000000000000001.gateways"), O_RDONLY);

	cr_assert_geq(fd, 0);
	cr_assert_eq(fstat(fd, &status), 0);
	cr_assert_eq(status.st_mode & 07777, 0600);
	cr_assert_gt(read(fd, text, sizeof(text) - 1), 0);
	(void)close(fd);
	(void)snprintf(wanted, sizeof(wanted), "\"asked\":[\"tcp://GW1.example:7100\",\"%s\"]",
	    f->fake.addresses[0]);
	cr_assert_not_null(strstr(text, wanted), "'%s' is not in '%s'", wanted, text);
	cr_assert_not_null(strstr(text, f->fake.addresses[1]), "%s", text);
	cr_assert_eq(stat(file_path(""), &status), 0);
	cr_assert_eq(status.st_mode & 07777, 0700);
	f->client = NULL;
	fixture_destroy(f);
}

Test(remember, a_gateway_that_was_only_named_counts_too)
{
	struct fixture *f = session("");
	static char second[SPLIT_ADDRESS_BYTES_MAX];

	/* The file alone is enough: here both are there, so that the client needs none of it. */
	memcpy(second, f->fake.addresses[1], sizeof(second));
	f->gateways[0] = second;
	fixture_client(f);
	cr_assert_eq(f->client->remember.port_count, 1);
	cr_assert_str_eq(f->client->remember.ports[0], f->fake.addresses[0]);
	cr_assert_eq(fixture_control(f, "{\"op\":\"status\"}"), 0);
	fixture_destroy(f);
}

Test(remember, nobody_turns_to_a_cluster_that_he_was_not_told_of)
{
	struct fixture *f = session(NOBODY);

	cr_assert_eq(start_anew(f, "tcp://127.0.0.1:2"), -ECONNREFUSED);
	cr_assert_not_null(strstr(f->error, "127.0.0.1:2"), "%s", f->error);
	fixture_destroy(f);
}

Test(remember, a_port_that_is_of_another_cluster_by_now_is_let_go)
{
	struct fixture *f = session(NOBODY);

	f->fake.cluster_id = 2;
	cr_assert_neq(start_anew(f, NOBODY), 0);
	cr_assert_not_null(strstr(f->error, NOBODY), "its own gateway is named: %s", f->error);
	cr_assert_eq(f->fake.control_count, 2, "attach and detach of the session before");
	fixture_destroy(f);
}

Test(remember, who_does_not_want_it_has_neither_file_nor_memory)
{
	struct fixture *f = session(NOBODY);

	f->options.forgets_gateways = true;
	cr_assert_eq(start_anew(f, NOBODY), -ECONNREFUSED);
	cr_assert_eq(unlink(file_path("0000000000000001.gateways")), 0);
	cleave_client_destroy(f->client);
	f->gateways[0] = f->fake.addresses[0];
	fixture_client(f);
	cr_assert_eq(fixture_open(f, "v"), 0);
	cr_assert_null(f->client->remember.text);
	cr_assert_neq(access(file_path("0000000000000001.gateways"), F_OK), 0);
	fixture_destroy(f);
}

Test(remember, a_place_that_cannot_be_written_is_nobodys_trouble)
{
	struct fixture *f;

	cr_assert_eq(setenv("XDG_STATE_HOME", "/dev/null", 1), 0);
	f = session(NOBODY);
	cr_assert_eq(start_anew(f, NOBODY), -ECONNREFUSED);
	cleave_client_destroy(f->client);
	cr_assert_eq(setenv("XDG_STATE_HOME", "not/absolute", 1), 0);
	cr_assert_eq(unsetenv("HOME"), 0);
	f->gateways[0] = f->fake.addresses[0];
	fixture_client(f);
	cr_assert_eq(fixture_open(f, "v"), 0);
	fixture_destroy(f);
}

static void
file_make(const char *name, const char *text, mode_t mode)
{
	int fd = open(file_path(name), O_CREAT | O_TRUNC | O_WRONLY, 0600);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	cr_assert_eq(fchmod(fd, mode), 0);
	(void)close(fd);
}

static uint32_t
ports_remembered(struct fixture *f)
{
	uint32_t count;

	f->gateways[0] = NOBODY;
	f->options.forgets_gateways = false;
	fixture_client(f);
	count = f->client->remember.port_count;
	cleave_client_destroy(f->client);
	f->client = NULL;
	return count;
}

#define GOOD(ports) "{\"format\":1,\"asked\":[\"" NOBODY "\"],\"ports\":[" ports "]}"

Test(remember, a_file_that_makes_no_sense_is_none)
{
	static const char *const wrong[] = { "", "{", "[]", "{}",
		"{\"format\":2,\"asked\":[\"" NOBODY "\"],\"ports\":[\"tcp://a:1\"]}",
		"{\"format\":1,\"asked\":[],\"ports\":[\"tcp://a:1\"]}", GOOD(""), GOOD("1"),
		GOOD("\"tcp://a:1\",null") };
	static const char *const names[] = { "1.gateways", "0000000000000000.gateways",
		"000000000000000g.gateways", "0000000000000002.gatewayz", ".gateways.abcdef" };
	const char *name = "0000000000000002.gateways";
	struct fixture *f = fixture_create(NET_TCP, 1, 1);

	cr_assert_eq(ports_remembered(f), 0);
	cr_assert_eq(mkdir(file_path(""), 0700), 0);
	file_make(name, GOOD("\"tcp://a:1\""), 0600);
	cr_assert_eq(ports_remembered(f), 1);
	for (size_t i = 0; i < NUM_COUNT(wrong); i++) {
		file_make(name, wrong[i], 0600);
		cr_assert_eq(ports_remembered(f), 0, "%s", wrong[i]);
	}
	file_make(name, GOOD("\"tcp://a:1\""), 0620);
	cr_assert_eq(ports_remembered(f), 0, "others may have written it");
	cr_assert_eq(unlink(file_path(name)), 0);
	for (size_t i = 0; i < NUM_COUNT(names); i++) {
		file_make(names[i], GOOD("\"tcp://a:1\""), 0600);
		cr_assert_eq(ports_remembered(f), 0, "%s", names[i]);
	}
	cr_assert_eq(symlink(names[0], file_path(name)), 0);
	cr_assert_eq(ports_remembered(f), 0, "a link");
	fixture_destroy(f);
}

Test(remember, one_of_each_host_comes_before_two_of_any)
{
	struct fixture *f = fixture_create(NET_TCP, 1, 1);

	cr_assert_eq(mkdir(file_path(""), 0700), 0);
	file_make("0000000000000002.gateways",
	    GOOD("\"tcp://a:1\",\"tcp://a:2\",\"tcp://a:3\",\"tcp://a:4\",\"tcp://a:5\","
		 "\"tcp://a:6\",\"tcp://a:7\",\"tcp://a:8\",\"tcp://[fd00::1]:1\",\"tcp://ab:1\","
		 "\"tcp://[fd00::1]:2\""),
	    0600);
	f->gateways[0] = NOBODY;
	f->options.forgets_gateways = false;
	fixture_client(f);
	cr_assert_eq(f->client->remember.port_count, REMEMBER_PORTS_MAX);
	cr_assert_str_eq(f->client->remember.ports[0], "tcp://a:1");
	cr_assert_str_eq(f->client->remember.ports[1], "tcp://[fd00::1]:1");
	cr_assert_str_eq(f->client->remember.ports[2], "tcp://ab:1");
	cr_assert_str_eq(f->client->remember.ports[3], "tcp://a:2");
	cr_assert_str_eq(f->client->remember.ports[4], "tcp://[fd00::1]:2");
	fixture_destroy(f);
}

Test(remember, a_list_has_no_more_than_there_is_room_for)
{
	struct fixture *f = fixture_create(NET_TCP, 1, 1);
	char list[512] = "";

	for (uint32_t i = 1; i <= CLEAVE_GATEWAYS_MAX; i++)
		(void)snprintf(list + strlen(list), sizeof(list) - strlen(list), "%sgw%u:1",
		    i == 1 ? "" : ",", i);
	f->gateways[0] = list;
	fixture_client(f);
	cr_assert_eq(client_gateway_count(f->client), CLEAVE_GATEWAYS_MAX);
	cr_assert_str_eq(client_gateway(f->client, 15), "tcp://gw16:1");
	cleave_client_destroy(f->client);
	f->client = NULL;
	f->gateways[1] = "gw17:1";
	f->options.gateway_count = 2;
	cr_assert_eq(cleave_client_create(&f->options, &f->client, f->error), -EINVAL);
	cr_assert_str_eq(f->error, "gateway 'gw17:1': at most 16 of them");
	fixture_destroy(f);
}

/* Configured by name, and named so by the map: the name is what is connected to, each time. */
Test(remember, a_cluster_of_names)
{
	static const char *const addresses[] = { "127.0.0.2", "127.0.0.1" };
	struct fixture *f = fixture_create(NET_TCP, 1, 1);
	char name[SPLIT_ADDRESS_BYTES_MAX];

	lookup_set(addresses, 2);
	(void)snprintf(name, sizeof(name), "tcp://gw1.example%s",
	    strrchr(f->fake.addresses[0], ':'));
	memcpy(f->fake.addresses[0], name, sizeof(name));
	f->gateways[0] = strchr(name, 'g');
	fake_gateway_add(&f->fake, "v", 4096);
	fixture_client(f);
	cr_assert_eq(fixture_open(f, "v"), 0, "%s", f->error);
	cr_assert_eq(client_gateway_count(f->client), 1, "that in the map is the one configured");
	cr_assert_geq(lookup_table.asked_count, 1);
	lookup_set(NULL, 0);
	fake_gateway_cut(&f->fake);
	f->client->options.is_impatient = true;
	cr_assert_neq(fixture_control(f, "{\"op\":\"status\"}"), 0, "it was connected");
	cr_assert_eq(fixture_control(f, "{\"op\":\"status\"}"), -ECONNREFUSED);
	cr_assert_not_null(strstr(f->error, "gw1.example: Name or service not known"), "%s",
	    f->error);
	fixture_destroy(f);
}
