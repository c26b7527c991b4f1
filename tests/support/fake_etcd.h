/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_etcd.h -- an etcd in memory and virtual time, behind the inner seam of meta_etcd (etcd_http.h)
 *
 * A *service* stands for all members: one order of revisions, which all of them agree on. A *way* is one
 * process's connections to them. What a member is told is read from its JSON, and its answers are JSON, as
 * etcd 3.4's gateway writes it (test_etcd_real.c asks a real one the same).
 *
 * It misbehaves by the chance of its loop, as often as fake_etcd_set_faults says: and on demand.
 */
#ifndef CLEAVE_TESTS_FAKE_ETCD_H
#define CLEAVE_TESTS_FAKE_ETCD_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "middletier/meta/etcd_http.h"

#define FAKE_ETCD_MEMBERS_MAX 5u

struct fake_change;
struct fake_etcd;
struct fake_etcd_copy;

/* Faults in a thousand requests; those of streams, in a thousand changes that a stream tells. */
struct fake_etcd_faults {
	uint32_t refused;     /* nobody listens */
	uint32_t lost;        /* never arrives, and nobody says so */
	uint32_t unanswered;  /* takes effect, and nobody says so */
	uint32_t late;        /* takes effect long afterwards, when nobody waits any more */
	uint32_t unavailable; /* 503: no leader */
	uint32_t doubtful;    /* 503: the leader changed meanwhile; half of them take effect */
	uint32_t busy;        /* 429: too many requests */
	uint32_t empty;       /* takes effect; the connection ends without an answer */
	uint32_t tokens;      /* all tokens expire */
	uint32_t ended;       /* the stream ends */
	uint32_t silent;      /* the stream says nothing any more */
	uint32_t withheld;    /* the stream leaves a change out */
	uint32_t compacted;   /* all history is compacted, streams that are behind are canceled */
};

/* fake_etcd_create -- @loop: the service's (nature). NULL when out of memory. */
struct fake_etcd *fake_etcd_create(struct loop *loop, uint32_t member_count);
/* fake_etcd_destroy -- after every way was closed, and every process's loop is gone or idle. NULL is a no-op. */
void fake_etcd_destroy(struct fake_etcd *etcd);
/* fake_etcd_open -- a way whose handlers are called on @loop */
struct etcd_http *fake_etcd_open(struct fake_etcd *etcd, struct loop *loop);

void fake_etcd_set_faults(struct fake_etcd *etcd, const struct fake_etcd_faults *faults);
void fake_etcd_set_delay(struct fake_etcd *etcd, uint64_t min_ns, uint64_t max_ns);
/* fake_etcd_cut_off -- the process of @way and the members hear nothing of each other */
void fake_etcd_cut_off(struct etcd_http *way, bool is_cut_off);
/* fake_etcd_set_down -- the member refuses connections, and the ones that it has end */
void fake_etcd_set_down(struct fake_etcd *etcd, uint32_t member, bool is_down);
/* fake_etcd_set_hung -- the member accepts all and answers nothing */
void fake_etcd_set_hung(struct fake_etcd *etcd, uint32_t member, bool is_hung);
/* fake_etcd_set_stream_lag -- how much later than others the member's streams tell of a change */
void fake_etcd_set_stream_lag(struct fake_etcd *etcd, uint32_t member, uint64_t lag_ns);
/* fake_etcd_set_foreign -- at the member's address is one of another etcd, which has keys of its own */
void fake_etcd_set_foreign(struct fake_etcd *etcd, uint32_t member, bool is_foreign);
/* fake_etcd_set_no_etcd -- the member is a web server */
void fake_etcd_set_no_etcd(struct fake_etcd *etcd, uint32_t member, bool is_no_etcd);
void fake_etcd_set_full(struct fake_etcd *etcd, bool is_full);
/* fake_etcd_set_size -- of its database, and what it may have; @tells_quota: as version 3.6 does */
void fake_etcd_set_size(struct fake_etcd *etcd, uint64_t database_bytes, uint64_t quota_bytes,
    bool tells_quota);
/* fake_etcd_set_user -- who may ask; NULL: everybody */
void fake_etcd_set_user(struct fake_etcd *etcd, const char *user, const char *password);
void fake_etcd_expire_tokens(struct fake_etcd *etcd);
void fake_etcd_compact(struct fake_etcd *etcd);
/* fake_etcd_end_streams -- all of them */
void fake_etcd_end_streams(struct fake_etcd *etcd);
/* fake_etcd_hold_streams -- all of them end, and none begins until it is told false: their members have no leader */
void fake_etcd_hold_streams(struct fake_etcd *etcd, bool is_on);
/* fake_etcd_silence_streams -- those that are open say nothing any more, and do not end */
void fake_etcd_silence_streams(struct fake_etcd *etcd);
/* fake_etcd_copy -- a backup of all keys. fake_etcd_restore: they are again what they were. */
struct fake_etcd_copy *fake_etcd_copy(const struct fake_etcd *etcd);
void fake_etcd_restore(struct fake_etcd *etcd, const struct fake_etcd_copy *copy);
void fake_etcd_copy_destroy(struct fake_etcd_copy *copy);

