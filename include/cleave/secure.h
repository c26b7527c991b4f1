/* SPDX-License-Identifier: Apache-2.0 */
/*
 * secure.h -- who a process is, and how its connections are protected
 *
 * A *key file* says who a process is: one PEM file with its certificate, its private key and the certificates of its
 * cluster's authorities, in any order, the process's own certificate before those of authorities. The certificate names
 * its *subject* in a SAN URI:
 *
 *	cleave://<cluster id, 16 hex digits>/<role>/<name>      cleave://00c0ffee00c0ffee/node/3
 *
 * A port that has a key (split_port_options.key) speaks only with peers whose certificate an authority of that file
 * has signed, of the same cluster, in its time. split.h has the rest.
 */
#ifndef CLEAVE_SECURE_H
#define CLEAVE_SECURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SPLIT_NAME_BYTES_MAX 64u       /* of a subject, its end included */
#define SPLIT_KEY_WHY_BYTES_MAX 256u   /* why a key file was refused, its end included */
#define SPLIT_REVOKED_BYTES_MAX 49152u /* of all lists of revoked keys together: some 900 keys */

/* How connections are protected. Of two ends the stricter one counts. */
enum split_security {
	SPLIT_SECURITY_DEFAULT, /* SEAL with a key, OPEN without */
	SPLIT_SECURITY_OPEN, /* not at all: who connects says no word of a key; who is connected to takes both kinds */
	SPLIT_SECURITY_SIGN, /* payloads are authenticated and can be read, all else is sealed */
	SPLIT_SECURITY_SEAL, /* all is encrypted and authenticated */
};

/* Bits, so that a connector can say whom it looks for. */
enum split_role {
	SPLIT_ROLE_GATEWAY = 1u << 0,
	SPLIT_ROLE_NODE = 1u << 1,
	SPLIT_ROLE_CLIENT = 1u << 2,
	SPLIT_ROLE_ADMIN = 1u << 3,
	SPLIT_ROLE_MONITOR = 1u << 4,
};

/* Whom a certificate is for. */
struct split_subject {
	uint64_t cluster_id;
	enum split_role role;
	char name
	    [SPLIT_NAME_BYTES_MAX]; /* letters, digits, and . _ - ; a gateway's and a node's is its number */
};

struct split_key;
struct split_port;
struct split_qp;

/*
 * split_key_load -- read a key file
 *
 * Ownership: the caller's until split_key_free; ports only borrow it. @why gets SPLIT_KEY_WHY_BYTES_MAX bytes of text
 *            for people: what is wrong, with which file, and what helps.
 * Returns:   the key, or NULL with errno and @why.
 * Errors:    what opening said; EACCES others than its owner and group may read it, or others than its owner write;
 *            EINVAL no key file of a cluster: a part is missing, or the parts do not belong together; EFBIG; ENOMEM.
 * Limits:    64 KiB; 8 authorities. Times are judged when a peer is met, not here.
 * Threads:   any.
 */
struct split_key *split_key_load(const char *path, char *why);

/*
 * split_key_share -- one more owner of @key: it is there until each of them has called split_key_free
 *
 * Ownership: borrows @key during the call.
 * Returns:   @key, the new owner's to free.
 * Errors:    none.
 * Threads:   any.
 */
struct split_key *split_key_share(const struct split_key *key);

/*
 * split_key_free -- an owner is done with it: the last one forgets it, the private key overwritten; NULL is a no-op
 *
 * Ownership: the caller's share ends. Ports have shares of their own.
 * Threads:   any.
 */
void split_key_free(struct split_key *key);

/*
 * split_key_revoke -- @key, which refuses those as well whom the lists in @text name
 *
 * A list is a CRL in PEM, as `cleave key revoke` writes it; @text has one or more. It is believed where an authority of
 * @key's file has signed it, and taken where its number is above that of the same authority's that @key has, or where it
 * names somebody who is on none of those. Whoever was on a list of @key's stays revoked (split_key_revoked_gaps).
 *
 * Ownership: borrows @key and @text during the call; the new key is the caller's until split_key_free. @why gets
 *            SPLIT_KEY_WHY_BYTES_MAX bytes: "" where all lists of @text were taken or known, else which one was not.
 * Returns:   a key of the same file with those lists and @key's others; NULL with errno and @why: none was taken.
 * Errors:    EKEYREJECTED of another authority; ESTALE older than what is known; EALREADY all are known; EINVAL no list;
 *            EFBIG all together are longer than SPLIT_REVOKED_BYTES_MAX; ENOMEM.
 * Threads:   any.
 */
struct split_key *split_key_revoke(const struct split_key *key, const char *text, size_t bytes,
    char *why);

#define SPLIT_REVOKED_NAMED_MAX 3u           /* serials that are told by name */
#define SPLIT_REVOKED_SERIALS_BYTES_MAX 136u /* of them, ", " in between, its end included */

/* Keys that were revoked, and that newer lists lack: as when the authority's folder was put back from a copy. */
struct split_revoked_gaps {
	uint64_t
	    older_number; /* a list was taken that names others, and is not the newest; 0: none was */
	uint64_t newest_number; /* of the list that is newer than that one */
	uint32_t lacked_count;  /* on none of the lists that were taken last; they stay revoked */
	uint32_t
	    lost_count; /* those among them that found no room beside these: they are revoked no more */
	char serials
	    [SPLIT_REVOKED_SERIALS_BYTES_MAX]; /* of the first of those that are lacked, in hex; "": none is */
};

/*
 * split_key_revoked_gaps -- what the lists lacked that split_key_revoke made @key with
 *
 * Ownership: borrows @key during the call; *@ret_gaps is a copy.
 * Returns:   nothing; zeros where they lacked nothing, or @key has none.
 * Errors:    none.
 * Threads:   any.
 */
