/* SPDX-License-Identifier: Apache-2.0 */
/* fake_gateway.c -- see fake_gateway.h */
#include "support/fake_gateway.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/bucket.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "cleave/level.h"
#include "cleave/status.h"

struct fake_session {
	struct loop_link link;
	struct fake_gateway *fake;
	struct split_qp *qp;
	struct wire_hello hello;
	uint32_t port;
	uint64_t last_request_id;
};

/* An I/O request that waits for its answer. */
struct fake_held {
	struct loop_link link;
	struct split_msg *msg;
	struct wire_io io;
	struct fake_volume *volume;
	uint32_t port;
	uint64_t due_ns;
};

struct fake_listener {
	struct fake_gateway *fake;
	uint32_t port;
};

static struct fake_listener listeners[2 * FAKE_PORTS_MAX];
static uint32_t listener_count;

static struct fake_volume *
volume_by_id(struct fake_gateway *fake, uint64_t id)
{
	for (uint32_t i = 0; i < fake->volume_count; i++) {
		if (fake->volumes[i].id == id)
			return &fake->volumes[i];
	}
	return NULL;
}

static struct fake_volume *
volume_by_name(struct fake_gateway *fake, const char *name)
{
	for (uint32_t i = 0; i < fake->volume_count; i++) {
		if (strcmp(fake->volumes[i].name, name) == 0)
			return &fake->volumes[i];
	}
	return NULL;
}

struct fake_volume *
fake_gateway_add(struct fake_gateway *fake, const char *name, uint64_t bytes)
{
	struct fake_volume *volume = &fake->volumes[fake->volume_count];

	assert(fake->volume_count < FAKE_VOLUMES_MAX);
	*volume = (struct fake_volume){
		.id = fake->volume_count + 1,
		.size_bytes = bytes,
		.segment_base = FAKE_SEGMENT_BASE + 10 * fake->volume_count,
	};
	(void)snprintf(volume->name, sizeof(volume->name), "%s", name);
	volume->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
	    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert(volume->data != MAP_FAILED);
	fake->volume_count++;
	return volume;
}

static bool
is_change(const struct wire_io *io)
{
	return io->opcode != WIRE_READ && io->opcode != WIRE_BLOCK_STATUS &&
	    io->opcode != WIRE_HOLES;
}

/* Doing and answering. */

static int
do_write(struct fake_gateway *fake, struct fake_held *held)
{
	static uint8_t buffer[WIRE_CLIENT_PAYLOAD_BYTES_MAX];
	uint8_t *to = held->volume->data + fake_offset(held->volume, &held->io);

	if (held->io.opcode != WIRE_WRITE) {
		int rc =
		    madvise(to, held->io.length_bytes, MADV_DONTNEED); /* zeros, and no memory */

		assert(rc == 0);
		return 0;
	}
	dev_copy_to_host(fake->split, buffer, held->msg->payload, held->io.length_bytes);
	if (fake->write_checksum_count > 0) {
		fake->write_checksum_count--;
		return -EBADMSG;
	}
	if (crc32c(0, buffer, held->io.length_bytes) != held->io.payload_crc)
		return -EBADMSG;
	memcpy(to, buffer, held->io.length_bytes);
	return 0;
}

static uint32_t
do_read(struct fake_gateway *fake, struct fake_held *held)
{
	static uint8_t buffer[WIRE_CLIENT_PAYLOAD_BYTES_MAX];
	uint32_t crc;

	memcpy(buffer, held->volume->data + fake_offset(held->volume, &held->io),
	    held->io.length_bytes);
	crc = crc32c(0, buffer, held->io.length_bytes);
	if (fake->corrupt_count > 0) {
		fake->corrupt_count--;
		buffer[held->io.length_bytes / 2] ^= 1;
	}
	dev_copy_from_host(fake->split, held->msg->payload, buffer, held->io.length_bytes);
	return crc;
}

static void
make_wrong(struct fake_gateway *fake, struct wire_header *header)
{
	if (fake->wrong_answer_count == 0)
		return;
	fake->wrong_answer_count--;
	if (fake->answers == FAKE_WRONG_ID)
		header->request_id += 1u << 16;
	else if (fake->answers == FAKE_WRONG_OPCODE)
		header->opcode = WIRE_ECHO | WIRE_REPLY;
	else if (fake->answers == FAKE_WRONG_LENGTH)
		header->length_bytes /= 2;
}

