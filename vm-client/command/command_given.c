/* SPDX-License-Identifier: Apache-2.0 */
/*
 * command_given.c -- options of volume create, where the volume is there already: restore and import over it, or going on
 *
 * They make nothing then. Each that the volume does not have is refused: who said --encrypt and got 0 would believe
 * that the data is.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "command.h"
#include "command_ask.h"

#define GIVEN_TEXT_BYTES (2 * CLEAVE_NAME_BYTES_MAX)

/* Whether an option was given that the volume does not have; @ret_has: how the volume is. */
struct given {
	const char *option;
	bool (*differs)(const struct command_options *options,
	    const struct cleave_volume_entry *volume, const json_t *told, char *ret_has,
	    size_t bytes);
};

static bool
size_differs(const struct command_options *options, const struct cleave_volume_entry *volume,
    const json_t *told, char *ret_has, size_t bytes)
{
	(void)told;
	assert(bytes > 0);
	(void)snprintf(ret_has, bytes, "has %" PRIu64 " bytes", volume->info.size_bytes);
	return options->size_bytes != 0 && options->size_bytes != volume->info.size_bytes;
}

static bool
class_differs(const struct command_options *options, const struct cleave_volume_entry *volume,
    const json_t *told, char *ret_has, size_t bytes)
{
	(void)told;
	assert((unsigned)volume->info.service_class < SERVICE_CLASS_NR);
	(void)snprintf(ret_has, bytes, "is of service class %s",
	    command_service_classes[volume->info.service_class]);
	return options->service_class != 0 &&
	    options->service_class != (unsigned)volume->info.service_class;
}

static bool
engine_differs(const struct command_options *options, const struct cleave_volume_entry *volume,
    const json_t *told, char *ret_has, size_t bytes)
{
	(void)told;
	assert(bytes > 0);
	(void)snprintf(ret_has, bytes, "has engine %s", volume->info.engine);
	return options->engine != 0 &&
	    strcmp(command_engines[options->engine], volume->info.engine) != 0;
}

static bool
level_differs(const struct command_options *options, const struct cleave_volume_entry *volume,
    const json_t *told, char *ret_has, size_t bytes)
{
	(void)told;
	assert(bytes > 0);
	(void)snprintf(ret_has, bytes, "has level %d", volume->info.level);
	return options->level_text != NULL && options->level != volume->info.level;
}

static bool
replicas_differ(const struct command_options *options, const struct cleave_volume_entry *volume,
    const json_t *told, char *ret_has, size_t bytes)
{
	(void)told;
	assert(bytes > 0);
	(void)snprintf(ret_has, bytes, "has %" PRIu32 " replicas", volume->info.replicas);
	return options->replicas != 0 && options->replicas != volume->info.replicas;
}

static bool
encrypt_differs(const struct command_options *options, const struct cleave_volume_entry *volume,
    const json_t *told, char *ret_has, size_t bytes)
{
	(void)told;
	assert(bytes > 0);
	(void)snprintf(ret_has, bytes, "is not encrypted");
	return options->is_encrypted && volume->key_id == 0;
}

static bool
kek_differs(const struct command_options *options, const struct cleave_volume_entry *volume,
    const json_t *told, char *ret_has, size_t bytes)
{
	const char *kek = json_string_value(json_object_get(told, "kek"));

	assert(bytes > 0);
	if (volume->key_id == 0)
		(void)snprintf(ret_has, bytes, "is not encrypted");
	else
		(void)snprintf(ret_has, bytes,
		    "has KEK '%.64s' (another from now on: cleave volume rotate-key)",
		    kek == NULL ? "" : kek);
	return options->kek != NULL &&
	    (volume->key_id == 0 || kek == NULL || strcmp(kek, options->kek) != 0);
}

static const struct given given_table[] = {
	{ "--encrypt", encrypt_differs },
	{ "--kek", kek_differs },
	{ "--size", size_differs },
	{ "--service-class", class_differs },
	{ "--engine", engine_differs },
	{ "--level", level_differs },
	{ "--replicas", replicas_differ },
};

int
command_check_given(struct command_session *session, const char *name, const char *instead)
{
	struct command_question question;
	char has[GIVEN_TEXT_BYTES];
	int rc;

	assert(name != NULL && instead != NULL);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_volume_show(session->client, &question.ask, name, command_on_volume, &question));
	for (size_t i = 0; i < NUM_COUNT(given_table) && rc == 0; i++) {
		if (given_table[i].differs(session->options, question.entries,
			json_object_get(question.reply, "volume"), has, sizeof(has)))
			rc = command_fail(session, -EEXIST,
			    "volume '%.64s' is there already and %s, which %s does not change: leave that out, "
			    "or %s",
			    name, has, given_table[i].option, instead);
	}
	command_question_fini(&question);
	return rc;
}