void split_key_revoked_gaps(const struct split_key *key, struct split_revoked_gaps *ret_gaps);

/*
 * split_key_revoked -- the lists that @key has, as split_key_revoke takes them
 *
 * Ownership: the key's.
 * Returns:   text that ends with a zero, *@ret_bytes long without that; "" where there are none.
 * Errors:    none.
 * Threads:   any.
 */
const char *split_key_revoked(const struct split_key *key, size_t *ret_bytes);

/*
 * split_key_is_revoked -- is @key itself on one of its lists?
 *
 * Ownership: borrows @key during the call.
 * Returns:   true: peers that have the list refuse it.
 * Errors:    none.
 * Threads:   any.
 */
bool split_key_is_revoked(const struct split_key *key);

/*
 * split_key_subject -- whom it is for
 *
 * Ownership: the key's.
 * Returns:   the subject.
 * Errors:    none.
 * Threads:   any.
 */
const struct split_subject *split_key_subject(const struct split_key *key);

/* A subject that somebody wants to see. */
struct split_wanted {
	unsigned roles;      /* bits of enum split_role */
	uint64_t number;     /* of a gateway or a node; 0: any */
	uint64_t cluster_id; /* 0: any */
};

/*
 * split_subject_check -- is @subject what is wanted?
 *
 * Ownership: all are borrowed during the call. @why gets SPLIT_KEY_WHY_BYTES_MAX bytes of text for people: whose it is,
 *            and whose is wanted.
 * Returns:   0, and @why is "".
 * Errors:    -EKEYREJECTED and @why.
 * Threads:   any.
 */
int split_subject_check(const struct split_subject *subject, const struct split_wanted *wanted,
    char *why);

/*
 * split_subject_number -- the number of a gateway or a node
 *
 * Ownership: borrows @subject during the call.
 * Returns:   the number; 0 of any other role.
 * Errors:    none.
 * Threads:   any.
 */
uint64_t split_subject_number(const struct split_subject *subject);

/*
 * split_key_expires_s -- when its certificate, or that of its authority, expires: the earlier of the two
 *
 * Ownership: borrows @key during the call.
 * Returns:   seconds since 1970.
 * Errors:    none.
 * Threads:   any.
 */
uint64_t split_key_expires_s(const struct split_key *key);

/*
 * split_security_parse -- "seal", "sign" or "open"
 *
 * Ownership: takes nothing.
 * Returns:   0 and *@ret_security.
 * Errors:    -EINVAL another word; *@ret_security is untouched.
 * Threads:   any.
 */
int split_security_parse(const char *text, enum split_security *ret_security);

#define SPLIT_SUBJECT_TEXT_BYTES_MAX                                                               \
	(SPLIT_NAME_BYTES_MAX + 8u) /* "monitor/" and a name, its end included */

/*
 * split_subject_text -- "client/db1", for people and logs
 *
 * Ownership: borrows @subject during the call.
 * Returns:   @out, which gets at most SPLIT_SUBJECT_TEXT_BYTES_MAX bytes.
 * Errors:    none: the subject's role is one of enum split_role.
 * Threads:   any.
 */
const char *split_subject_text(const struct split_subject *subject, char *out);

/*
 * split_qp_subject -- whom the peer's certificate is for, once it is believed: from on_accept or on_ready on
 *
 * Ownership: the queue pair's, until on_closed returns.
 * Returns:   the subject; NULL: the connection is open, and its peer anybody.
 * Errors:    none.
 * Threads:   the port's loop's.
 */
const struct split_subject *split_qp_subject(const struct split_qp *qp);

/*
 * split_qp_security -- how the connection is protected
 *
 * Ownership: borrows @qp during the call.
 * Returns:   OPEN, SIGN or SEAL.
 * Errors:    none.
 * Threads:   the port's loop's.
 */
enum split_security split_qp_security(const struct split_qp *qp);

/* A connection ends, or would, for @why, which names its peer. Calls nothing of the library but split_qp_peer and its like. */
typedef void (*split_unbelieved_fn)(const struct split_qp *qp, const char *why, void *arg);

/*
 * split_port_rekey -- from now on @key says who this process is, and whom it believes
 *
 * It has a key already. New connections show @key; a handshake that is under way shows the one of before. What stands
 * goes on, but for connections whose peer @key does not believe any more: it is on one of the key's lists of revoked
 * ones, or the authority that signed it is not in the file. They end with -EKEYREJECTED.
 * Ownership: the port takes a share of @key, and gives up that of the one before. @fn, optional, is called within the
 *            call, for each connection that ends; their handlers hear of it later, as of any other end.
 * Returns:   how many have ended.
 * Errors:    none.
 * Threads:   the port's loop's; not from within its handlers' @fn.
 */
uint32_t split_port_rekey(struct split_port *port, const struct split_key *key,
    split_unbelieved_fn fn, void *arg);

/*
 * split_port_doubts -- which connections split_port_rekey would end, were it called with @key now
 *
 * Ownership: borrows @key during the call; @fn is called within it, once a connection.
 * Returns:   how many they are. Nothing has changed.
 * Errors:    none.
 * Threads:   as split_port_rekey.
 */
uint32_t split_port_doubts(const struct split_port *port, const struct split_key *key,
    split_unbelieved_fn fn, void *arg);

/*
 * split_port_key -- the key that @port has now
 *
 * Ownership: the port's, until split_port_rekey.
 * Returns:   NULL: its connections are open.
 * Errors:    none.
 * Threads:   the loop's.
 */
const struct split_key *split_port_key(const struct split_port *port);

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_SECURE_H */