static void
answer(struct fake_gateway *fake, struct split_msg *msg, const struct wire_io *io, int rc,
    uint32_t crc, uint32_t status_bytes)
{
	bool has_payload = !is_change(io) && rc == 0;
	struct wire_header header;
	struct dev_piece piece = { msg->payload, status_bytes };

	wire_io_reply(&header, io, rc, crc, 0);
	header.vm_id = limits_tag(&fake->limits); /* also to those who know nothing of it */
	make_wrong(fake, &header);
	if (io->opcode == WIRE_READ)
		piece.bytes = header.length_bytes;
	split_msg_reply(msg, &header, &piece, has_payload ? 1 : 0, NULL, NULL);
}

/* The request's effect, and the answer unless the connection is gone. */
static void
held_finish(struct fake_gateway *fake, struct fake_held *held, bool is_effective)
{
	const struct fake_asked asked = { .fake = fake,
		.volume = held->volume,
		.io = &held->io,
		.to = held->msg->payload,
		.port = held->port };
	uint32_t crc = 0, status_bytes = 0;
	int rc = 0;

	list_remove(&held->link);
	fake->held_count--;
	held->volume->held_count--;
	if (is_effective && held->io.opcode == WIRE_READ)
		crc = do_read(fake, held);
	else if (held->io.opcode == WIRE_BLOCK_STATUS)
		status_bytes = fake_status(&asked, &crc);
	else if (held->io.opcode == WIRE_HOLES)
		status_bytes = fake_holes(&asked, &crc);
	else if (is_effective)
		rc = do_write(fake, held);
	if (held->msg->qp != NULL)
		answer(fake, held->msg, &held->io, rc, crc, status_bytes);
	else
		split_msg_release(held->msg);
	free(held);
}

void
fake_gateway_release(struct fake_gateway *fake, bool is_reversed)
{
	while (!list_is_empty(&fake->held)) {
		struct loop_link *link = is_reversed ? fake->held.prev : fake->held.next;

		held_finish(fake, LIST_ENTRY(link, struct fake_held, link), true);
	}
}

/* Requests of a session that ends, or is replaced: done or dropped, before anything new. */
static void
held_finish_session(struct fake_session *session)
{
	struct fake_gateway *fake = session->fake;
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&fake->held, link, next) {
		struct fake_held *held = LIST_ENTRY(link, struct fake_held, link);

		if (held->msg->qp == session->qp || held->msg->qp == NULL)
			held_finish(fake, held, fake->is_drop_done);
	}
}

static void
set_timer(struct fake_gateway *fake)
{
	struct loop_link *link = list_first(&fake->held);
	uint64_t now_ns = loop_now_ns(fake->loop);

	if (link != NULL && !fake->is_holding) {
		uint64_t due_ns = LIST_ENTRY(link, struct fake_held, link)->due_ns;

		loop_timer_start(fake->loop, &fake->timer, due_ns > now_ns ? due_ns - now_ns : 0);
	}
}

static void
on_timer(struct loop_timer *timer, void *arg)
{
	struct fake_gateway *fake = arg;
	struct loop_link *link;

	(void)timer;
	while (!fake->is_holding && (link = list_first(&fake->held)) != NULL) {
		struct fake_held *held = LIST_ENTRY(link, struct fake_held, link);

		if (held->due_ns > loop_now_ns(fake->loop))
			break;
		held_finish(fake, held, true);
	}
	set_timer(fake);
}

/* I/O. */

static bool
overlaps_held_write(const struct fake_gateway *fake, const struct fake_volume *volume,
    const struct wire_io *io)
{
	uint64_t start = fake_offset(volume, io);

	for (const struct loop_link *link = fake->held.next; link != &fake->held;
	     link = link->next) {
		const struct fake_held *held = LIST_ENTRY(link, struct fake_held, link);
		uint64_t other = fake_offset(held->volume, &held->io);

		if (held->volume == volume && is_change(&held->io) &&
		    start < other + held->io.length_bytes && other < start + io->length_bytes)
			return true;
	}
	return false;
}

