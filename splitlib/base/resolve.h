/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve.h -- the addresses of a host's name, looked up on another thread
 *
 * By getaddrinfo, so that names mean here what they mean to every other program of the machine
 * (/etc/hosts, DNS, and whatever else nsswitch.conf names). It blocks, up to half a minute where name
 * servers are silent: so it is an errand (errand.h). Nothing is cached: each call asks anew, but joins a
 * question for the same name that is still out.
 */
#ifndef CLEAVE_BASE_RESOLVE_H
#define CLEAVE_BASE_RESOLVE_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/errand.h"

#define RESOLVE_ADDRESSES_MAX 8u /* more of a name are left out */
#define RESOLVE_NAME_BYTES 128u  /* with its NUL; an address with scheme and port is no longer */

struct resolve_answer {
	int rc;  /* 0; else EAI_*: there are no addresses */
	int err; /* EAI_SYSTEM: errno */
	uint32_t count;
	struct sockaddr_storage addresses[RESOLVE_ADDRESSES_MAX]; /* port 0; in the order to try */
};
struct resolve_call;
/* @answer is valid during the call. Calls nothing that ends the desk. */
typedef void (*resolve_fn)(const struct resolve_answer *answer, void *arg);

/*
 * resolve_start -- look up @name: @fn is called once, later, unless the desk ends or resolve_cancel is called
 *
 * Returns: the call, which is gone when @fn returns; NULL with errno: ENOMEM, EAGAIN no thread.
 * Threads: the desk's, as for resolve_cancel.
 */
struct resolve_call *resolve_start(struct errand_desk *desk, const char *name, resolve_fn fn,
    void *arg);
/* resolve_cancel -- @call's function is not called; the look-up, if it hangs, is waited for by nobody. */
void resolve_cancel(struct resolve_call *call);
/* resolve_wait -- blocks: for a start. After @timeout_ns the answer is EAI_AGAIN. Threads: any. */
void resolve_wait(const char *name, uint64_t timeout_ns, struct resolve_answer *ret_answer);
/* resolve_text -- why there are no addresses: the resolver's own words. Static, or as long as strerror's. */
const char *resolve_text(const struct resolve_answer *answer);

#ifdef CLEAVE_TEST_BUILD
/* resolve_replace -- @lookup instead of getaddrinfo, on its threads, which it may block; NULL: getaddrinfo. */
void resolve_replace(void (*lookup)(const char *name, struct resolve_answer *ret_answer));
#endif

#endif /* CLEAVE_BASE_RESOLVE_H */
