/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_call.h -- one request to an etcd of several members, answered by whichever of them can
 *
 * A call is tried at one member after the other until it has its answer or its time is over. A call that may
 * happen once only is never sent again after a part of it may have reached a member: it ends "perhaps".
 */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_CALL_H
#define CLEAVE_MIDDLETIER_META_ETCD_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "meta/etcd_http.h"
#include "meta/etcd_json.h"

struct etcd_call;
struct etcd_client;

#define ETCD_CALLS_MAX 4096u

/*
 * rc: 0 with an answer; -ETIMEDOUT perhaps; -ERANGE the revision that was asked for is compacted;
 * -ENOSPC the store is full; -EACCES who we are, or may do, was refused; -EIO any other error of etcd.
 * Other than -ETIMEDOUT means: nothing happened. A handler may take *@answer by copying it and emptying this.
 */
typedef void (*etcd_call_fn)(int rc, struct etcd_answer *answer, void *arg);

struct etcd_call_options {
	enum etcd_line line;
	const char *path;       /* static */
	struct etcd_text *body; /* taken, also when that fails */
	bool may_repeat;        /* it does the same when it happens twice */
	bool is_linear;         /* its answer tells a revision that all members agree on */
	bool is_change;         /* a transaction that makes a revision of its own, if it succeeds */
	uint64_t budget_ns;
	etcd_call_fn fn;
	void *arg;
};

/* etcd_call_start -- begin one. NULL: out of memory, or ETCD_CALLS_MAX are out; @fn is not called. */
struct etcd_call *etcd_call_start(struct etcd_client *client,
    const struct etcd_call_options *options);
/* etcd_call_cancel -- nobody is called. NULL is a no-op. */
void etcd_call_cancel(struct etcd_call *call);
/* etcd_call_cancel_all -- of @client */
void etcd_call_cancel_all(struct etcd_client *client);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_CALL_H */