static void
log_request(struct fake_session *session, const struct fake_volume *volume,
    const struct wire_io *io)
{
	struct fake_gateway *fake = session->fake;

	if (is_change(io) && overlaps_held_write(fake, volume, io))
		fake->overlap_violations++;
	if (io->request_id <= session->last_request_id)
		fake->order_violations++;
	session->last_request_id = io->request_id;
	assert(fake->log_count < FAKE_LOG_MAX);
	fake->log[fake->log_count++] = (struct fake_record){
		.io = *io,
		.volume_offset_bytes = fake_offset(volume, io),
		.incarnation = session->hello.incarnation,
		.session_id = session->hello.session_id,
		.port = session->port,
	};
}

static int
check_io(struct fake_session *session, const struct fake_volume *volume, const struct wire_io *io)
{
	struct fake_gateway *fake = session->fake;
	uint32_t shard = wire_shard_of(io->segment, io->offset_bytes, fake->shard_count);

	if (fake_offset(volume, io) + io->length_bytes > volume->size_bytes)
		return -ERANGE;
	if (volume->attach != session->hello.attach)
		return -ESHUTDOWN;
	assert(io->opcode != WIRE_HOLES || session->hello.level >= CLEAVE_LEVEL_HOLES);
	if (io->opcode != WIRE_HOLES && fake->port_of_shard[shard] != session->port)
		return -EREMCHG;
	if (io->opcode != WIRE_HOLES && fake->epoch_of_shard[shard] != io->epoch)
		return -ESTALE;
	if (fake->status_count > 0) {
		fake->status_count--;
		return fake->status_rc;
	}
	return 0;
}

static void
on_io(struct fake_session *session, struct split_msg *msg, const struct wire_io *io)
{
	struct fake_gateway *fake = session->fake;
	struct fake_volume *volume = volume_by_id(fake, session->hello.volume_id);
	struct fake_held *held;
	int rc;

	assert(volume != NULL);
	log_request(session, volume, io);
	rc = check_io(session, volume, io);
	if (rc != 0) {
		answer(fake, msg, io, rc, 0, 0);
		return;
	}
	held = calloc(1, sizeof(*held));
	assert(held != NULL);
	held->msg = msg;
	held->port = session->port;
	held->io = *io;
	held->volume = volume;
	held->due_ns = loop_now_ns(fake->loop) + fake->delay_ns;
	list_push_back(&fake->held, &held->link);
	fake->held_count++;
	volume->held_count_max = (uint32_t)num_max(volume->held_count_max, ++volume->held_count);
	if (fake->drop_after > 0 && --fake->drop_after == 0) {
		held_finish_session(session);
		split_qp_close(session->qp);
	} else if (fake->delay_ns == 0 && !fake->is_holding) {
		held_finish(fake, held, true);
	} else {
		set_timer(fake);
	}
}

/* Control. */

static void
put_limits(json_t *object, const struct fake_gateway *fake)
{
	if (fake->limits.iops > 0)
		json_object_set_new(object, "qos",
		    json_pack("{s:I}", "iops", (json_int_t)fake->limits.iops));
}

static json_t *
json_volume(const struct fake_gateway *fake, const struct fake_volume *volume)
{
	json_t *object = json_pack("{s:s, s:I, s:I, s:s, s:s, s:i, s:i, s:I, s:i, s:I}", "name",
	    volume->name, "id", (json_int_t)volume->id, "size_bytes",
	    (json_int_t)volume->size_bytes, "service_class", "standard", "engine", "lz4", "level",
	    1, "replicas", 3, "segment_base", (json_int_t)volume->segment_base, "segment_count",
	    (int)((volume->size_bytes + CLEAVE_SEGMENT_BYTES - 1) / CLEAVE_SEGMENT_BYTES), "attach",
	    (json_int_t)volume->attach);

	put_limits(object, fake);
	return object;
}

