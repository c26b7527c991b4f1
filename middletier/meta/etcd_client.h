/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd_client.h -- what a process knows of an etcd: its members, whose it is, its revision, where our keys are
 *
 * Generations: an answer that was made after all members agreed never tells a revision below what was known when
 * its request was sent, nor a lease of ours as it was before our last renewal, unless the store was set back to
 * a backup. Then a new generation begins: what is
 * remembered of keys is void, calls that are out end "perhaps", and on_generation is told.
 */
#ifndef CLEAVE_MIDDLETIER_META_ETCD_CLIENT_H
#define CLEAVE_MIDDLETIER_META_ETCD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cleave/loop.h"
#include "meta/etcd_http.h"
#include "meta/etcd_json.h"
#include "meta/etcd_latency.h"

#define ETCD_CLIENT_MAGIC 0x4c434445u /* "EDCL" */
#define ETCD_PREFIX_BYTES_MAX 192u
#define ETCD_TROUBLE_BYTES 256u
#define ETCD_ENDPOINT_BYTES 128u
#define ETCD_GENERATIONS_MAX 65536u /* then they begin anew: nobody remembers the first one */

/* Under the prefix: what a key is. */
#define ETCD_KEYS "k/"    /* a key of the seam */
#define ETCD_LEASES "l/"  /* a lease, by its id in hex */
#define ETCD_CLAIMS "id/" /* the one process that is this gateway */
#define ETCD_COMPACTION "compaction"

struct etcd_client;

/* Zero means the default in brackets. */
struct etcd_client_options {
	struct loop *loop;
	struct etcd_http *http;
	const char *prefix;           /* of all keys: ends with '/' */
	const char *const *endpoints; /* their names, for people */
	uint32_t endpoint_count;
	const char *user, *password; /* NULL: nobody in particular */
	const char
	    *password_file; /* read anew where the password is refused; NULL: there is none */
	uint64_t try_ns;    /* how long one member may take [1 s] */
	void (*on_generation)(void *arg);
	/* A call of ours changed something, at @revision. Ends no call, and closes nothing. */
	void (*on_change)(uint64_t revision, void *arg);
	void *arg;
};

struct etcd_endpoint {
	char name[ETCD_ENDPOINT_BYTES];
	bool is_no_etcd; /* its last answer was a refusal of TLS, or nothing that an etcd says */
	uint64_t proven_until_ns; /* it is of our cluster, as far as its last answer proves */
};

struct etcd_client {
	uint32_t magic; /* ETCD_CLIENT_MAGIC */
	struct loop *loop;
	struct etcd_http *http;
	char prefix[ETCD_PREFIX_BYTES_MAX];
	struct etcd_endpoint endpoints[ETCD_ENDPOINTS_MAX];
	uint32_t endpoint_count;
	uint32_t current[ETCD_LINE_NR]; /* the member that each line asks next */
	char *user, *password, *password_file, *token;
	uint32_t password_number; /* counts them */
	bool is_user_needless;    /* a member has said that nobody has to name himself */
	uint64_t try_ns;
	uint64_t cluster_id; /* 0: nobody has answered yet */
	uint64_t revision;   /* the newest that any answer told */
	uint32_t generation;
	void (*on_generation)(void *arg);
	void (*on_change)(uint64_t revision, void *arg);
	void *arg;
	struct loop_task generation_task;
	struct loop_link calls; /* struct etcd_call: under way */
	uint32_t call_count;
	uint64_t failed_ns; /* when the first try since the last answer failed; 0: none did */
	uint64_t told_ns;   /* when people were told of it last */
	struct etcd_latency latency;      /* of calls about leases */
	char trouble[ETCD_TROUBLE_BYTES]; /* why the last try failed; "": it did not */
	bool is_refused;                  /* the trouble will not go away by trying */
};

/* etcd_client_init -- 0, -ENOMEM, -EINVAL the prefix or the number of endpoints. Options are copied. */
int etcd_client_init(struct etcd_client *client, const struct etcd_client_options *options);
/* etcd_client_fini -- after the last call (etcd_call.h). */
void etcd_client_fini(struct etcd_client *client);

