/* SPDX-License-Identifier: Apache-2.0 */
/* secure_options.c -- see cleave/secure_options.h */
#include "cleave/secure_options.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/aead.h"
#include "base/config.h"
#include "base/durable.h"
#include "base/log.h"
#include "base/num.h"
#include "base/tcp_address.h"
#include "key.h"
#include "subject.h"

#define SECURE_WARN_S                                                                              \
	(UINT64_C(30) * 86400) /* before a key's end; cleave key show warns by then, too */

uint64_t
secure_days_left(uint64_t expires_s)
{
	uint64_t now_s = log_wall_s();

	return expires_s > now_s ? (expires_s - now_s) / 86400 : 0;
}

bool
secure_ends_soon(uint64_t expires_s)
{
	return log_wall_s() + SECURE_WARN_S >= expires_s;
}

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

/* --key or the variable, whichever has named that file: for messages, since who typed no --key looks for none. */
static const char *
key_word(const struct secure_options *options)
{
	if (options->key != NULL)
		return "--key";
	return variable("CLEAVE_KEY") != NULL ? "$CLEAVE_KEY" : "systemd's credential key";
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

/* The key's file, and then the lists. */
static int
open_key(const struct secure_options *options, struct secure *secure, char *why)
{
	char buffer[PATH_MAX], inner[SPLIT_KEY_WHY_BYTES_MAX];
	const char *path = key_path(options, buffer);
	const char *revoked = options->revoked != NULL ? options->revoked
						       : variable("CLEAVE_REVOKED");
	int rc = 0;

	if (path == NULL && secure->security > SPLIT_SECURITY_OPEN) {
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "--security: seal and sign need a key: --key FILE, as cleave key issue makes it");
		return -EINVAL;
	}
	if (path == NULL && options->revoked != NULL) {
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "--revoked: only who has a key refuses those of others: --key FILE");
		return -EINVAL;
	}
	if (path == NULL)
		return 0;
	secure->key = split_key_load(path, inner);
	if (secure->key == NULL) {
		rc = -errno;
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "%s: %.220s", key_word(options),
		    inner);
	} else if (revoked != NULL) {
		rc = secure_revoke(secure, revoked, false, why);
	}
	return rc;
}

int
secure_open(const struct secure_options *options, struct secure *ret_secure, char *why)
{
	struct secure secure = { .key = NULL };
	int rc;

	why[0] = '\0';
	rc = level_take(options, &secure.security, why);
	if (rc == 0)
		rc = open_key(options, &secure, why);
	if (rc != 0)
		secure_close(&secure);
	*ret_secure = secure;
	return rc;
}

int
secure_revoke(struct secure *secure, const char *path, bool may_lack, char *why)
{
	char inner[SPLIT_KEY_WHY_BYTES_MAX] = "", *text = NULL;
	struct split_key *next;
	size_t bytes = 0;
	int rc = durable_read(AT_FDCWD, path, SPLIT_REVOKED_BYTES_MAX, &text, &bytes);

	assert(secure->key != NULL);
	why[0] = '\0';
	if (rc == -ENOENT && may_lack)
		return 0;
	if (rc != 0) {
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "--revoked: %.120s: %s", path,
		    strerrordesc_np(-rc));
		return rc;
	}
	next = split_key_revoke(secure->key, text, bytes, inner);
	rc = next != NULL || errno == EALREADY || errno == ESTALE ? 0 : -errno;
	if (rc == -EKEYREJECTED && may_lack)
		rc = 0; /* the authority that signed it was replaced */
	free(text);
	if (rc != 0)
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "--revoked: %.90s: %.150s", path,
		    inner);
	if (next == NULL)
		return rc;
	split_key_free(secure->key);
	secure->key = next;
	return 0;
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
		config_problem(program, result, "%s: %s: give it the key that was issued for it",
		    key_word(options), why);
}

/* A renewed key that would be refused by everybody is of no use. */
static int
renew_check(const struct split_key *key, const struct split_wanted *wanted,
    const struct split_key *before, char *why)
{
	const struct split_subject *subject = split_key_subject(key),
				   *was = split_key_subject(before);
	char text[SUBJECT_TEXT_BYTES_MAX], was_text[SUBJECT_TEXT_BYTES_MAX];
	char until[KEY_TIME_BYTES_MAX], inner[SPLIT_KEY_WHY_BYTES_MAX];

	if (split_subject_check(subject, wanted, inner) != 0)
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "--key: %.240s", inner);
	else if (subject->cluster_id != was->cluster_id || subject->role != was->role ||
	    strcmp(subject->name, was->name) != 0)
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "--key: it is of %s, and this is %s: to be another one wants a restart",
		    split_subject_text(subject, text), split_subject_text(was, was_text));
	else if (split_key_is_revoked(key))
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "--key: it was revoked");
	else if (split_key_expires_s(key) < log_wall_s() &&
	    split_key_expires_s(before) >= log_wall_s()) {
		key_time_text(split_key_expires_s(key), until);
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "--key: it has expired: %s", until);
	} else {
		return 0;
	}
	return -EKEYREJECTED;
}