static json_t *
json_map(const struct fake_gateway *fake)
{
	json_t *ports = json_array(), *port_of = json_array(), *epoch_of = json_array();

	for (uint32_t i = 0; i < fake->port_count; i++)
		json_array_append_new(ports, json_string(fake->addresses[i]));
	for (uint32_t i = 0; i < FAKE_PORTS_MAX && fake->foreign[i] != NULL; i++)
		json_array_append_new(ports, json_string(fake->foreign[i]));
	for (uint32_t i = 0; i < fake->shard_count; i++) {
		uint32_t epoch = fake->map_epoch_of_shard[i] != 0 ? fake->map_epoch_of_shard[i]
								  : fake->epoch_of_shard[i];

		json_array_append_new(port_of, json_integer(fake->port_of_shard[i]));
		json_array_append_new(epoch_of, json_integer(epoch));
	}
	return json_pack("{s:i, s:o, s:o, s:o}", "shard_count", (int)fake->shard_count, "ports",
	    ports, "port_of_shard", port_of, "epoch_of_shard", epoch_of);
}

static json_t *
run_create(struct fake_gateway *fake, const json_t *request, int *ret_rc)
{
	const char *name = json_string_value(json_object_get(request, "name"));
	json_int_t bytes = json_integer_value(json_object_get(request, "size_bytes"));

	if (volume_by_name(fake, name) != NULL) {
		*ret_rc = -EEXIST;
		return json_pack("{s:s+}", "error", "the volume exists: ", name);
	}
	return json_pack("{s:o}", "volume",
	    json_volume(fake, fake_gateway_add(fake, name, (uint64_t)bytes)));
}

/* The volume whose name is the next one behind @after; NULL: there is none. */
static const struct fake_volume *
volume_behind(const struct fake_gateway *fake, const char *after)
{
	const struct fake_volume *best = NULL;

	for (uint32_t i = 0; i < fake->volume_count; i++) {
		const struct fake_volume *volume = &fake->volumes[i];

		if (strcmp(volume->name, after) > 0 &&
		    (best == NULL || strcmp(volume->name, best->name) < 0))
			best = volume;
	}
	return best;
}

/* Two in an answer; "" is the name of those that were deleted. */
static json_t *
run_list(struct fake_gateway *fake, const json_t *request)
{
	const char *after = json_string_value(json_object_get(request, "after"));
	const struct fake_volume *volume = volume_behind(fake, after == NULL ? "" : after);
	json_t *list = json_array();

	while (volume != NULL && json_array_size(list) < 2) {
		json_array_append_new(list, json_volume(fake, volume));
		volume = volume_behind(fake, volume->name);
	}
	return json_pack("{s:o, s:b}", "volumes", list, "more", volume != NULL);
}

static json_t *
run_resize(const struct fake_gateway *fake, struct fake_volume *volume, const json_t *request,
    int *ret_rc)
{
	uint64_t size_bytes = (uint64_t)json_integer_value(json_object_get(request, "size_bytes"));

	if (size_bytes < volume->size_bytes && !json_is_true(json_object_get(request, "shrink"))) {
		*ret_rc = -EINVAL;
		return json_pack("{s:s}", "error", "it would be smaller");
	}
	volume->data = mremap(volume->data, volume->size_bytes, size_bytes, MREMAP_MAYMOVE);
	assert(volume->data != MAP_FAILED);
	volume->size_bytes = size_bytes;
	return json_pack("{s:o}", "volume", json_volume(fake, volume));
}

