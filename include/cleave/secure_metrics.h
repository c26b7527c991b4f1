/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secure_metrics.h -- a daemon's --metrics over TLS, by its key, and who may ask there
 *
 *	a key   --metrics            words             it speaks   to whom
 *	no      loopback             -                 HTTP        anybody who reaches it
 *	no      others reach it      -                 -           the daemon ends: see secure_metrics_check
 *	any     others reach it      --metrics-open    HTTP        anybody who reaches it
 *	yes     loopback             -                 HTTP        anybody who reaches it
 *	yes     others reach it      -                 TLS         monitors and admins, by their keys
 *	yes     any                  --metrics-tls     TLS         monitors and admins; with --metrics-open: anybody
 */
#ifndef CLEAVE_SECURE_METRICS_H
#define CLEAVE_SECURE_METRICS_H

#include <stdbool.h>

#include "cleave/secure.h"

struct config_program;
struct config_result;
struct metrics_guard;
struct secure;

/* As they were typed. */
struct secure_metrics_words {
	bool is_open;   /* --metrics-open */
	bool wants_tls; /* --metrics-tls */
};

/* Their rows in a table of options (base/config.h); @member is the struct secure_metrics_words in struct @type. */
#define SECURE_METRICS_ROWS(type, member)                                                          \
	{ "metrics-open", 0, CONFIG_FLAG, offsetof(type, member.is_open), NULL,                    \
		"--metrics may be an address that other hosts reach, in the clear (with "          \
		"--metrics-tls: over TLS): whoever does reads what is told there, without a "      \
		"key or a password.",                                                              \
		NULL, false, 0, 0, NULL },                                                         \
	{                                                                                          \
		"metrics-tls", 0, CONFIG_FLAG, offsetof(type, member.wants_tls), NULL,             \
		    "With --key: --metrics speaks TLS, to monitors and admins of the cluster, by " \
		    "their keys, on loopback, too. Where other hosts reach it that is so without " \
		    "this word.",                                                                  \
		    NULL, false, 0, 0, NULL                                                        \
	}

/* A daemon, as the guard sees it; outlives the address. */
struct secure_metrics {
	const char *noun; /* "gateway", with which lines of the log begin */
	const struct split_key *(*key)(
	    void *arg);              /* as it is now, with its lists of revoked ones */
	bool (*is_ready)(void *arg); /* are its lists known? NULL: they are, from the start on */
	void *arg;
	bool takes_anybody; /* and asks for no certificate */
};

/* For struct metrics_http_options (base/metrics_http.h) of a daemon with a key; its guard_arg is a struct secure_metrics. */
extern const struct metrics_guard secure_metrics_guard;

/*
 * secure_metrics_check -- may @text, HOST:PORT, be told at with these words? NULL: there is none
 *
 * Not where other hosts reach it and there is neither a key nor the word for that; and TLS wants a key. What is wrong
 * goes to config_problem, and the daemon ends with 2. What a name stands for is judged when it is looked up, at the
 * start (metrics_http_start): then the daemon ends with 1.
 */
void secure_metrics_check(const struct config_program *program, struct config_result *result,
    const struct secure *secure, const char *text, const struct secure_metrics_words *words);
/* secure_metrics_tell -- the log: @address is told at, over TLS or not; a warning where who asks cannot know the host. */
void secure_metrics_tell(const struct secure_metrics *metrics, const char *address, bool is_tls);

#endif /* CLEAVE_SECURE_METRICS_H */