/* etcd_client_key -- the whole key of @name among those of @kind (ETCD_KEYS...). */
void etcd_client_key(const struct etcd_client *client, char out[ETCD_KEY_BYTES_MAX],
    const char *kind, const char *name);
/* etcd_client_name -- behind @kind in the whole @key; NULL: it is of another kind, or not ours. */
const char *etcd_client_name(const struct etcd_client *client, const char *key, const char *kind);
/*
 * etcd_client_hear -- a stream of @endpoint says whose it is, and a revision
 *
 * Returns false: it is of another cluster, and has been told of.
 */
bool etcd_client_hear(struct etcd_client *client, uint32_t endpoint, uint64_t cluster_id,
    uint64_t revision);
/* etcd_client_skip -- @line asks the next member from now on, unless it has left @endpoint already. */
void etcd_client_skip(struct etcd_client *client, enum etcd_line line, uint32_t endpoint);
/* etcd_client_trouble -- note why a try at @endpoint failed. */
void etcd_client_trouble(struct etcd_client *client, uint32_t endpoint, const char *text);
/* etcd_client_refuse -- note trouble that no other member cures, and tell of it */
void etcd_client_refuse(struct etcd_client *client, uint32_t endpoint, const char *text);
/* etcd_client_is_ours -- is an answer of @endpoint, from cluster @cluster_id, of our etcd? If not, that is told. */
bool etcd_client_is_ours(struct etcd_client *client, uint32_t endpoint, uint64_t cluster_id);
/* etcd_client_suspect -- @endpoint has refused our certificate, or says nothing that an etcd says; refused if all do */
void etcd_client_suspect(struct etcd_client *client, uint32_t endpoint, const char *text);
/* etcd_client_be_good -- @endpoint has answered what it was asked */
void etcd_client_be_good(struct etcd_client *client, uint32_t endpoint);
/* etcd_client_is_proven -- @endpoint is of our etcd: it has said so, and no connection has failed since */
bool etcd_client_is_proven(const struct etcd_client *client, uint32_t endpoint);
/* etcd_client_prove -- it has said so now; @is_ours false: it must say so again before it is asked anything */
void etcd_client_prove(struct etcd_client *client, uint32_t endpoint, bool is_ours);
/* etcd_client_silent_ns -- for how long no try has succeeded; 0: the last one did */
uint64_t etcd_client_silent_ns(const struct etcd_client *client);
/* etcd_client_tell_silence -- a try has failed: say so, if none has succeeded for a while */
void etcd_client_tell_silence(struct etcd_client *client);
/*
 * etcd_client_set_back -- @revision was told of what @known_revision had been told of: a new generation
 *
 * @newest_revision: that its store has now.
 */
void etcd_client_set_back(struct etcd_client *client, uint64_t revision, uint64_t known_revision,
    uint64_t newest_revision);
/* etcd_client_endpoint_name -- for people */
const char *etcd_client_endpoint_name(const struct etcd_client *client, uint32_t endpoint);
/* etcd_client_forget_token -- a new one is asked for before the next request. */
void etcd_client_forget_token(struct etcd_client *client);
/*
 * etcd_client_password_again -- password @number was refused: is there another one by now?
 *
 * Reads the file anew, unless that was done since. Returns true: the client has another password. False and @ret_why,
 * ETCD_TROUBLE_BYTES of text for people, which names the file; "": there is no file.
 */
bool etcd_client_password_again(struct etcd_client *client, uint32_t number, char *ret_why);
/* etcd_client_version -- the seam's version of a key that was put at @mod_revision */
uint64_t etcd_client_version(const struct etcd_client *client, uint64_t mod_revision);
/* etcd_client_revision -- of a seam's version; false: it is of another generation, so it holds no more. */
bool etcd_client_revision(const struct etcd_client *client, uint64_t version,
    uint64_t *ret_revision);

#endif /* CLEAVE_MIDDLETIER_META_ETCD_CLIENT_H */