static json_t *
run_volume(struct fake_gateway *fake, const char *op, const json_t *request, int *ret_rc)
{
	const char *name = json_string_value(json_object_get(request, "name"));
	struct fake_volume *volume = volume_by_name(fake, name);
	const char *session = json_string_value(json_object_get(request, "session"));
	json_t *shown, *id = json_object_get(request, "id");

	if (volume == NULL) {
		*ret_rc = -ENOENT;
		return json_pack("{s:s+}", "error", "no such volume: ", name);
	}
	if (id != NULL && (uint64_t)json_integer_value(id) != volume->id) {
		*ret_rc = -ENOENT;
		return json_pack("{s:s}", "error", "another volume");
	}
	if (strcmp(op, "volume.attach") == 0) {
		fake->attach_count++;
		if (fake->attach_refuse_count > 0) {
			fake->attach_refuse_count--;
			*ret_rc = fake->attach_refuse_rc == 0 ? -EUSERS : fake->attach_refuse_rc;
			return json_pack("{s:s, s:I}", "error", "in use by somebody", "retry_ms",
			    (json_int_t)fake->attach_retry_ms); /* 0: it is there */
		}
		fake->is_taking = json_is_true(json_object_get(request, "take"));
		volume->attach++;
		volume->session_id = strtoull(session, NULL, 16);
		return json_pack("{s:o, s:I, s:o}", "volume", json_volume(fake, volume), "attach",
		    (json_int_t)volume->attach, "map", json_map(fake));
	}
	if (strcmp(op, "volume.open") == 0)
		return json_pack("{s:o, s:i, s:b, s:o}", "volume", json_volume(fake, volume),
		    "attach", 0, "read_only", 1, "map", json_map(fake));
	if (strcmp(op, "volume.resize") == 0)
		return run_resize(fake, volume, request, ret_rc);
	if (strcmp(op, "volume.rename") == 0)
		(void)snprintf(volume->name, sizeof(volume->name), "%s",
		    json_string_value(json_object_get(request, "new")));
	if (strcmp(op, "volume.delete") == 0) {
		volume->name[0] = '\0';
		return json_object();
	}
	shown = json_volume(fake, volume);
	if (volume->attach > 0)
		json_object_set_new(shown, "holder",
		    json_pack("{s:s, s:s, s:i}", "client", "somebody", "address", "elsewhere",
			"since_s", 1));
	return json_pack("{s:o}", "volume", shown);
}

static json_t *
run_op(struct fake_gateway *fake, const json_t *request, int *ret_rc)
{
	const char *op = json_string_value(json_object_get(request, "op"));

	if (op == NULL) {
		*ret_rc = -EINVAL;
		return json_pack("{s:s}", "error", "op: missing");
	}
	if (strcmp(op, "map") == 0) {
		fake->map_count++;
		return json_pack("{s:o}", "map", json_map(fake));
	}
	if (strcmp(op, "volume.create") == 0)
		return run_create(fake, request, ret_rc);
	if (strcmp(op, "volume.list") == 0)
		return run_list(fake, request);
	if (strcmp(op, "volume.detach") == 0) {
		fake->detach_count++;
		return json_object();
	}
	if (strcmp(op, "volume.limits") == 0) {
		json_t *limits = json_object();

		fake->limits_count++;
		put_limits(limits, fake);
		return limits;
	}
	if (strncmp(op, "volume.", 7) == 0)
		return run_volume(fake, op, request, ret_rc);
	if (strcmp(op, "node.list") == 0)
		return json_pack("{s:[{s:i, s:s, s:s, s:s, s:i, s:i, s:i}]}", "nodes", "id", 7,
		    "address", "tcp://10.0.0.7:7201", "domain", "rack7", "state", "up",
		    "slots_total", 100, "slots_free", 93, "slot_bytes", 67108864);
	if (strcmp(op, "status") == 0)
		return json_pack("{s:s, s:s, s:i}", "gateway", "00000000000000aa", "state",
		    "serving", "volume_count", (int)fake->volume_count);
	*ret_rc = -EINVAL;
	return json_pack("{s:s}", "error", "op: unknown");
}

static char *
control_text(struct fake_gateway *fake, struct split_msg *msg, int *ret_rc)
{
	char text[WIRE_CLIENT_PAYLOAD_BYTES_MAX + 1], *out, *by;
	json_t *request, *reply;

	if (fake->control_status_count > 0) {
		fake->control_status_count--;
		*ret_rc = fake->control_status_rc;
		return strdup("{\"error\":\"as the test said\"}");
	}
	dev_copy_to_host(fake->split, text, msg->payload, msg->payload_bytes);
	text[msg->payload_bytes] = '\0';
	by = strstr(text, ",\"by\":\""); /* the last member, as the library writes it */
	(void)snprintf(fake->control_by, sizeof(fake->control_by), "%.99s", by ? by + 7 : "");
	if (by != NULL)
		memcpy(by, "}", 2);
	(void)snprintf(fake->control_last, sizeof(fake->control_last), "%.511s", text);
	if (fake->control_answer != NULL)
		return strdup(fake->control_answer);
	request = json_loads(text, 0, NULL);
	reply = run_op(fake, request, ret_rc);
	out = json_dumps(reply, JSON_COMPACT);
	json_decref(request);
	json_decref(reply);
	return out;
}

