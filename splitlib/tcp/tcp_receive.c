/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_receive.c -- many split receives from one readv
 *
 * A stream does not say where its messages end, and asking first would cost a system call a message.
 * So guess: the next messages will be as long as the last one. The layout of a readv is what is left
 * of the message that is coming in, the next header, and then, while the guess is that, payloads and
 * headers in turns, each in the place where it belongs if the guess is right:
 *
 *	| payload, rest | header | payload 0 | header 1 | payload 1 | header 2 | ...
 *	  known exactly            guessed: receives popped from the pool, in advance
 *
 * Afterwards a cursor walks over what came. Bytes that lie where they belong are left there. The
 * first wrong guess makes the rest of the call linear *spill*: its bytes are taken out of the guessed
 * receives and copied into fresh ones, once each. Guessed receives that got no message of their own
 * go back to the pool. The next call then guesses one message; right guesses let it guess more.
 *
 * Where lengths vary, as those of compressed frames do, no guess is right. Then behind the one guessed message the call has
 * room for *strays*, memory of the port's: what comes into it is copied to receives, as what is spilled. A copy of some
 * KiB that the kernel has just written costs less than a call for each message.
 *
 * Guesses need receives beyond those that were promised to the peer, because a guessed receive that
 * is spilled from and the receive spilled into exist at one time; without them nothing is guessed.
 * Long payloads are read exactly, with the header behind them: there the system call matters little
 * and a copy much. So are messages for posted receives.
 *
 * Sends leave at the turn's end, so what is made of the first answer would wait until the last one is read: with some 10 us
 * for each, to decompress it, a client would have nothing to do for as long as its gateway works, and a disk while both do.
 * So a turn that has lasted TCP_TURN_NS reads no more answers: sockets that were not read yet are put off to the next one,
 * once. Requests are read all the same, for they are the beginning of what others do.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/check.h"
#include "base/guard.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/num.h"
#include "core/dev_ptr_raw.h"
#include "core/device_memory.h"
#include "core/port.h"
#include "core/qp.h"
#include "core/recv_split.h"
#include "tcp.h"

#define TCP_IOV_MAX 64u
#define TCP_IOV_EXACT 4u /* host rest, device rest, header; strays */
#define TCP_GUESS_MAX ((TCP_IOV_MAX - TCP_IOV_EXACT + 1) / 2)
#define TCP_GUESS_PAYLOAD_BYTES_MAX 8192u
#define TCP_RECEIVE_CALLS_MAX 8u /* for one queue pair, before others have their turn */
#define TCP_VARIES 2u            /* so many wrong guesses in a row: lengths vary */
#define TCP_WRONG_MAX 8u         /* ... and three right ones after so many: they vary no more */
#define TCP_NO_OWNER UINT32_MAX
#define TCP_TURN_NS NUM_US(60) /* some ten times what a turn costs by itself: calls and wake-ups */

/* Where a readv's bytes go, and then the cursor over them. */
struct layout {
	struct iovec iov[TCP_IOV_MAX];
	uint32_t
	    owner[TCP_IOV_MAX]; /* whose header it is: index in receives; TCP_NO_OWNER: no header */
	uint32_t iov_count;
	uint64_t capacity_bytes;
	bool is_all; /* answers alone are due, and there is room for all of them */
	struct split_receive *receives[TCP_GUESS_MAX]; /* NULL once a message has it */
	uint32_t receive_count;
	/* The cursor. */
	uint32_t at_iov;
	uint64_t at_offset;
	uint64_t left_bytes;
	/* The walk's finds. */
	uint32_t message_count;
	uint64_t spill_bytes;
	bool was_wrong;
};

static void
layout_add(struct layout *layout, void *memory, uint64_t bytes, uint32_t owner)
{
	if (bytes == 0)
		return;
	assert(layout->iov_count < TCP_IOV_MAX);
	layout->iov[layout->iov_count] = (struct iovec){ .iov_base = memory, .iov_len = bytes };
	layout->owner[layout->iov_count] = owner;
	layout->iov_count++;
	layout->capacity_bytes += bytes;
}

static uint32_t
layout_guess_count(const struct tcp_qp *tcp)
{
	const struct split_qp *qp = tcp->qp;
	const struct receive_pool *pool = &qp->port->pool;
	uint32_t promised = recv_receives_wanted(qp);
	uint32_t count;

	if (!qp->is_pooled || !qp_is(qp, SPLIT_QP_READY) || !list_is_empty(&qp->posted) ||
	    tcp->guess_payload_bytes > TCP_GUESS_PAYLOAD_BYTES_MAX ||
	    tcp->guess_payload_bytes > pool->payload_bytes_max || pool->free_count <= promised)
		return 0;
	count = (uint32_t)num_min(promised, pool->free_count - promised);
	return (uint32_t)num_min(num_min(count, tcp->guess_count), TCP_GUESS_MAX);
}

