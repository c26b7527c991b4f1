/* SPDX-License-Identifier: Apache-2.0 */
/* test_kms.c -- KEKs of files, credentials and programs: what they wrap, what they refuse to open, and how they fail */
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/num.h"
#include "cleave/loop.h"
#include "middletier/kms/kek_command.h"
#include "middletier/kms/kms.h"

#define HEX_KEK "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define HEX_OTHER "010102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define PATH_BYTES 256u
#define HANGS_NS NUM_MS(300)

TestSuite(kms, .timeout = 120);

struct rig {
	char folder[32], text[2 * PATH_BYTES], why[MT_ERROR_BYTES];
	struct loop *loop;
	struct mt_kms *kms;
	struct mt_kms_call call;
	uint32_t answered;
};

static const char *
rig_file(struct rig *rig, const char *name, const char *text, mode_t mode)
{
	static char path[PATH_BYTES];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", rig->folder, name);
	file = fopen(path, "w");
	cr_assert_not_null(file);
	(void)fputs(text, file);
	(void)fclose(file);
	cr_assert_eq(chmod(path, mode), 0);
	return path;
}

static void
rig_init(struct rig *rig)
{
	*rig = (struct rig){ .folder = "/tmp/cleave-kms-XXXXXX", .loop = loop_ev_create(1) };
	cr_assert_not_null(mkdtemp(rig->folder));
	cr_assert_not_null(rig->loop);
	(void)signal(SIGPIPE, SIG_IGN);
}

static int
remove_one(const char *path, const struct stat *st, int kind, struct FTW *place)
{
	(void)st;
	(void)kind;
	(void)place;
	return remove(path);
}