static void
on_control(struct fake_session *session, struct split_msg *msg)
{
	struct fake_gateway *fake = session->fake;
	struct wire_header header = {
		.opcode = WIRE_CONTROL | WIRE_REPLY,
		.request_id = msg->header->request_id,
	};
	struct dev_piece piece = { .ptr = msg->payload };
	int rc = 0;
	char *text;

	fake->control_count++;
	if (fake->control_is_holding) {
		split_msg_release(msg);
		return;
	}
	if (fake->control_drop_count > 0) {
		fake->control_drop_count--;
		if (fake->control_drop_done)
			free(control_text(fake, msg, &rc));
		split_msg_release(msg);
		split_qp_close(session->qp);
		return;
	}
	text = control_text(fake, msg, &rc);
	piece.bytes = (uint32_t)strlen(text);
	dev_copy_from_host(fake->split, msg->payload, text, piece.bytes);
	free(text);
	header.status = status_from_errno(rc);
	split_msg_reply(msg, &header, &piece, 1, NULL, NULL);
}

static void
on_messages(struct split_qp *qp, struct split_msg *const *msgs, uint32_t count, void *arg)
{
	struct fake_session *session = arg;
	const char *field = "";
	struct wire_io io;

	for (uint32_t i = 0; i < count; i++) {
		if (split_qp_state(qp) != SPLIT_QP_READY) {
			split_msg_release(msgs[i]);
		} else if (msgs[i]->header->opcode == WIRE_CONTROL) {
			on_control(session, msgs[i]);
		} else if (session->hello.volume_id != 0 &&
		    wire_io_decode(msgs[i]->header, &io, &field) == 0) {
			on_io(session, msgs[i], &io);
		} else {
			(void)fprintf(stderr, "fake gateway: bad message: %s\n", field);
			abort();
		}
	}
}

static void
on_closed(struct split_qp *qp, int rc, const char *reason, void *arg)
{
	struct fake_session *session = arg;

	(void)qp;
	(void)rc;
	(void)reason;
	held_finish_session(session);
	list_remove(&session->link);
	free(session);
}

static const struct split_qp_ops session_ops = {
	.on_messages = on_messages,
	.on_closed = on_closed,
};

static int
check_hello(struct fake_gateway *fake, uint32_t port, const struct wire_hello *hello)
{
	const struct fake_volume *volume = volume_by_id(fake, hello->volume_id);
	struct loop_link *link, *next;

	if (fake->refuses_all)
		return fake->refuses_all_rc != 0 ? fake->refuses_all_rc : -EBUSY;
	if (hello->role != WIRE_ROLE_CLIENT)
		return -EPROTO;
	if (hello->volume_id == 0)
		return 0;
	if (fake->refuse_count > 0) {
		fake->refuse_count--;
		return fake->refuse_rc;
	}
	if (volume == NULL)
		return -ENOENT;
	if (hello->attach == 0)
		return 0; /* it reads, beside whoever writes */
	if (hello->attach != volume->attach || hello->session_id != volume->session_id)
		return -ESHUTDOWN;
	LIST_FOREACH_SAFE(&fake->sessions, link, next) {
		struct fake_session *other = LIST_ENTRY(link, struct fake_session, link);

		if (other->port != port || other->hello.volume_id != hello->volume_id)
			continue;
		if (other->hello.attach == hello->attach &&
		    other->hello.incarnation >= hello->incarnation)
			return -ESHUTDOWN;
		held_finish_session(other);
		split_qp_close(other->qp);
	}
	return 0;
}