uint64_t fake_etcd_revision(const struct fake_etcd *etcd);
uint64_t fake_etcd_compacted(const struct fake_etcd *etcd);
/* fake_etcd_request_count -- that took effect so far, at @member */
uint64_t fake_etcd_request_count(const struct fake_etcd *etcd, uint32_t member);
uint32_t fake_etcd_stream_count(const struct fake_etcd *etcd);
/* fake_etcd_find -- the newest put of the whole @key, as text; NULL: there is none */
const struct fake_change *fake_etcd_find(const struct fake_etcd *etcd, const char *key);
/* fake_etcd_each -- all keys that begin so, in order */
void fake_etcd_each(const struct fake_etcd *etcd, const char *prefix,
    void (*fn)(const char *key, const struct fake_change *change, void *arg), void *arg);
/* fake_etcd_copy_each -- the same of a backup, in any order */
void fake_etcd_copy_each(const struct fake_etcd_copy *copy, const char *prefix,
    void (*fn)(const char *key, const struct fake_change *change, void *arg), void *arg);
/* fake_etcd_held_bytes -- memory of the members: the allocator's count of it is no process's */
uint64_t fake_etcd_held_bytes(const struct fake_etcd *etcd);

/* ---- what fake_etcd.c, the service, shows fake_etcd_http.c, the way to it ---- */

struct fake_change {
	uint64_t revision, version;
	uint64_t next_revision; /* of the key's next change; 0: this is the newest */
	uint64_t at_ns;         /* of the service's clock */
	char *key;              /* base64: as it travels */
	char *value;            /* base64; NULL: deleted */
};

struct fake_key {
	uint8_t *raw; /* as etcd orders them */
	size_t bytes;
	uint32_t last; /* its newest change, a deletion too: index in changes */
};

struct fake_member {
	bool is_down, is_hung, is_foreign, is_no_etcd;
	bool is_leaderless; /* it says so in its status; a test sets it */
	uint64_t stream_lag_ns;
	uint64_t request_count;
};

struct fake_etcd {
	struct loop *loop;
	uint32_t member_count;
	struct fake_member members[FAKE_ETCD_MEMBERS_MAX];
	struct fake_etcd_faults faults;
	uint64_t delay_min_ns, delay_max_ns;
	uint64_t revision, compacted;
	struct fake_change
	    *changes; /* since the last compaction, and what keys were then; oldest first */
	uint32_t change_count, change_capacity;
	struct fake_key *keys; /* sorted */
	uint32_t key_count, key_capacity;
	char *user, *password;
	uint32_t token; /* the number of the present one */
	bool is_full, are_streams_held;
	uint64_t database_bytes, quota_bytes;
	bool tells_quota;          /* in the status */
	struct fake_etcd *foreign; /* the other etcd; NULL: nobody has asked it yet */
	struct loop_link calls;    /* fake_etcd_http.c */
};

/* fake_etcd_answer -- a request takes effect at @member. *@ret_text: to be freed. Returns HTTP's status. */
uint32_t fake_etcd_answer(struct fake_etcd *etcd, uint32_t member, const char *path,
    const char *token, const char *body, char **ret_text);
/* fake_etcd_header -- of an answer of @member */
json_t *fake_etcd_header(const struct fake_etcd *etcd, uint32_t member);
/* fake_etcd_error -- as a request is told of one. Returns @status. */
uint32_t fake_etcd_error(uint32_t status, int code, const char *message, char **ret_text);
/* fake_etcd_in_range -- is @key (in base64) of the range that @request names? */
bool fake_etcd_in_range(const json_t *request, const char *key);
/* fake_etcd_check_token -- 0, or the status and text of the refusal */
uint32_t fake_etcd_check_token(struct fake_etcd *etcd, const char *token, char **ret_text);
/* fake_etcd_keys_forget -- the table of keys, for the end of it */
void fake_etcd_keys_forget(struct fake_etcd *etcd);
/* fake_etcd_calls_bytes -- memory of all that is on its way */
uint64_t fake_etcd_calls_bytes(const struct fake_etcd *etcd);
/* fake_etcd_notify -- called by the service: something changed, streams have to tell */
void fake_etcd_notify(struct fake_etcd *etcd);

#endif /* CLEAVE_TESTS_FAKE_ETCD_H */
