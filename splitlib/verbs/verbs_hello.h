/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_hello.h -- hellos and their answers, as private data of the connection manager */
#ifndef CLEAVE_SPLIT_VERBS_HELLO_H
#define CLEAVE_SPLIT_VERBS_HELLO_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "cleave/wire.h"

struct split_qp;

#define VERBS_REPLY_BYTES 72u
struct verbs_reply {
	uint8_t version, hello_bytes;
	uint16_t status, credits;
	bool is_keyed; /* no hello is in it: the peer waits for a handshake */
	uint32_t control_number;
	uint8_t hello[WIRE_HELLO_BYTES];
};

/* verbs_hello_pack -- the hello of @qp and its control lane's @number. -EINVAL: the owner's hello has no room for it. */
int verbs_hello_pack(const struct split_qp *qp, uint32_t number, uint8_t out[WIRE_HELLO_BYTES]);
/* verbs_hello_unpack -- a peer's, into @qp. Returns the control lane's number; 0: it is no hello of ours. */
uint32_t verbs_hello_unpack(struct split_qp *qp, const uint8_t *in);
/* verbs_hello_pack_keyed -- instead of a hello: who has the control lane @number wants to shake hands. */
void verbs_hello_pack_keyed(uint32_t number, uint8_t out[WIRE_HELLO_BYTES]);
/* verbs_hello_unpack_keyed -- a peer's. Returns the number; 0: it is none. */
uint32_t verbs_hello_unpack_keyed(const uint8_t *in);
/* verbs_reply_pack_keyed -- the answer to it: the handshake may begin. */
void verbs_reply_pack_keyed(uint32_t number, uint8_t out[VERBS_REPLY_BYTES]);
/* verbs_reply_pack -- the answer of @qp's owner; @number: our control lane's, 0 with a refusal. */
void verbs_reply_pack(const struct split_qp *qp, uint32_t number, uint8_t out[VERBS_REPLY_BYTES]);
/* verbs_reply_unpack -- a peer's answer. 0; -EPROTO it is none; -EPROTONOSUPPORT it has another version. */
int verbs_reply_unpack(const struct rdma_conn_param *param, struct verbs_reply *ret_reply);

#endif /* CLEAVE_SPLIT_VERBS_HELLO_H */