static void
rig_fini(struct rig *rig)
{
	mt_kms_close(rig->kms);
	loop_destroy(rig->loop);
	cr_assert_eq(nftw(rig->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static int
rig_open(struct rig *rig, const char *text)
{
	mt_kms_close(rig->kms);
	rig->kms = NULL;
	return mt_kms_open(&text, 1, rig->loop, HANGS_NS, &rig->kms, rig->why);
}

/* A file's KEK, @hex. */
static void
rig_open_file(struct rig *rig, const char *hex)
{
	(void)snprintf(rig->text, sizeof(rig->text), "file:%s", rig_file(rig, "kek", hex, 0600));
	cr_assert_eq(rig_open(rig, rig->text), 0, "%s", rig->why);
}

/* A program's, the lines of a shell. */
static void
rig_open_command(struct rig *rig, const char *lines)
{
	char script[1024];

	(void)snprintf(script, sizeof(script), "#!/bin/sh\n%s\n", lines);
	(void)snprintf(rig->text, sizeof(rig->text), "command:%s",
	    rig_file(rig, "program", script, 0700));
	cr_assert_eq(rig_open(rig, rig->text), 0, "%s", rig->why);
}

static void
on_call(struct mt_kms_call *call, void *arg)
{
	struct rig *rig = arg;

	cr_assert_eq(call, &rig->call);
	rig->answered++;
}

static bool
is_answered(void *arg)
{
	return ((struct rig *)arg)->answered > 0;
}

static int
rig_call(struct rig *rig, bool is_wrap)
{
	rig->answered = 0;
	rig->call.fn = on_call;
	rig->call.arg = rig;
	(is_wrap ? mt_kms_wrap : mt_kms_unwrap)(rig->kms, &rig->call);
	cr_assert_eq(rig->answered, 0u, "never within the call");
	cr_assert_eq(loop_run(rig->loop, is_answered, rig), 0);
	cr_assert_eq(rig->answered, 1u);
	cr_assert_eq(rig->call.rc == 0, rig->call.why[0] == '\0', "%s", rig->call.why);
	return rig->call.rc;
}

static void
rig_wish(struct rig *rig, uint64_t id, uint64_t volume)
{
	rig->call =
	    (struct mt_kms_call){ .data_key = { .id = id, .volume = volume, .kek = "default" } };
	for (uint32_t i = 0; i < MT_DEK_BYTES; i++)
		rig->call.dek[i] = (uint8_t)(0xa0 + i);
}

static bool
dek_is_right(const struct mt_kms_call *call)
{
	for (uint32_t i = 0; i < MT_DEK_BYTES; i++) {
		if (call->dek[i] != (uint8_t)(0xa0 + i))
			return false;
	}
	return true;
}

/* ---- a file's ---- */

/* Made by OpenSSL's AES-256-GCM: KEK 00 to 1f, DEK a0 to bf, nonce 10 to 1b, AAD "cleave dek 1" | 7 | 0x0102030405060708. */
static const char vector[] =
    "01101112131415161718191a1bdd5f3ab5ed6c9c1462dca2b6a3d4c7fc67e1fcbdaf77e1065f4058dce2e9ea644ff044f286f2b8e2d5e278b89c74e10e";

Test(kms, a_vector_opens)
{
	struct rig rig;

	rig_init(&rig);
	rig_open_file(&rig, HEX_KEK "\n");
	rig_wish(&rig, 7, UINT64_C(0x0102030405060708));
	rig.call.data_key.wrapped_bytes = (sizeof(vector) - 1) / 2;
	for (uint32_t i = 0; i < rig.call.data_key.wrapped_bytes; i++)
		cr_assert_eq(sscanf(vector + 2 * i, "%2hhx", &rig.call.data_key.wrapped[i]), 1);
	memset(rig.call.dek, 0, MT_DEK_BYTES);
	cr_assert_eq(rig_call(&rig, false), 0, "%s", rig.call.why);
	cr_assert(dek_is_right(&rig.call));
	mt_kms_call_wipe(&rig.call);
	cr_assert_not(dek_is_right(&rig.call));
	rig_fini(&rig);
}

Test(kms, what_is_wrapped_opens_for_its_key_and_volume_alone)
{
	struct mt_data_key good;
	struct rig rig;
	uint8_t first[MT_WRAPPED_BYTES_MAX];

	rig_init(&rig);
	rig_open_file(&rig, HEX_KEK);
	rig_wish(&rig, 3, 4);
	cr_assert_eq(rig_call(&rig, true), 0);
	memcpy(first, rig.call.data_key.wrapped, sizeof(first));
	cr_assert_eq(rig_call(&rig, true), 0);
	good = rig.call.data_key;
	cr_assert_neq(memcmp(first, good.wrapped, good.wrapped_bytes), 0, "a nonce of its own");
	mt_kms_call_wipe(&rig.call);
	cr_assert_eq(rig_call(&rig, false), 0);
	cr_assert(dek_is_right(&rig.call));
	rig.call.data_key.id = 4;
	cr_assert_eq(rig_call(&rig, false), -EBADMSG);
	rig.call.data_key = good;
	rig.call.data_key.volume = 5;
	cr_assert_eq(rig_call(&rig, false), -EBADMSG);
	rig.call.data_key = good;
	(void)snprintf(rig.call.data_key.kek, MT_KEK_NAME_BYTES, "other");
	cr_assert_eq(rig_call(&rig, false), -ENOKEY);
	cr_assert_not_null(strstr(rig.call.why, "'other'"), "%s", rig.call.why);
	cr_assert_eq(rig_call(&rig, true), -ENOKEY);
	rig.call.data_key = good;
	rig_open_file(&rig, HEX_OTHER);
	cr_assert_eq(rig_call(&rig, false), -EBADMSG);
	cr_assert_not_null(strstr(rig.call.why, "another one"), "%s", rig.call.why);
	rig_fini(&rig);
}

Test(kms, no_bit_of_what_is_wrapped_can_be_flipped)
{
	struct rig rig;
	struct mt_data_key good;

	rig_init(&rig);
	rig_open_file(&rig, HEX_KEK);
	rig_wish(&rig, 3, 4);
	cr_assert_eq(rig_call(&rig, true), 0);
	good = rig.call.data_key;
	for (uint32_t bit = 0; bit < 8 * good.wrapped_bytes; bit++) {
		rig.call.data_key = good;
		rig.call.data_key.wrapped[bit / 8] ^= (uint8_t)(1u << bit % 8);
		cr_assert_eq(mt_kms_unwrap_now(rig.kms, &rig.call), -EBADMSG, "bit %u", bit);
	}
	for (uint32_t bytes = 1; bytes < good.wrapped_bytes; bytes++) {
		rig.call.data_key = good;
		rig.call.data_key.wrapped_bytes = bytes;
		cr_assert_eq(mt_kms_unwrap_now(rig.kms, &rig.call), -EBADMSG, "%u bytes", bytes);
	}
	rig.call.data_key = good;
	mt_kms_call_wipe(&rig.call);
	cr_assert_eq(mt_kms_unwrap_now(rig.kms, &rig.call), 0);
	cr_assert(dek_is_right(&rig.call));
	rig_fini(&rig);
}

Test(kms, a_file_that_holds_no_kek_is_refused)
{
	static const struct {
		const char *text;
		mode_t mode;
		int rc;
	} cases[] = { { "", 0600, -EINVAL }, { "00", 0600, -EINVAL },
		{ HEX_KEK "0", 0600, -EINVAL }, { HEX_KEK "\n\n", 0600, -EINVAL },
		{ " " HEX_KEK, 0600, -EINVAL },
		{ "g00102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f", 0600,
		    -EINVAL },
		{ "0000000000000000000000000000000000000000000000000000000000000000", 0600,
		    -EINVAL },
		{ HEX_KEK, 0644, -EACCES }, { HEX_KEK, 0620, -EACCES }, { HEX_KEK, 0640, 0 },
		{ HEX_KEK, 0400, 0 } };
	struct rig rig;

	rig_init(&rig);
	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		(void)unlink(rig_file(&rig, "kek", "", 0600));
		(void)snprintf(rig.text, sizeof(rig.text), "file:%s",
		    rig_file(&rig, "kek", cases[i].text, cases[i].mode));
		cr_assert_eq(rig_open(&rig, rig.text), cases[i].rc, "%zu %s", i, rig.why);
		cr_assert_eq(cases[i].rc == 0, rig.why[0] == '\0');
		if (cases[i].rc != 0) {
			cr_assert_not_null(strstr(rig.why, rig.folder), "%s", rig.why);
			cr_assert_null(strstr(rig.why, "0a0b0c"), "a secret in a text: %s",
			    rig.why);
		}
	}
	(void)unlink(rig_file(&rig, "kek", "", 0600));
	cr_assert_eq(rig_open(&rig, rig.text), -ENOENT);
	rig_fini(&rig);
}

Test(kms, what_no_option_says_is_refused)
{
	static const char *const texts[] = { "", "file", "file:", "file:relative",
		"x=file:", "=file:/a", "a b=file:/a", "vault:/a", "x=vault:/a",
		"credential:", "credential:../x", "command:ls", "x=command:" };
	const char *two[] = { NULL, NULL };
	struct rig rig;

	rig_init(&rig);
	(void)unsetenv("CREDENTIALS_DIRECTORY");
	for (size_t i = 0; i < NUM_COUNT(texts); i++) {
		cr_assert_eq(rig_open(&rig, texts[i]), -EINVAL, "%s", texts[i]);
		cr_assert_not_null(strstr(rig.why, texts[i]), "%s", rig.why);
	}
	cr_assert_eq(rig_open(&rig, "credential:kek"), -EINVAL);
	cr_assert_not_null(strstr(rig.why, "CREDENTIALS_DIRECTORY"));
	(void)setenv("CREDENTIALS_DIRECTORY", rig.folder, 1);
	cr_assert_eq(rig_open(&rig, "credential:kek"), -ENOENT);
	(void)rig_file(&rig, "kek", HEX_KEK, 0440);
	cr_assert_eq(rig_open(&rig, "a.b-c=credential:kek"), 0, "%s", rig.why);
	cr_assert(mt_kms_has(rig.kms, "a.b-c"));
	cr_assert_not(mt_kms_has(rig.kms, "default"));
	cr_assert_not(mt_kms_has(NULL, "default"));
	mt_kms_close(rig.kms);
	rig.kms = NULL;
	two[0] = two[1] = "credential:kek";
	cr_assert_eq(mt_kms_open(two, 2, rig.loop, 0, &rig.kms, rig.why), -EINVAL);
	cr_assert_not_null(strstr(rig.why, "two KEKs"));
	two[1] = "other=credential:kek";
	cr_assert_eq(mt_kms_open(two, 2, rig.loop, 0, &rig.kms, rig.why), 0);
	cr_assert(mt_kms_has(rig.kms, "default") && mt_kms_has(rig.kms, "other"));
	rig_fini(&rig);
}

/* ---- a program's ---- */

/* A program that hands back what it is handed, and notes what that was. */
#define SAME                                                                                       \
	"read line; echo \"$line\" >>$0.log; echo \"$line\" | sed 's/.*\\(\"data\":\"[^\"]*\"\\).*/{\\1}/'"

Test(kms, a_program_wraps_and_unwraps)
{
	struct rig rig;
	char log[2048] = "", path[PATH_BYTES];
	FILE *file;

	rig_init(&rig);
	rig_open_command(&rig, SAME);
	rig_wish(&rig, 3, 4);
	cr_assert_eq(rig_call(&rig, true), 0, "%s", rig.call.why);
	cr_assert_eq(rig.call.data_key.wrapped_bytes, 45u);
	mt_kms_call_wipe(&rig.call);
	cr_assert_eq(rig_call(&rig, false), 0, "%s", rig.call.why);
	cr_assert(dek_is_right(&rig.call));
	rig.call.data_key.volume = 5;
	cr_assert_eq(rig_call(&rig, false), -EBADMSG, "of another volume");
	(void)snprintf(path, sizeof(path), "%s/program.log", rig.folder);
	file = fopen(path, "r");
	cr_assert_not_null(file);
	cr_assert_gt(fread(log, 1, sizeof(log) - 1, file), 0u);
	(void)fclose(file);
	cr_assert_not_null(strstr(log, "{\"op\":\"wrap\",\"kek\":\"default\",\"data\":\""), "%s",
	    log);
	cr_assert_not_null(strstr(log, "{\"op\":\"unwrap\",\"kek\":\"default\",\"data\":\""), "%s",
	    log);
	rig_fini(&rig);
}

/* The longest name and the most bytes that there are: a program has all of it in one line, and hands the bytes back. */
Test(kms, a_program_reads_the_longest_request_whole)
{
	uint8_t data[MT_WRAPPED_BYTES_MAX], back[MT_WRAPPED_BYTES_MAX] = { 0 };
	const struct mt_kek_run run = { "unwrap", data, sizeof(data), NUM_S(5) };
	struct mt_kek kek = { .kind = MT_KEK_COMMAND };
	char log[2048] = "", wanted[128], path[PATH_BYTES];
	struct rig rig;
	FILE *file;

	rig_init(&rig);
	rig_open_command(&rig, SAME);
	(void)snprintf(kek.place, sizeof(kek.place), "%s/program", rig.folder);
	memset(kek.name, 'k', sizeof(kek.name) - 1);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	cr_assert_eq(mt_kek_command(&kek, &run, back, rig.why), (int)sizeof(data), "%s", rig.why);
	cr_assert_eq(memcmp(data, back, sizeof(data)), 0);
	(void)snprintf(path, sizeof(path), "%s/program.log", rig.folder);
	file = fopen(path, "r");
	cr_assert_not_null(file);
	cr_assert_gt(fread(log, 1, sizeof(log) - 1, file), 0u);
	(void)fclose(file);
	(void)snprintf(wanted, sizeof(wanted), "{\"op\":\"unwrap\",\"kek\":\"%s\",\"data\":\"AAcO",
	    kek.name);
	cr_assert_eq(strncmp(log, wanted, strlen(wanted)), 0, "%s", log);
	cr_assert_str_eq(log + strlen(log) - 3, "\"}\n");
	rig_fini(&rig);
}

/* A call at once, as a recovery makes it, has the same result. */
Test(kms, a_program_is_asked_at_once)
{
	struct rig rig;

	rig_init(&rig);
	rig_open_command(&rig, SAME);
	rig_wish(&rig, 3, 4);
	cr_assert_eq(rig_call(&rig, true), 0);
	mt_kms_call_wipe(&rig.call);
	cr_assert_eq(mt_kms_unwrap_now(rig.kms, &rig.call), 0, "%s", rig.call.why);
	cr_assert(dek_is_right(&rig.call));
	rig_fini(&rig);
}

static uint32_t
count_lines(struct rig *rig, const char *name)
{
	char path[PATH_BYTES];
	uint32_t count = 0;
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", rig->folder, name);
	file = fopen(path, "r");
	for (int c = 0; file != NULL && (c = fgetc(file)) != EOF;)
		count += c == '\n';
	if (file != NULL)
		(void)fclose(file);
	return count;
}

Test(kms, a_program_that_fails_is_an_error_with_its_words)
{
	static const struct {
		const char *lines;
		int rc;
		const char *word;
	} cases[] = {
		{ "echo 'the HSM is away' >&2; exit 3", -EIO, "ended with 3: the HSM is away" },
		{ "printf 'a\\033[31mb\\nc' >&2; exit 1", -EIO, "a?[31mb" },
		{ "kill -9 $$", -EIO, "signal 9" },
		{ "exit 0", -EIO, "did not answer" },
		{ "echo garbage", -EIO, "did not answer" },
		{ "echo '{\"data\":7}'", -EIO, "did not answer" },
		{ "echo '{\"data\":\"\"}'", -EIO, "did not answer" },
		{ "echo '{\"data\":\"!!\"}'", -EIO, "did not answer" },
		{ "echo '{\"data\":\"AAAA\"} x'", -EIO, "did not answer" },
		{ "yes", -EIO, "said too much" },
		{ "yes >&2", -ETIMEDOUT, "did not end in time" },
		{ "exec sleep 1000", -ETIMEDOUT, "did not end in time" },
		{ "exec >&- 2>&-; sleep 1000 & sleep 1000", -ETIMEDOUT, "did not end in time" },
	};
	struct rig rig;
	char lines[512];

	rig_init(&rig);
	for (size_t i = 0; i < NUM_COUNT(cases); i++) {
		(void)snprintf(lines, sizeof(lines), "echo >>%s/runs.%zu\n%s", rig.folder, i,
		    cases[i].lines);
		rig_open_command(&rig, lines);
		rig_wish(&rig, 3, 4);
		cr_assert_eq(rig_call(&rig, true), cases[i].rc, "%zu: %s", i, rig.call.why);
		cr_assert_not_null(strstr(rig.call.why, cases[i].word), "%zu: %s", i, rig.call.why);
		cr_assert_not_null(strstr(rig.call.why, "/program"), "%s", rig.call.why);
		(void)snprintf(lines, sizeof(lines), "runs.%zu", i);
		cr_assert_eq(count_lines(&rig, lines), MT_KMS_TRIES, "%zu", i);
	}
	rig_fini(&rig);
}

/* A program's answer is something, and nothing of ours. */
Test(kms, a_program_that_opens_something_else_is_refused)
{
	struct rig rig;

	rig_init(&rig);
	rig_open_command(&rig, "echo '{\"data\":\"AAAA\"}'");
	rig_wish(&rig, 3, 4);
	rig.call.data_key.wrapped_bytes = 1;
	cr_assert_eq(rig_call(&rig, false), -EBADMSG);
	rig_fini(&rig);
}

Test(kms, a_program_that_failed_is_tried_again)
{
	struct rig rig;

	rig_init(&rig);
	rig_open_command(&rig, "echo >>$0.runs; [ $(wc -l <$0.runs) -ge 3 ] || exit 1\n" SAME);
	rig_wish(&rig, 3, 4);
	cr_assert_eq(rig_call(&rig, true), 0, "%s", rig.call.why);
	cr_assert_eq(count_lines(&rig, "program.runs"), 3u);
	rig_fini(&rig);
}

/* The answer comes when nobody waits any more: close does not wait, nothing is called, nothing is left. */
Test(kms, a_gateway_goes_while_a_program_hangs)
{
	struct rig rig;

	rig_init(&rig);
	rig_open_command(&rig, "exec sleep 1000");
	rig_wish(&rig, 3, 4);
	rig.call.fn = on_call;
	rig.call.arg = &rig;
	mt_kms_wrap(rig.kms, &rig.call);
	mt_kms_close(rig.kms);
	rig.kms = NULL;
	rig_open_file(&rig, HEX_KEK);
	rig_wish(&rig, 3, 4);
	cr_assert_eq(rig_call(&rig, true), 0);
	rig_fini(&rig);
}

Test(kms, data_keys_differ)
{
	uint8_t a[MT_DEK_BYTES], b[MT_DEK_BYTES];

	cr_assert_eq(mt_kms_draw(a), 0);
	cr_assert_eq(mt_kms_draw(b), 0);
	cr_assert_neq(memcmp(a, b, sizeof(a)), 0);
}
