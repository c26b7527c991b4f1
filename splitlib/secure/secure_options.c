/* SPDX-License-Identifier: Apache-2.0 */
/* secure_options.c -- see cleave/secure_options.h */
#include "cleave/secure_options.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/config.h"
#include "base/log.h"
#include "base/num.h"
#include "base/tcp_address.h"
#include "key.h"
#include "subject.h"

#define SECURE_WARN_S                                                                              \
	(UINT64_C(30) * 86400) /* before a key's end; cleave key show warns by then, too */

/* A variable that is empty is none. */
static const char *
variable(const char *name)
{
	const char *value = secure_getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The key's file. NULL: there is none. */
static const char *
key_path(const struct secure_options *options, char path[PATH_MAX])
{
	const char *folder = variable("CREDENTIALS_DIRECTORY");

	if (options->key != NULL)
		return options->key;
	if (variable("CLEAVE_KEY") != NULL)
		return variable("CLEAVE_KEY");
	if (folder == NULL || snprintf(path, PATH_MAX, "%s/key", folder) >= PATH_MAX ||
	    access(path, F_OK) != 0)
		return NULL;
	return path;
}

static int
level_take(const struct secure_options *options, enum split_security *ret_security, char *why)
{
	const char *text = options->security != NULL ? options->security
						     : variable("CLEAVE_SECURITY");

	*ret_security = SPLIT_SECURITY_DEFAULT;
	if (text == NULL || split_security_parse(text, ret_security) == 0)
		return 0;
	(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "%s: '%.64s': seal, sign or open is wanted",
	    options->security != NULL ? "--security" : "CLEAVE_SECURITY", text);
	return -EINVAL;
}

int
secure_open(const struct secure_options *options, struct secure *ret_secure, char *why)
{
	char buffer[PATH_MAX], inner[SPLIT_KEY_WHY_BYTES_MAX];
	const char *path = key_path(options, buffer);
	int rc;

	*ret_secure = (struct secure){ .key = NULL };
	why[0] = '\0';
	rc = level_take(options, &ret_secure->security, why);
	if (rc != 0)
		return rc;
	if (path == NULL && ret_secure->security > SPLIT_SECURITY_OPEN) {
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "--security: seal and sign need a key: --key FILE, as cleave key issue makes it");
		return -EINVAL;
	}
	if (path == NULL)
		return 0;
	ret_secure->key = split_key_load(path, inner);
	if (ret_secure->key != NULL)
		return 0;
	rc = -errno;
	(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "--key: %.240s", inner);
	return rc;
}

void
secure_close(struct secure *secure)
{
	split_key_free(secure->key);
	secure->key = NULL;
}

void
secure_take(const struct config_program *program, struct config_result *result,
    const struct secure_options *options, const struct split_wanted *wanted,
    struct secure *ret_secure)
{
	char why[SPLIT_KEY_WHY_BYTES_MAX];

	if (secure_open(options, ret_secure, why) != 0) {
		config_problem(program, result, "%s", why);
		return;
	}
	if (ret_secure->key != NULL &&
	    split_subject_check(split_key_subject(ret_secure->key), wanted, why) != 0)
		config_problem(program, result, "--key: %s: give it the key that was issued for it",
		    why);
}

/* Text that is no address is refused elsewhere. */
bool
secure_is_reached(const char *address)
{
	struct sockaddr_storage at;
	socklen_t bytes;

	if (tcp_address_check(address, false) != NULL)
		return false;
	return tcp_address_has_name(address) ||
	    (tcp_address_parse(strstr(address, "://") + 3, &at, &bytes) == 0 &&
		!tcp_address_is_loopback(&at));
}

void
secure_refuse_open(const struct config_program *program, struct config_result *result,
    const struct secure *secure, const char *option, const char *address)
{
	bool is_sealed = secure->key != NULL && secure->security != SPLIT_SECURITY_OPEN;

	if (is_sealed && strncmp(address, "verbs://", 8) == 0)
		config_problem(program, result,
		    "--%s: '%s': connections over RDMA cannot be sealed yet: take tcp://, or say "
		    "--security open on a network that nobody else is on",
		    option, address);
	if (secure->key == NULL && secure->security != SPLIT_SECURITY_OPEN &&
	    secure_is_reached(address))
		config_problem(program, result,
		    "--%s: '%s': other hosts reach it, and whoever does could read and change "
		    "everything: give it a key (--key FILE, as cleave key issue makes it), or say "
		    "--security open on a network that nobody else is on",
		    option, address);
}

static void
tell_key(const char *noun, const struct secure *secure)
{
	uint64_t expires_s = split_key_expires_s(secure->key);
	char subject[SUBJECT_TEXT_BYTES_MAX], until[KEY_TIME_BYTES_MAX];
	bool is_open = secure->security == SPLIT_SECURITY_OPEN;

	subject_text(split_key_subject(secure->key), subject);
	key_time_text(expires_s, until);
	if (log_wall_s() + SECURE_WARN_S >= expires_s)
		log_warn("%s: its key ends soon, or has: cleave key renew key=%s expires=\"%s\"",
		    noun, subject, until);
	log_info("%s: has a key key=%s expires=\"%s\" security=%s", noun, subject, until,
	    is_open                                       ? "open"
		: secure->security == SPLIT_SECURITY_SIGN ? "sign"
							  : "seal");
	if (is_open)
		log_warn(
		    "%s: takes connections without keys as well (--security open): for the time "
		    "in which a cluster gets its keys",
		    noun);
}

void
secure_tell(const char *noun, const struct secure *secure, const char *address)
{
	if (secure->key != NULL)
		tell_key(noun, secure);
	else if (address != NULL && secure_is_reached(address))
		log_warn(
		    "%s: connections are open: whoever reaches it reads and changes everything "
		    "address=%s: give it a key (--key)",
		    noun, address);
}
