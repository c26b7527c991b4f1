/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secure_options.h -- who a program is, and how it protects its connections, as its user says: --key, --security
 *
 *	--key FILE                   else $CLEAVE_KEY, else $CREDENTIALS_DIRECTORY/key (systemd's LoadCredential=)
 *	--security seal|sign|open    else $CLEAVE_SECURITY, else seal with a key
 *
 * A daemon without a key serves this host alone: where others reach it, it does not start without --security open.
 */
#ifndef CLEAVE_SECURE_OPTIONS_H
#define CLEAVE_SECURE_OPTIONS_H

#include <stdbool.h>

#include "cleave/secure.h"

struct config_program;
struct config_result;

/* As they were typed; NULL: not at all. */
struct secure_options {
	const char *key, *security;
};

/* Their rows in a table of options (base/config.h); @member is the struct secure_options in struct @type. */
#define SECURE_ROWS(type, member, help)                                                            \
	{ "key", 0, CONFIG_STRING, offsetof(type, member.key), "FILE",                             \
		"Who this is: a key file, as cleave key issue makes them [$CLEAVE_KEY, or "        \
		"$CREDENTIALS_DIRECTORY/key if there is one].",                                    \
		NULL, false, 0, 0, NULL },                                                         \
	{                                                                                          \
		"security", 0, CONFIG_STRING, offsetof(type, member.security), "seal|sign|open",   \
		    help " [$CLEAVE_SECURITY, or seal with a key].", NULL, false, 0, 0, NULL       \
	}
#define SECURE_OPTION_ROWS(type, member)                                                           \
	SECURE_ROWS(type, member,                                                                  \
	    "What connections have to be at least: seal, encrypted; sign, authenticated, with "    \
	    "payloads that can be read; open, anybody's: without a key, a daemon that other "      \
	    "hosts reach does not start unless it is told this word")
#define SECURE_CLIENT_ROWS(type, member)                                                           \
	SECURE_ROWS(type, member,                                                                  \
	    "What connections have to be at least: seal, encrypted; sign, authenticated, with "    \
	    "payloads that can be read; open, as without a key")

struct secure {
	struct split_key *key; /* NULL: none */
	enum split_security security;
};

/*
 * secure_open -- the key and the level that @options and the environment say
 *
 * @why gets SPLIT_KEY_WHY_BYTES_MAX bytes: which option is wrong, and what helps.
 * Returns:   0 and *@ret_secure, which secure_close ends; -EINVAL, or what split_key_load said, with @why and an empty
 *            *@ret_secure.
 */
int secure_open(const struct secure_options *options, struct secure *ret_secure, char *why);
/* secure_close -- forget the key, which no port has any more. An empty one is a no-op. */
void secure_close(struct secure *secure);
/*
 * secure_take -- secure_open of a daemon, whose key shall be one of @wanted; what is wrong goes to config_problem
 *
 * Without a key nothing is asked of it.
 */
void secure_take(const struct config_program *program, struct config_result *result,
    const struct secure_options *options, const struct split_wanted *wanted,
    struct secure *ret_secure);
/* secure_is_reached -- do other hosts reach @address, as secure_refuse_open takes it? */
bool secure_is_reached(const char *address);
/*
 * secure_refuse_open -- may a daemon listen at @address, "tcp://HOST:PORT", as it was typed behind --@option?
 *
 * Not where other hosts reach that and there is neither a key nor the word open. A name counts as reached. Not over
 * RDMA where connections would have to be sealed. What is wrong goes to config_problem.
 */
void secure_refuse_open(const struct config_program *program, struct config_result *result,
    const struct secure *secure, const char *option, const char *address);
/*
 * secure_tell -- a daemon's log: whose key it has and until when; a warning where connections are open to others
 *
 * @noun: "gateway", with which its lines begin. @address: where it listens; NULL: nowhere.
 */
void secure_tell(const char *noun, const struct secure *secure, const char *address);

#endif /* CLEAVE_SECURE_OPTIONS_H */
