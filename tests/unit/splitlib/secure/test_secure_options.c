/* SPDX-License-Identifier: Apache-2.0 */
/* --key and --security: where the key is found, what is refused, and where a daemon may listen without. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "cleave/secure_options.h"
#include "support/key_maker.h"

static char folder[64], why[SPLIT_KEY_WHY_BYTES_MAX];

static const char *
put(const char *name, const char *uri)
{
	static char path[128], text[KEY_MAKER_TEXT_BYTES];
	struct key_authority authority;
	FILE *file;

	key_authority_make(&authority, 0, 0);
	key_make_text(&authority, &authority, &(struct key_wish){ .uri = uri }, text);
	key_authority_fini(&authority);
	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	cr_assert_eq(fwrite(text, strlen(text), 1, file), 1);
	cr_assert_eq(fclose(file), 0);
	cr_assert_eq(chmod(path, 0600), 0);
	return path;
}

static void
setup(void)
{
	(void)snprintf(folder, sizeof(folder), "/tmp/cleave-test-XXXXXX");
	cr_assert_not_null(mkdtemp(folder));
	(void)unsetenv("CLEAVE_KEY");
	(void)unsetenv("CLEAVE_SECURITY");
	(void)unsetenv("CREDENTIALS_DIRECTORY");
}

static void
teardown(void)
{
	static const char *const names[] = { "key", "other", "third" };
	char path[128];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		(void)unlink(path);
	}
	cr_assert_eq(rmdir(folder), 0);
}

TestSuite(secure_options, .init = setup, .fini = teardown);

/* The name of the key's subject to which @key and @security lead; and the level. */
static const char *
name_of(const char *key, const char *security, enum split_security *ret_security)
{
	static char name[SPLIT_NAME_BYTES_MAX];
	const struct secure_options options = { .key = key, .security = security };
	struct secure secure;

	cr_assert_eq(secure_open(&options, &secure, why), 0, "%s", why);
	*ret_security = secure.security;
	(void)snprintf(name, sizeof(name), "%s",
	    secure.key == NULL ? "none" : split_key_subject(secure.key)->name);
	secure_close(&secure);
	secure_close(&secure);
	return name;
}

Test(secure_options, the_option_counts_before_the_variable_and_that_before_the_credential)
{
	enum split_security security;
	char option[128];

	cr_assert_str_eq(name_of(NULL, NULL, &security), "none");
	cr_assert_eq(security, SPLIT_SECURITY_DEFAULT);
	cr_assert_eq(setenv("CREDENTIALS_DIRECTORY", folder, 1), 0);
	cr_assert_str_eq(name_of(NULL, NULL, &security), "none"); /* no file of that name */
	(void)put("key", "cleave://00c0ffee00c0ffee/node/1");
	cr_assert_str_eq(name_of(NULL, NULL, &security), "1");
	cr_assert_eq(setenv("CLEAVE_KEY", put("other", "cleave://00c0ffee00c0ffee/node/2"), 1), 0);
	cr_assert_str_eq(name_of(NULL, NULL, &security), "2");
	(void)snprintf(option, sizeof(option), "%s",
	    put("third", "cleave://00c0ffee00c0ffee/node/3"));
	cr_assert_str_eq(name_of(option, NULL, &security), "3");
	cr_assert_eq(setenv("CLEAVE_KEY", "", 1), 0); /* empty is none */
	cr_assert_str_eq(name_of(NULL, NULL, &security), "1");
}

Test(secure_options, the_level_is_the_options_or_the_variables)
{
	enum split_security security;

	cr_assert_eq(setenv("CLEAVE_SECURITY", "open", 1), 0);
	(void)name_of(NULL, NULL, &security);
	cr_assert_eq(security, SPLIT_SECURITY_OPEN);
	(void)name_of(put("key", "cleave://00c0ffee00c0ffee/client/db"), "sign", &security);
	cr_assert_eq(security, SPLIT_SECURITY_SIGN);
}

Test(secure_options, what_is_wrong_is_named)
{
	static const struct {
		const char *key, *security, *variable, *words;
		int rc;
	} cases[] = {
		{ NULL, "shut", NULL, "--security: 'shut': seal, sign or open", -EINVAL },
		{ NULL, NULL, "Seal", "CLEAVE_SECURITY: 'Seal': seal, sign or open", -EINVAL },
		{ NULL, "seal", NULL, "seal and sign need a key: --key FILE", -EINVAL },
		{ "/nowhere/key", NULL, NULL, "--key: /nowhere/key: No such file", -ENOENT },
		{ "/dev/null", NULL, NULL, "--key: /dev/null: others may read", -EACCES },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct secure_options options = { .key = cases[i].key,
			.security = cases[i].security };
		struct secure secure;

		(void)unsetenv("CLEAVE_SECURITY");
		if (cases[i].variable != NULL)
			cr_assert_eq(setenv("CLEAVE_SECURITY", cases[i].variable, 1), 0);
		cr_assert_eq(secure_open(&options, &secure, why), cases[i].rc, "%zu", i);
		cr_assert(strstr(why, cases[i].words) != NULL, "%zu: %s", i, why);
		cr_assert_null(secure.key);
	}
}