int
secure_renew(const struct secure_options *options, const struct split_wanted *wanted,
    const struct split_key *before, struct split_key **ret_key, char *why)
{
	char inner[SPLIT_KEY_WHY_BYTES_MAX];
	struct secure fresh;
	struct split_key *next;
	const char *lists;
	size_t bytes;
	int rc = secure_open(options, &fresh, why);

	if (rc == 0 && fresh.key == NULL) {
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
		    "--key: there is no key file any more: to go without a key wants a restart");
		rc = -ENOENT;
	}
	if (rc != 0)
		return rc;
	lists = split_key_revoked(before, &bytes);
	next = bytes == 0 ? NULL : split_key_revoke(fresh.key, lists, bytes, inner);
	if (next != NULL) {
		split_key_free(fresh.key);
		fresh.key = next;
	} else if (bytes != 0 && errno == ENOMEM) {
		(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX, "out of memory");
		rc = -ENOMEM;
	}
	if (rc == 0)
		rc = renew_check(fresh.key, wanted, before, why);
	if (rc != 0) {
		secure_close(&fresh);
		return rc;
	}
	*ret_key = fresh.key;
	return 0;
}

bool
secure_reload(const char *noun, const struct secure_options *options,
    const struct split_wanted *wanted, struct secure *secure)
{
	char why[SPLIT_KEY_WHY_BYTES_MAX], subject[SUBJECT_TEXT_BYTES_MAX];
	char until[KEY_TIME_BYTES_MAX];
	struct split_key *next;

	if (secure->key == NULL)
		return false;
	if (secure_renew(options, wanted, secure->key, &next, why) != 0) {
		log_error("%s: its key was not read again, the one before stays: %s", noun, why);
		return false;
	}
	split_key_free(secure->key);
	secure->key = next;
	subject_text(split_key_subject(next), subject);
	key_time_text(split_key_expires_s(next), until);
	log_info("audit: %s: its key was read again key=%s expires=\"%s\"", noun, subject, until);
	if (secure_ends_soon(split_key_expires_s(next)))
		log_warn("%s: its key ends soon, or has: cleave key renew key=%s expires=\"%s\"",
		    noun, subject, until);
	return true;
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
	if (secure_ends_soon(expires_s))
		log_warn("%s: its key ends soon, or has: cleave key renew key=%s expires=\"%s\"",
		    noun, subject, until);
	log_info("%s: has a key key=%s expires=\"%s\" security=%s aes=%s", noun, subject, until,
	    is_open                                       ? "open"
		: secure->security == SPLIT_SECURITY_SIGN ? "sign"
							  : "seal",
	    aead_fastest()->name);
	if (is_open)
		log_warn(
		    "%s: takes connections without keys as well (--security open): for the time "
		    "in which a cluster gets its keys",
		    noun);
}

bool
secure_is_timely(const struct secure *secure, uint64_t now_s, char *why)
{
	const struct split_key *key = secure->key;
	char begins[KEY_TIME_BYTES_MAX], ends[KEY_TIME_BYTES_MAX], now[KEY_TIME_BYTES_MAX];
	time_t from = 0, until = 0;

	if (key == NULL)
		return true;
	if (key->file != NULL)
		key = key->file; /* which has the authorities */
	for (unsigned i = 0; i < key->authority_count; i++) {
		from = gnutls_x509_crt_get_activation_time(key->authorities[i]);
		until = gnutls_x509_crt_get_expiration_time(key->authorities[i]);
		if (from >= 0 && until >= 0 && (uint64_t)from <= now_s && now_s <= (uint64_t)until)
			return true;
	}
	key_time_text(from > 0 ? (uint64_t)from : 0, begins);
	key_time_text(until > 0 ? (uint64_t)until : 0, ends);
	key_time_text(now_s, now);
	(void)snprintf(why, SPLIT_KEY_WHY_BYTES_MAX,
	    "its authority (CA) is valid from %s to %s, and here it is %s: it would believe nobody. Is this clock right "
	    "(chronyc tracking)?",
	    begins, ends, now);
	return false;
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