static void
on_accept(struct split_qp *qp, const void *bytes, uint32_t count, void *arg)
{
	const struct fake_listener *listener = arg;
	struct fake_gateway *fake = listener->fake;
	struct wire_hello hello,
	    ours = { .role = WIRE_ROLE_GATEWAY,
		    .cluster_id = fake->cluster_id != 0 ? fake->cluster_id : 1 };
	struct fake_session *session;
	uint8_t out[WIRE_HELLO_BYTES];
	const char *field;
	int rc;

	rc = wire_hello_decode(bytes, count, &hello, &field);
	if (rc == 0 && fake->is_old_port[listener->port] && hello.level != CLEAVE_LEVEL_MIN)
		rc = -EPROTONOSUPPORT;
	if (rc == 0 && hello.cluster_id != 0 && hello.cluster_id != ours.cluster_id)
		rc = -EXDEV;
	if (rc == 0)
		rc = check_hello(fake, listener->port, &hello);
	fake->hello_count++;
	if (rc != 0) {
		split_qp_reject(qp, rc);
		return;
	}
	session = calloc(1, sizeof(*session));
	assert(session != NULL);
	session->fake = fake;
	session->qp = qp;
	session->hello = hello;
	session->port = listener->port;
	list_push_back(&fake->sessions, &session->link);
	ours.level = wire_level_answer(hello.level,
	    fake->is_old_port[listener->port] ? CLEAVE_LEVEL_MIN : 0);
	wire_hello_encode(out, &ours);
	split_qp_accept(qp, &session_ops, session, out, sizeof(out));
}

/* "sim://gateway:1" and 2 is "sim://gateway:3"; port 0 stays. */
static void
listen_address(const struct fake_options *options, uint32_t port, char ret[64])
{
	const char *colon = strrchr(options->address, ':');
	unsigned long number = strtoul(colon + 1, NULL, 10);

	(void)snprintf(ret, 64, "%.*s:%lu", (int)(colon - options->address), options->address,
	    number == 0 ? 0 : number + port);
}

void
fake_gateway_listen(struct fake_gateway *fake, uint32_t port, const char *address, char *ret_bound)
{
	struct fake_listener *listener = &listeners[listener_count++ % NUM_COUNT(listeners)];
	int rc;

	*listener = (struct fake_listener){ fake, port };
	rc = split_listen(fake->split, address, on_accept, listener, ret_bound);
	assert(rc == 0);
}

void
fake_gateway_init(struct fake_gateway *fake, const struct fake_options *options)
{
	struct split_port_options port_options = {
		.loop = options->loop,
		.sim_host = options->sim_host,
		.device_bytes = NUM_MIB(96),
		.receive_count = 1024,
		.qp_credits_max = 512,
	};

	memset(fake, 0, sizeof(*fake));
	fake->loop = options->loop;
	fake->port_count = options->port_count;
	fake->shard_count = options->shard_count;
	list_init(&fake->sessions);
	list_init(&fake->held);
	loop_timer_init(&fake->timer, on_timer, fake);
	fake->log = calloc(FAKE_LOG_MAX, sizeof(*fake->log));
	fake->split = open_roce_instance(&port_options);
	assert(fake->log != NULL);
	assert(fake->split != NULL);
	for (uint32_t i = 0; i < fake->shard_count; i++) {
		fake->port_of_shard[i] = (uint8_t)(i % fake->port_count);
		fake->epoch_of_shard[i] = 1;
	}
	for (uint32_t i = 0; i < fake->port_count; i++) {
		char address[64];

		listen_address(options, i, address);
		fake_gateway_listen(fake, i, address, fake->addresses[i]);
	}
}

void
fake_gateway_cut(struct fake_gateway *fake)
{
	struct loop_link *link, *next;

	LIST_FOREACH_SAFE(&fake->sessions, link, next) {
		struct fake_session *session = LIST_ENTRY(link, struct fake_session, link);

		held_finish_session(session);
		split_qp_close(session->qp);
	}
}

void
fake_gateway_fini(struct fake_gateway *fake)
{
	fake->is_drop_done = false;
	loop_timer_stop(fake->loop, &fake->timer);
	fake_gateway_cut(fake);
	split_port_close(fake->split);
	for (uint32_t i = 0; i < fake->volume_count; i++)
		(void)munmap(fake->volumes[i].data, fake->volumes[i].size_bytes);
	free(fake->log);
}
