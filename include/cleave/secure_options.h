/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secure_options.h -- who a program is, and how it protects its connections, as its user says: --key, --security
 *
 *	--key FILE                   else $CLEAVE_KEY, else $CREDENTIALS_DIRECTORY/key (systemd's LoadCredential=)
 *	--security seal|sign|open    else $CLEAVE_SECURITY, else seal with a key
 *	--revoked FILE               of clients: else $CLEAVE_REVOKED, else nobody is
 *
 * A daemon without a key serves this host alone: where others reach it, it does not start without --security open.
 */
#ifndef CLEAVE_SECURE_OPTIONS_H
#define CLEAVE_SECURE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "cleave/secure.h"

struct config_program;
struct config_result;

/* As they were typed; NULL: not at all. */
struct secure_options {
	const char *key, *security;
	const char *
	    revoked; /* clients'; a node keeps lists in a file of its own, a gateway in its store */
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
#define SECURE_CLIENT_ROWS(type, member)                                                            \
	{ "revoked", 0, CONFIG_STRING, offsetof(type, member.revoked), "FILE",                      \
		"Lists of revoked keys, as cleave key revoke writes them: gateways that are on "    \
		"them are refused [$CLEAVE_REVOKED].",                                              \
		NULL, false, 0, 0, NULL },                                                          \
	    SECURE_ROWS(type, member,                                                               \
		"What connections have to be at least: seal, encrypted; sign, authenticated, with " \
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
/*
 * secure_revoke -- the key of @secure refuses those as well whom the lists in the file @path name
 *
 * @may_lack: the file is a program's own, which need not be there yet, and may have lists of authorities of before.
 * Returns:   0, also where it has nothing new; -errno, with @why, of which file, and @secure as it was.
 */
int secure_revoke(struct secure *secure, const char *path, bool may_lack, char *why);
/*
 * secure_renew -- the key, and the lists of revoked ones, as the files of @options have them now
 *
 * Judged as at the start: a key of one of @wanted. And it is of the same subject as @before, has not expired, and is not
 * revoked. Lists that @before has, and which the new file's authorities have signed, stay.
 * Returns:   0 and *@ret_key, the caller's; -errno and @why: which file, and what is wrong.
 */
int secure_renew(const struct secure_options *options, const struct split_wanted *wanted,
    const struct split_key *before, struct split_key **ret_key, char *why);
/*
 * secure_reload -- secure_renew of a daemon: what it was goes to the log, whose lines begin with @noun
 *
 * Returns true: secure->key is another one, for whoever has the one before; false: there is none, or the file was
 * refused, and all is as it was.
 */
bool secure_reload(const char *noun, const struct secure_options *options,
    const struct split_wanted *wanted, struct secure *secure);
/* secure_days_left -- days until @expires_s, of the clock on the wall, rounded down; 0: it is over, or today. */
uint64_t secure_days_left(uint64_t expires_s);
/* secure_ends_soon -- within 30 days, or it is over: people are to be told. */
bool secure_ends_soon(uint64_t expires_s);
/* secure_close -- give up the key; ports have shares of their own. An empty one is a no-op. */
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
 * Not where other hosts reach that and there is neither a key nor the word open. A name counts as reached. What is wrong
 * goes to config_problem.
 */
void secure_refuse_open(const struct config_program *program, struct config_result *result,
    const struct secure *secure, const char *option, const char *address);
/*
 * secure_is_timely -- is an authority of its key valid, by this host's clock? True without a key
 *
 * False: no peer would be believed, whoever it is, and @why (SPLIT_KEY_WHY_BYTES_MAX) says so for people: that clock is
 * wrong, or the authority has ended. @now_s: seconds since 1970.
 */
bool secure_is_timely(const struct secure *secure, uint64_t now_s, char *why);
/*
 * secure_tell -- a daemon's log: whose key it has and until when; a warning where connections are open to others
 *
 * @noun: "gateway", with which its lines begin. @address: where it listens; NULL: nowhere.
 */
void secure_tell(const char *noun, const struct secure *secure, const char *address);

#endif /* CLEAVE_SECURE_OPTIONS_H */
