/* SPDX-License-Identifier: Apache-2.0 */
/*
 * status.h -- the errors that travel: one list, converted in one function each way
 *
 * Inside a process errors are negative errnos. On the wire and in sessions' replies they are one of
 * these values, which are for ever: never reuse or renumber one.
 */
#ifndef CLEAVE_STATUS_H
#define CLEAVE_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(symbol, wire value, errno, text) */
#define CLEAVE_STATUS_LIST(X)                                                                      \
	X(OK, 0, 0, "ok")                                                                          \
	X(INVALID, 1, EINVAL, "a field is out of range")                                           \
	X(PROTOCOL, 2, EPROTO, "the message breaks the protocol")                                  \
	X(VERSION, 3, EPROTONOSUPPORT, "the peer speaks another version")                          \
	X(CLUSTER, 4, EXDEV, "the peer belongs to another cluster")                                \
	X(NOT_FOUND, 5, ENOENT, "no such object")                                                  \
	X(EXISTS, 6, EEXIST, "the object exists already")                                          \
	X(NO_SPACE, 7, ENOSPC, "no space left")                                                    \
	X(IO, 8, EIO, "the disk failed")                                                           \
	X(CHECKSUM, 9, EBADMSG, "a checksum does not match")                                       \
	X(READ_ONLY, 10, EROFS, "the disk no longer accepts writes")                               \
	X(STALE_EPOCH, 11, ESTALE, "an older epoch than the fence allows")                         \
	X(NOT_AT_END, 12, ESPIPE, "the append is not at the extent's end")                         \
	X(SEALED, 13, EPERM, "the extent is sealed")                                               \
	X(FROZEN, 14, EACCES, "the extent is frozen")                                              \
	X(BEYOND_END, 15, ERANGE, "beyond the end")                                                \
	X(NOT_OWNER, 16, EREMCHG, "another gateway owns the shard")                                \
	X(STALE_SESSION, 17, ESHUTDOWN, "a newer session has attached the volume")                 \
	X(BUSY, 18, EBUSY, "busy, try again")                                                      \
	X(UNAVAILABLE, 19, EHOSTDOWN, "too few storage nodes answer")                              \
	X(NO_MEMORY, 20, ENOMEM, "out of memory")                                                  \
	X(UNSUPPORTED, 21, ENOTSUP, "not supported")                                               \
	X(TOO_LARGE, 22, EMSGSIZE, "larger than allowed")                                          \
	X(DAMAGED, 23, EUCLEAN, "the stored copy is damaged")                                      \
	X(TIMED_OUT, 24, ETIMEDOUT, "no answer in time")                                           \
	X(CANCELED, 25, ECANCELED, "given up")                                                     \
	X(NOT_EMPTY, 26, ENOTEMPTY, "still in use")                                                \
	X(CONFLICT, 27, EAGAIN, "another change came first")                                       \
	X(KEY, 28, EKEYREVOKED, "the key is revoked, or never allowed this")                       \
	X(HELD, 29, EUSERS, "another client has the volume open for writing")                      \
	X(EPOCH_JUMP, 30, EOVERFLOW, "an epoch far above the fence")                               \
	X(STORE, 31, ENOTUNIQ, "the node obeys another metadata store")                            \
	X(AUTH, 32, EKEYREJECTED, "the key is missing, or not believed")                           \
	X(RIGHT, 33, ENOKEY, "the key gives no right to do that")                                  \
	X(DATA_KEY, 34, ENOMEDIUM, "the gateway has not got the volume's data key")

enum cleave_status {
#define CLEAVE_STATUS_ENUM(symbol, value, err, text) CLEAVE_STATUS_##symbol = (value),
	CLEAVE_STATUS_LIST(CLEAVE_STATUS_ENUM)
#undef CLEAVE_STATUS_ENUM
	    CLEAVE_STATUS_NR
};

/*
 * status_from_errno -- the status with which @rc, 0 or a negative errno, travels
 *
 * Ownership: takes nothing.
 * Returns:   enum cleave_status; IO for an errno that has none.
 * Errors:    none.
 * Threads:   any.
 */
uint16_t status_from_errno(int rc);

/*
 * status_to_errno -- what a status that has come means here
 *
 * Ownership: takes nothing.
 * Returns:   0 or a negative errno.
 * Errors:    -EPROTO for an unknown status.
 * Threads:   any.
 */
int status_to_errno(uint16_t status);

/*
 * status_text -- a text for people
 *
 * Ownership: the text is static.
 * Returns:   the status's text, "unknown status" for what is not in the list.
 * Errors:    none.
 * Threads:   any.
 */
const char *status_text(uint16_t status);

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_STATUS_H */