Test(secure_options, a_daemon_without_a_key_is_reached_by_its_host_alone)
{
	static const struct config_program program = { .name = "test" };
	static const struct {
		const char *address;
		bool is_reached;
	} cases[] = {
		{ "tcp://127.0.0.1:7201", false }, { "tcp://127.9.9.9:7201", false },
		{ "tcp://[::1]:7201", false }, { "tcp://localhost:7201", false },
		{ "tcp://0.0.0.0:7201", true }, { "tcp://[::]:7201", true },
		{ "tcp://10.0.0.1:7201", true }, { "tcp://[fd00::1]:7201", true },
		{ "tcp://node1.example:7201", true }, { "verbs://10.0.0.1:7201", true },
		{ "", false },        /* listens nowhere */
		{ "nowhere", false }, /* told elsewhere */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct secure open = { .security = SPLIT_SECURITY_OPEN }, none = { 0 };
		struct config_result result = { 0 };

		cr_assert_eq(secure_is_reached(cases[i].address), cases[i].is_reached, "%s",
		    cases[i].address);
		secure_refuse_open(&program, &result, &open, "listen", cases[i].address);
		cr_assert_eq(result.problem_count, 0);
		secure_refuse_open(&program, &result, &none, "listen", cases[i].address);
		cr_assert_eq(result.problem_count, cases[i].is_reached, "%s", cases[i].address);
	}
}

Test(secure_options, a_daemon_with_a_key_is_reached_by_all)
{
	static const struct config_program program = { .name = "test" };
	const struct secure_options options = { .key = put("key",
						    "cleave://00c0ffee00c0ffee/node/3") };
	struct config_result result = { 0 };
	struct secure secure;

	cr_assert_eq(secure_open(&options, &secure, why), 0);
	secure_refuse_open(&program, &result, &secure, "listen", "tcp://0.0.0.0:7201");
	cr_assert_eq(result.problem_count, 0);
	secure_refuse_open(&program, &result, &secure, "listen", "verbs://10.0.0.1:7201");
	cr_assert_eq(result.problem_count, 0);
	secure_close(&secure);
}

Test(secure_options, a_subject_is_what_was_wanted_or_the_text_says_whose_it_is)
{
	const struct split_subject node = { 0xc0ffee, SPLIT_ROLE_NODE, "3" },
				   client = { 0xc0ffee, SPLIT_ROLE_CLIENT, "3" };
	static const struct {
		struct split_wanted wanted;
		const char *words; /* NULL: it is */
	} cases[] = {
		{ { .roles = SPLIT_ROLE_NODE }, NULL },
		{ { .roles = SPLIT_ROLE_NODE | SPLIT_ROLE_GATEWAY, 3, 0xc0ffee }, NULL },
		{ { .roles = SPLIT_ROLE_GATEWAY }, "node/3 is no gateway" },
		{ { .roles = SPLIT_ROLE_CLIENT | SPLIT_ROLE_ADMIN },
		    "node/3 is no client or admin" },
		{ { .roles = SPLIT_ROLE_NODE, 4, 0 }, "node/3 is not node 4" },
		{ { .roles = SPLIT_ROLE_NODE, 3, 0xc0ffef },
		    "node/3 is of cluster 0000000000c0ffee, not 0000000000c0ffef" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(split_subject_check(&node, &cases[i].wanted, why),
		    cases[i].words == NULL ? 0 : -EKEYREJECTED, "%zu", i);
		cr_assert_str_eq(why, cases[i].words == NULL ? "" : cases[i].words);
	}
	cr_assert_eq(split_subject_number(&node), 3);
	cr_assert_eq(split_subject_number(&client), 0, "a name of digits is no number");
}

/* The authorities that a test makes begin at 1000 s, and end at 4000000000 s. */
Test(secure_options, a_time_at_which_no_authority_is_valid_is_told)
{
	const struct secure_options options = { .key = put("key",
						    "cleave://0000000000c0ffee/gateway/1") };
	struct secure secure = { .key = NULL };

	cr_assert(secure_is_timely(&secure, 0, why), "without a key nobody is believed anyway");
	cr_assert_eq(secure_open(&options, &secure, why), 0, "%s", why);
	cr_assert(secure_is_timely(&secure, 1000, why));
	cr_assert(secure_is_timely(&secure, UINT64_C(4000000000), why));
	cr_assert_not(secure_is_timely(&secure, 999, why));
	cr_assert_not_null(strstr(why, "is valid from 1970-01-01 00:16:40 UTC"), "%s", why);
	cr_assert_not_null(strstr(why, "here it is 1970-01-01 00:16:39 UTC"), "%s", why);
	cr_assert_not(secure_is_timely(&secure, UINT64_C(4000000001), why));
	secure_close(&secure);
}
