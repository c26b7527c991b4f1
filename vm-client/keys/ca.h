/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ca.h -- a cluster's authority: a folder with its private key, its certificate, and all that it has issued
 *
 *	DIR/ca.key        0600; whoever has it is everybody
 *	DIR/ca.pem        its certificate, which every key file has
 *	DIR/issued.json   all certificates (issued.h)
 *	DIR/revoked.pem   an X.509 list of those that were revoked, signed: for daemons
 *
 * An open authority holds a lock on the folder: there is one at a time. Each file is whole whatever ends the process
 * (durable.h). One thread. @why: CA_WHY_BYTES of text for people, where a call fails.
 */
#ifndef CLEAVE_KEYS_CA_H
#define CLEAVE_KEYS_CA_H

#include <stdbool.h>
#include <stdint.h>

#include "issued.h"

#define CA_WHY_BYTES 512u
#define CA_KEY_NAME "ca.key"
#define CA_CERTIFICATE_NAME "ca.pem"
#define CA_ISSUED_NAME "issued.json"
#define CA_REVOKED_NAME "revoked.pem"

/*
 * A year, and a month in which who renews each year may be late. Nobody is told to renew before 30 days are left.
 */
#define CA_DAYS_DEFAULT 397u
#define CA_OWN_DAYS_DEFAULT 3650u /* to change it, every key file is made anew */
#define CA_DAYS_MAX 7300u
#define CA_DAYS_LEFT_WARN 30u
/* A certificate is valid from so long before it is made: clocks of a new cluster's hosts differ. */
#define CA_EARLY_S 3600u
#define CA_DAY_S 86400u

struct ca;

/*
 * ca_init -- make a new authority of @cluster_id, valid for @days, in the folder @path, which is made, or is empty
 *
 * Returns 0; -EEXIST: there is something in it, and nothing was changed; -EINVAL, -ENOMEM, -EIO, or what a system
 * call said. Killed, it leaves @path as it was.
 */
int ca_init(const char *path, uint64_t cluster_id, uint64_t days, uint64_t now_s, char *why);
/*
 * ca_open -- NULL with errno: EBUSY another process has it; EACCES others than its owner may read its key, or write in
 * its folder; EINVAL its files do not belong together; ENOENT there is none
 */
struct ca *ca_open(const char *path, char *why);
/* ca_close -- NULL is a no-op. */
void ca_close(struct ca *ca);
const struct issued *ca_issued(const struct ca *ca);

struct ca_wish {
	const char *subject;      /* "gateway/1"; ca_renew: that of the file */
	const char *out;          /* the key file */
	const char *const *hosts; /* for its certificate (secure/hosts.h) */
	uint32_t host_count;      /* 0: none; ca_renew: those of the file */
	uint64_t days;            /* 0: CA_DAYS_DEFAULT, or as long as the authority has */
	bool replaces;            /* @out may be there, and goes; ca_renew's does */
};
/*
 * ca_issue -- a new key and its certificate, as a key file (cleave/secure.h) of mode 0600; first into the list
 *
 * Returns 0 and what is in the list; -EEXIST @out is there; -EINVAL no subject, no host, or longer than the authority is valid;
 * -EKEYEXPIRED the authority is not valid any more; others. Nothing is listed where @out's folder takes no file; where
 * the file fails later, a full disk's say, @why names the serial.
 */
int ca_issue(struct ca *ca, const struct ca_wish *wish, uint64_t now_s,
    struct issued_entry *ret_entry, char *why);
/*
 * ca_renew -- the subject of key file @wish->out once more: a new key and serial, in the place of the old one
 *
 * Returns as ca_issue, and the @ret_old; -ENOENT: this authority has not issued it, or not signed what is in it;
 * -EKEYREVOKED: it is revoked; -ENOKEY: the private key of its certificate is not in it; -ENOTUNIQ: another authority's
 * certificate is in it, too, which the new file would lack. Then nothing was changed. The old certificate stays valid:
 * connections stand.
 */
int ca_renew(struct ca *ca, const struct ca_wish *wish, uint64_t now_s,
    struct issued_entry *ret_entry, struct issued_entry *ret_old, char *why);
/*
 * ca_revoke -- @what: a serial; or a subject: all of its certificates that have not expired
 *
 * Into the list, then into DIR/revoked.pem, which is written anew also where all were revoked before, with the number that
 * it had. Returns 0 and how many were revoked now; -ENOENT: there is none.
 */
int ca_revoke(struct ca *ca, const char *what, uint64_t now_s, uint32_t *ret_count, char *why);
/*
 * ca_adopt -- keys on the lists in @text that this authority has signed are revoked here, too
 *
 * For a folder that was put back from a copy: @text is what the cluster has. A key of which the folder knows nothing gets an
 * entry of subject ISSUED_SUBJECT_UNKNOWN. The next list has a higher number than any in @text. Returns 0 and how many are
 * revoked by this; -EKEYREJECTED: it has signed none in @text; -EINVAL: that is no list; -ENOSPC, -ENOMEM, -EIO.
 */
int ca_adopt(struct ca *ca, const char *text, size_t bytes, uint64_t now_s, uint32_t *ret_count,
    char *why);

#endif /* CLEAVE_KEYS_CA_H */