static void
layout_build(struct layout *layout, struct tcp_qp *tcp)
{
	struct split_qp *qp = tcp->qp;
	uint32_t guess_count = layout_guess_count(tcp);
	uint32_t head_bytes = recv_head_bytes(qp);

	assert(tcp->header_have_bytes < head_bytes);
	layout->iov_count = 0;
	layout->capacity_bytes = 0;
	layout->receive_count = guess_count;
	layout->is_all = guess_count > 0 && guess_count >= qp->replies_expected &&
	    qp->granted == qp->unannounced;
	layout_add(layout, qp->fill.host, qp->fill.host_left, TCP_NO_OWNER);
	layout_add(layout, qp->fill.device, qp->fill.device_left, TCP_NO_OWNER);
	if (qp->fill.discard_left > 0) {
		layout->receive_count = 0;
		return;
	}
	layout_add(layout, tcp->head + tcp->header_have_bytes, head_bytes - tcp->header_have_bytes,
	    0);
	for (uint32_t i = 0; i < guess_count; i++) {
		struct split_receive *receive = receive_pool_pop(&qp->port->pool);

		layout->receives[i] = receive;
		if (i > 0)
			layout_add(layout, receive->header, head_bytes, i);
		layout_add(layout, dev_ptr_raw(receive->payload), tcp->guess_payload_bytes,
		    TCP_NO_OWNER);
	}
	if (guess_count > 0 && tcp->wrong_in_row >= TCP_VARIES)
		layout_add(layout, qp->port->strays.memory, qp->port->strays.bytes, TCP_NO_OWNER);
}

/* Guessed receives without a message go back; the hottest ends on top again. */
static void
layout_give_back(struct layout *layout, struct receive_pool *pool)
{
	assert(layout->receive_count <= TCP_GUESS_MAX);
	for (uint32_t i = layout->receive_count; i > 0; i--)
		if (layout->receives[i - 1] != NULL)
			receive_pool_push(pool, layout->receives[i - 1]);
}

static void
cursor_advance(struct layout *layout, uint64_t bytes)
{
	assert(bytes <= layout->left_bytes);
	assert(layout->at_iov < layout->iov_count);
	layout->left_bytes -= bytes;
	layout->at_offset += bytes;
	if (layout->at_offset == layout->iov[layout->at_iov].iov_len) {
		layout->at_iov++;
		layout->at_offset = 0;
	}
}

/* Up to @bytes from the cursor to @dst, where they may be already. Returns how many. */
static uint32_t
cursor_take(struct layout *layout, uint8_t *dst, uint32_t bytes)
{
	uint32_t taken = 0;

	while (taken < bytes && layout->left_bytes > 0) {
		const struct iovec *iov = &layout->iov[layout->at_iov];
		const uint8_t *src = (const uint8_t *)iov->iov_base + layout->at_offset;
		uint32_t part = (uint32_t)num_min(num_min(bytes - taken, layout->left_bytes),
		    iov->iov_len - layout->at_offset);

		if (src != dst + taken) {
			guard_enter();
			memcpy(dst + taken, src, part);
			guard_leave();
			if (layout->was_wrong)
				layout->spill_bytes += part;
		}
		taken += part;
		cursor_advance(layout, part);
	}
	return taken;
}

/* The next header, when it is complete; *@ret_owner: the guessed receive that it lies right for. */
static struct wire_header *
cursor_take_header(struct layout *layout, struct tcp_qp *tcp, uint32_t *ret_owner)
{
	uint32_t iov_index = layout->at_iov;
	uint32_t owner = layout->owner[iov_index];
	uint32_t head_bytes = recv_head_bytes(tcp->qp);

	assert(iov_index < layout->iov_count);
	assert(tcp->header_have_bytes < head_bytes);
	if (tcp->header_have_bytes == 0 && layout->at_offset == 0 && owner != TCP_NO_OWNER &&
	    layout->left_bytes >= head_bytes && layout->iov[iov_index].iov_len >= head_bytes) {
		struct wire_header *header = layout->iov[iov_index].iov_base;

		cursor_advance(layout, head_bytes);
		*ret_owner = owner;
		return header;
	}
	*ret_owner = TCP_NO_OWNER;
	/* The rest of a header that began in an earlier call. */
	if (layout->at_offset == 0 &&
	    layout->iov[iov_index].iov_base == tcp->head + tcp->header_have_bytes)
		*ret_owner = owner;
	tcp->header_have_bytes += cursor_take(layout, tcp->head + tcp->header_have_bytes,
	    head_bytes - tcp->header_have_bytes);
	return tcp->header_have_bytes == head_bytes ? &tcp->header : NULL;
}

