/* SPDX-License-Identifier: Apache-2.0 */
/* command_unfinished.c -- see command_unfinished.h */
#include "command_unfinished.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "cleave/unfinished.h"
#include "command_ask.h"
#include "command_file.h"

struct unfinished_kind {
	const char *mark;
	size_t digits; /* of base 16, behind the mark: the name's end */
	const char *noun, *helps;
};

static const struct unfinished_kind unfinished_import = { CLEAVE_IMPORT_MARK, CLEAVE_IMPORT_DIGITS,
	"an import",
	"import again, and remove this, or rename it if the import said that all is in it" };
static const struct unfinished_kind unfinished_restore = { CLEAVE_RESTORE_MARK,
	CLEAVE_RESTORE_DIGITS, "a restore", "run it again, and it goes on, or remove this" };

/* @name, as much as there is room for, the mark, and @number in so many digits. */
static void
make_name(const struct unfinished_kind *kind, const char *name, uint64_t number,
    char ret_name[CLEAVE_VOLUME_NAME_BYTES_MAX + 1])
{
	size_t room = CLEAVE_VOLUME_NAME_BYTES_MAX - strlen(kind->mark) - kind->digits;

	assert(name[0] != '\0');
	(void)snprintf(ret_name, CLEAVE_VOLUME_NAME_BYTES_MAX + 1, "%.*s%s%0*" PRIx64, (int)room,
	    name, kind->mark, (int)kind->digits, number);
}

void
command_import_name(const char *name, char ret_name[CLEAVE_VOLUME_NAME_BYTES_MAX + 1])
{
	uint8_t id[BACKUP_ID_BYTES];
	uint32_t number;

	_Static_assert(sizeof(id) >= sizeof(number), "a number is a part of an id");
	command_new_id(id);
	memcpy(&number, id, sizeof(number));
	make_name(&unfinished_import, name, number, ret_name);
}

void
command_restore_name(const char *name, uint64_t id, char ret_name[CLEAVE_VOLUME_NAME_BYTES_MAX + 1])
{
	make_name(&unfinished_restore, name, id, ret_name);
}

int
command_finish_name(struct command_session *session, const char *working)
{
	struct command_question question;
	int rc;

	assert(session->options->name != NULL);
	command_question_init(&question, session);
	rc = command_wait(&question,
	    cleave_volume_rename(session->client, &question.ask, working, session->options->name,
		command_on_volume, &question));
	command_question_fini(&question);
	return rc;
}

static void
print_unfinished(const struct unfinished_kind *kind, const char *name, FILE *out)
{
	size_t before = unfinished_before(name, kind->mark, kind->digits);

	if (before > 0)
		fprintf(out,
		    "%s: %s of '%.*s' that has not ended. Where none runs it was cut off: %s (cleave volume "
		    "delete %s --purge)\n",
		    name, kind->noun, (int)before, name, kind->helps, name);
}

void
command_print_unfinished(const struct cleave_volume_entry *volumes, uint32_t count,
    const json_t *told, bool is_whole, FILE *out)
{
	assert(volumes != NULL || count == 0);
	for (uint32_t i = 0; i < count; i++) {
		if (volumes[i].has_writer &&
		    !command_is_writer_silent(&volumes[i], json_array_get(told, i), is_whole))
			continue; /* it goes on */
		print_unfinished(&unfinished_import, volumes[i].info.name, out);
		print_unfinished(&unfinished_restore, volumes[i].info.name, out);
	}
}
