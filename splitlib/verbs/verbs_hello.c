/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_hello.c -- what connections say to each other in the connection manager's private data */
#include "verbs_hello.h"

#include <errno.h>
#include <string.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/status.h"
#include "core/qp.h"

/* Where a hello is zero, and what travels there instead. */
#define HELLO_AT_LENGTH 6u
#define HELLO_LENGTH_KEYED                                                                         \
	255u /* there is no hello: a handshake follows. To releases before a bad one */
#define HELLO_AT_NUMBER 12u

int
verbs_hello_pack(const struct split_qp *qp, uint32_t number, uint8_t out[WIRE_HELLO_BYTES])
{
	static const uint8_t zero[4];
	const struct qp_control *hello = &qp->hello;

	assert(hello->hello_bytes <= WIRE_HELLO_BYTES);
	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	memset(out, 0, WIRE_HELLO_BYTES);
	memcpy(out, hello->hello, hello->hello_bytes);
	if (memcmp(out + HELLO_AT_LENGTH, zero, 2) != 0 ||
	    memcmp(out + HELLO_AT_NUMBER, zero, 4) != 0)
		return -EINVAL;
	out[HELLO_AT_LENGTH] = (uint8_t)hello->hello_bytes;
	num_put_le32(out + HELLO_AT_NUMBER, number);
	return 0;
}

void
verbs_hello_pack_keyed(uint32_t number, uint8_t out[WIRE_HELLO_BYTES])
{
	memset(out, 0, WIRE_HELLO_BYTES);
	out[HELLO_AT_LENGTH] = HELLO_LENGTH_KEYED;
	num_put_le32(out + HELLO_AT_NUMBER, number);
}

uint32_t
verbs_hello_unpack_keyed(const uint8_t *in)
{
	return in[HELLO_AT_LENGTH] == HELLO_LENGTH_KEYED ? num_get_le32(in + HELLO_AT_NUMBER) : 0;
}

uint32_t
verbs_hello_unpack(struct split_qp *qp, const uint8_t *in)
{
	uint8_t *hello = qp->hello_in;
	uint32_t number;

	CHECK_OBJ(qp, SPLIT_QP_MAGIC);
	memcpy(hello, in, WIRE_HELLO_BYTES);
	qp->hello_in_bytes = hello[HELLO_AT_LENGTH];
	number = num_get_le32(hello + HELLO_AT_NUMBER);
	memset(hello + HELLO_AT_LENGTH, 0, 2);
	memset(hello + HELLO_AT_NUMBER, 0, 4);
	qp->hello_header = (struct wire_header){ .opcode = WIRE_HELLO };
	return qp->hello_in_bytes <= WIRE_HELLO_BYTES ? number : 0;
}

/* 0 u32 magic 4 u8 version 5 u8 bytes 6 u16 status 8 u16 credits 10 u16 is keyed 12 u32 number 16 hello */
void
verbs_reply_pack(const struct split_qp *qp, uint32_t number, uint8_t out[VERBS_REPLY_BYTES])
{
	const struct qp_control *hello = &qp->hello;

	assert(hello->hello_bytes <= WIRE_HELLO_BYTES);
	memset(out, 0, VERBS_REPLY_BYTES);
	num_put_le32(out, WIRE_MAGIC);
	out[4] = WIRE_VERSION;
	out[5] = (uint8_t)hello->hello_bytes;
	num_put_le16(out + 6, hello->header.status);
	num_put_le16(out + 8, hello->header.credits);
	num_put_le32(out + 12, number);
	memcpy(out + 16, hello->hello, hello->hello_bytes);
}

void
verbs_reply_pack_keyed(uint32_t number, uint8_t out[VERBS_REPLY_BYTES])
{
	memset(out, 0, VERBS_REPLY_BYTES);
	num_put_le32(out, WIRE_MAGIC);
	out[4] = WIRE_VERSION;
	num_put_le16(out + 10, 1);
	num_put_le32(out + 12, number);
}

int
verbs_reply_unpack(const struct rdma_conn_param *param, struct verbs_reply *ret_reply)
{
	const uint8_t *in = param->private_data;

	if (in == NULL || param->private_data_len < VERBS_REPLY_BYTES ||
	    num_get_le32(in) != WIRE_MAGIC)
		return -EPROTO;
	if (in[4] != WIRE_VERSION)
		return -EPROTONOSUPPORT;
	*ret_reply = (struct verbs_reply){
		.version = in[4],
		.hello_bytes = in[5],
		.status = num_get_le16(in + 6),
		.credits = num_get_le16(in + 8),
		.is_keyed = num_get_le16(in + 10) == 1,
		.control_number = num_get_le32(in + 12),
	};
	memcpy(ret_reply->hello, in + 16, WIRE_HELLO_BYTES);
	if (ret_reply->hello_bytes > WIRE_HELLO_BYTES || ret_reply->status >= CLEAVE_STATUS_NR)
		return -EPROTO;
	return 0;
}