/* Lays out the bytes that fit into no buffer, and lie in the way. */
static void
walk_discard(struct layout *layout, struct recv_fill *fill)
{
	while (fill->discard_left > 0 && layout->left_bytes > 0) {
		const struct iovec *iov = &layout->iov[layout->at_iov];
		uint32_t part = (uint32_t)num_min(num_min(fill->discard_left, layout->left_bytes),
		    iov->iov_len - layout->at_offset);

		cursor_advance(layout, part);
		fill->discard_left -= part;
	}
}

static void
walk_fill(struct layout *layout, struct split_qp *qp)
{
	struct recv_fill *fill = &qp->fill;
	uint32_t taken;

	assert(recv_is_filling(qp));
	/* A message that has none of it has no place for it. */
	if (fill->host_left > 0) {
		taken = cursor_take(layout, fill->host, fill->host_left);
		fill->host += taken;
		fill->host_left -= taken;
	}
	if (fill->device_left > 0) {
		taken = cursor_take(layout, fill->device, fill->device_left);
		fill->device += taken;
		fill->device_left -= taken;
	}
	if (fill->host_left == 0 && fill->device_left == 0)
		walk_discard(layout, fill);
}

static void
walk_count_message(struct layout *layout, struct tcp_qp *tcp)
{
	const struct recv_fill *fill = &tcp->qp->fill;

	if (fill->kind == RECV_ONE_SIDED && layout->receive_count > 0)
		layout->was_wrong = true;
	if (fill->kind != RECV_POOL)
		return;
	layout->message_count++;
	if (fill->payload_bytes != tcp->guess_payload_bytes && layout->receive_count > 0)
		layout->was_wrong = true;
	tcp->guess_payload_bytes = fill->payload_bytes;
}

/* A header is complete. Returns false when the walk ends here. */
static bool
walk_begin(struct layout *layout, struct tcp_qp *tcp, const struct wire_header *header,
    uint32_t owner)
{
	struct split_qp *qp = tcp->qp;
	struct split_receive *in_place = NULL;

	if (owner < layout->receive_count)
		in_place = layout->receives[owner];
	switch (recv_begin(qp, header, in_place)) {
	case RECV_FILL:
		break;
	case RECV_DONE:
		/* Nobody guessed that: what follows lies in the wrong places. */
		if (layout->receive_count > 0 && tcp->guess_payload_bytes > 0)
			layout->was_wrong = true;
		tcp->header_have_bytes = 0;
		return true;
	case RECV_WAIT:
		/* Exact reading: the header is the last that was read, and stays for later. */
		assert(header == &tcp->header);
		assert(layout->left_bytes == 0);
		tcp->header_have_bytes = recv_head_bytes(qp);
		tcp->is_paused = true;
		tcp_update_interest(tcp);
		return false;
	case RECV_BROKEN:
		return false;
	}
	tcp->header_have_bytes = 0;
	if (in_place != NULL && qp->fill.receive == in_place)
		layout->receives[owner] = NULL;
	walk_count_message(layout, tcp);
	if (!recv_is_filling(qp))
		recv_finish(qp);
	return true;
}

/* Returns false when nothing more may be read now. */
static bool
layout_walk(struct layout *layout, struct tcp_qp *tcp)
{
	struct split_qp *qp = tcp->qp;

	while (layout->left_bytes > 0) {
		struct wire_header *header;
		uint32_t owner;

		if (!qp_is_open(qp))
			return false;
		if (recv_is_filling(qp)) {
			walk_fill(layout, qp);
			if (!recv_is_filling(qp))
				recv_finish(qp);
			continue;
		}
		header = cursor_take_header(layout, tcp, &owner);
		if (header != NULL &&
		    (!recv_open(qp, header) || !walk_begin(layout, tcp, header, owner)))
			return false;
	}
	return qp_is_open(qp);
}

static void
guess_again(struct tcp_qp *tcp, const struct layout *layout, bool was_full)
{
	uint32_t count = tcp->guess_count;

	assert(count > 0);
	assert(count <= TCP_GUESS_MAX);
	tcp->wrong_in_row = layout->was_wrong
	    ? (uint32_t)num_min(tcp->wrong_in_row + 1, TCP_WRONG_MAX)
	    : tcp->wrong_in_row / 2;
	if (layout->was_wrong)
		count = 1;
	else if (was_full)
		count *= 2;
	else
		count = (uint32_t)num_max(layout->message_count + 1, count - count / 4);
	tcp->guess_count = (uint32_t)num_min(num_max(count, 1), TCP_GUESS_MAX);
}

static void
tcp_on_receive_error(struct tcp_qp *tcp, ssize_t bytes, int err)
{
	assert(bytes <= 0);
	if (bytes == 0)
		qp_fail(tcp->qp, -ECONNRESET, "the peer closed the connection");
	else if (err == ETIMEDOUT)
		qp_fail(tcp->qp, -ETIMEDOUT, "the peer is silent");
	else if (err != EAGAIN && err != EWOULDBLOCK && err != EINTR)
		qp_fail(tcp->qp, -ECONNRESET, "receive: %s", strerrordesc_np(err));
}

/* Bytes that fit into no buffer go nowhere. Returns false when nothing more may be read now. */
static bool
tcp_discard(struct tcp_qp *tcp)
{
	struct split_qp *qp = tcp->qp;
	ssize_t bytes;

	assert(qp->fill.discard_left > 0);
	metric_add(&qp->port->counters.receive_calls, 1);
	bytes = tcp_skip(tcp, qp->fill.discard_left);
	if (bytes <= 0) {
		tcp_on_receive_error(tcp, bytes, errno);
		return false;
	}
	assert((uint64_t)bytes <= qp->fill.discard_left);
	qp->fill.discard_left -= (uint32_t)bytes;
	if (!recv_is_filling(qp))
		recv_finish(qp);
	return qp_is_open(qp);
}

/* Makes a system call. Returns false when nothing more may be read now. */
static bool
tcp_receive_once(struct tcp_qp *tcp)
{
	struct split_qp *qp = tcp->qp;
	struct split_port *port = qp->port;
	struct layout layout;
	ssize_t bytes;
	bool may_go_on;
	int err;

	layout_build(&layout, tcp);
	if (layout.iov_count == 0)
		return tcp_discard(tcp);
	guard_enter();
	bytes = readv(tcp->watcher.fd, layout.iov, (int)layout.iov_count);
	err = errno;
	guard_leave();
	metric_add(&port->counters.receive_calls, 1);
	if (bytes <= 0) {
		layout_give_back(&layout, &port->pool);
		tcp_on_receive_error(tcp, bytes, err);
		return false;
	}
	assert((uint64_t)bytes <= layout.capacity_bytes);
	layout.at_iov = 0;
	layout.at_offset = 0;
	layout.left_bytes = (uint64_t)bytes;
	layout.message_count = 0;
	layout.spill_bytes = 0;
	layout.was_wrong = false;
	may_go_on = layout_walk(&layout, tcp);
	layout_give_back(&layout, &port->pool);
	metric_add(&port->counters.spill_bytes, layout.spill_bytes);
	if (layout.message_count > 0)
		guess_again(tcp, &layout, (uint64_t)bytes == layout.capacity_bytes);
	recv_deliver(qp);
	/* Full again, and there may be more; but the only answer that was due is all there was. */
	return may_go_on && qp_is_open(qp) && !layout.is_all &&
	    (uint64_t)bytes == layout.capacity_bytes;
}

/* A header that waited for a receive. Returns false when it still does. */
static bool
tcp_resume(struct tcp_qp *tcp)
{
	struct layout nothing;

	assert(tcp->header_have_bytes == recv_head_bytes(tcp->qp)); /* opened when it came */
	nothing.left_bytes = 0;
	nothing.receive_count = 0;
	nothing.message_count = 0;
	if (!walk_begin(&nothing, tcp, &tcp->header, TCP_NO_OWNER))
		return false;
	return qp_is_open(tcp->qp);
}

static void
turn_begin(struct split_port *port)
{
	if (port->turn_began_ns == 0)
		port->turn_began_ns = loop_now_fresh_ns(port->loop);
}

/* Has this turn read as long as answers may hold it up? @tcp: whose turn it would be. */
static bool
turn_is_over(const struct tcp_qp *tcp)
{
	const struct split_port *port = tcp->qp->port;

	assert(port->turn_began_ns != 0);
	return !tcp->qp->is_acceptor &&
	    loop_now_fresh_ns(port->loop) - port->turn_began_ns >= TCP_TURN_NS;
}

void
tcp_on_readable(struct tcp_qp *tcp)
{
	turn_begin(tcp->qp->port);
	/* Descriptors are level-triggered: what is left is found again. */
	tcp->is_put_off = !tcp->is_put_off && turn_is_over(tcp);
	if (!tcp->is_put_off)
		tcp_receive(tcp);
}

void
tcp_receive(struct tcp_qp *tcp)
{
	assert(tcp->header_have_bytes <= recv_head_bytes(tcp->qp));
	/* A peer that is being refused has nothing more to say. */
	if (!qp_is_open(tcp->qp) || tcp->qp->is_rejecting || tcp->is_paused)
		return;
	if (tcp->header_have_bytes == recv_head_bytes(tcp->qp) && !tcp_resume(tcp))
		return;
	turn_begin(tcp->qp->port);
	for (uint32_t calls = 0; calls < TCP_RECEIVE_CALLS_MAX; calls++)
		if (!tcp_receive_once(tcp) || tcp->qp->is_rejecting || turn_is_over(tcp))
			return;
}
