/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c -- a client: its port, its messages, the map that all of its volumes follow
 *
 * The map is fetched when somebody met a wrong owner or a lost connection (client_want_map): at once
 * the first time, later with a growing pause as long as the wish comes back.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/num.h"
#include "cleave/status.h"
#include "gateways.h"
#include "internal.h"
#include "local.h"

#define CLIENT_MAP_REQUEST "{\"op\":\"map\"}"
#define CLIENT_HOST_BYTES (4u << 20)
/* The arenas' own needs: rounding, and the pool's distances. */
#define CLIENT_DEVICE_SPARE_BYTES (1u << 20)
#define CLIENT_CONNECTIONS_MAX 4096u /* of all volumes together */
#define CLIENT_RECEIVE_STRIDE_BYTES (CLIENT_MESSAGE_BYTES_MAX + 4096u)

static void __attribute__((format(printf, 2, 3)))
error_text(char *ret_error, const char *format, ...)
{
	va_list args;

	assert(format != NULL);
	if (ret_error == NULL)
		return;
	va_start(args, format);
	(void)vsnprintf(ret_error, CLEAVE_ERROR_BYTES_MAX, format, args); /* cut where too long */
	va_end(args);
}

/* Options. */

static void
options_fill(struct cleave_client_options *options)
{
	num_default_u32(&options->message_count_max, 256);
	num_default_u32(&options->connection_depth_max, 128);
	num_default_u32(&options->queue_count_max, 4096);
	num_default_u32(&options->holes_chunks_min, HOLES_CHUNKS_MIN);
	num_default_u64(&options->io_timeout_ns, NUM_S(60));
	num_default_u64(&options->control_timeout_ns, NUM_S(30));
	num_default_u64(&options->connect_timeout_ns, NUM_S(5));
	num_default_u64(&options->backoff_min_ns, NUM_MS(5));
	num_default_u64(&options->backoff_max_ns, NUM_S(1));
	num_default_u64(&options->keepalive_ns, NUM_S(10));
}

static int
options_check(const struct cleave_client_options *options, char *ret_error)
{
	if (options->message_count_max > CLEAVE_MESSAGES_MAX) {
		error_text(ret_error, "message_count_max: at most %u", CLEAVE_MESSAGES_MAX);
		return -EINVAL;
	}
	if (options->backoff_max_ns < options->backoff_min_ns) {
		error_text(ret_error, "backoff_max_ns: less than backoff_min_ns");
		return -EINVAL;
	}
	if (options->gateway_count == 0) {
		error_text(ret_error, "gateways: none is given, and 1 to %u are needed",
		    CLEAVE_GATEWAYS_MAX);
		return -EINVAL;
	}
	return 0;
}

/* Each of the caller's strings is a list. */
static int
client_take_gateways(struct cleave_client *client, const struct cleave_client_options *options,
    char *ret_error)
{
	char wrong[CLEAVE_ERROR_BYTES_MAX];
	uint32_t count = 0;
	int rc = 0;

	assert(
	    client->options.gateway_count == options->gateway_count && options->gateway_count > 0);
	for (uint32_t i = 0; i < options->gateway_count && rc == 0; i++)
		rc = gateways_cut(options->gateways[i], client->gateways, &count, wrong);
	if (rc != 0)
		error_text(ret_error, "gateway %s", wrong);
	client->options.gateway_count = count;
	client->options.gateways = NULL; /* the caller's */
	return rc;
}

/* Life. */

static int
client_open_port(struct cleave_client *client)
{
	const struct cleave_client_options *options = &client->options;
	uint64_t receive_count = options->message_count_max + CLIENT_CONTROL_RECEIVES;
	struct engine_set_options engine_options = { 0 };
	struct split_port_options port_options = {
		.loop = client->loop,
		.sim_host = options->sim_host,
		.host_bytes = CLIENT_HOST_BYTES,
		.device_bytes = receive_count * CLIENT_RECEIVE_STRIDE_BYTES +
		    (uint64_t)options->message_count_max * CLIENT_RECEIVE_STRIDE_BYTES +
		    num_round_up(options->buffer_bytes, 4096) + CLIENT_DEVICE_SPARE_BYTES,
		.receive_count = (uint32_t)receive_count,
		.receive_payload_bytes = CLIENT_MESSAGE_BYTES_MAX,
		.qp_count_max = CLIENT_CONNECTIONS_MAX,
		.qp_send_depth_max = (uint32_t)num_max(1024, options->connection_depth_max),
		.keepalive_ns = options->keepalive_ns,
		.key = client->secure.key,
		.security = client->secure.security,
	};

	assert(options->gateways == NULL && options->message_count_max > 0);
	assert(client->port == NULL && client->engines == NULL);
	client->engines = engine_set_create(client->loop, &engine_options);
	if (client->engines == NULL)
		return -errno;
	client->port = open_roce_instance(&port_options);
	return client->port == NULL ? -errno : 0;
}

/* Volumes that wait for messages get one each, in turn. */
static void
client_on_split_task(struct loop_task *task, void *arg)
{
	struct cleave_client *client = arg;
	struct loop_link *link;

	(void)task;
	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(task == &client->split_task);
	while (
	    !list_is_empty(&client->free) && (link = list_pop_front(&client->split_wait)) != NULL) {
		struct cleave_volume *volume = LIST_ENTRY(link, struct cleave_volume, split_wait);

		if (!volume_is_live(volume))
			continue;
		if (volume_has_split(volume))
			volume_split_one(volume);
		if (volume_has_split(volume))
			list_push_back(&client->split_wait, &volume->split_wait);
		else
			pace_watch(volume);
	}
}

static void client_on_map_timer(struct loop_timer *timer, void *arg);

static void
client_init(struct cleave_client *client, const struct cleave_client_options *options)
{
	assert(client->magic == 0); /* all zero */
	client->magic = CLIENT_MAGIC;
	client->options = *options;
	options_fill(&client->options);
	client->loop = options->loop;
	list_init(&client->volumes);
	list_init(&client->free);
	list_init(&client->split_wait);
	loop_task_init(&client->split_task, client_on_split_task, client);
	loop_timer_init(&client->map_timer, client_on_map_timer, client);
}

/* In the simulator nothing may differ from one run to the next: no environment counts there. */
static int
client_take_key(struct cleave_client *client, const struct cleave_client_options *options,
    char *ret_error)
{
	const struct secure_options secure = { options->key, options->security, options->revoked };
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	int rc;

	assert(client->secure.key == NULL);
	client->options.key = client->options.security = NULL; /* the caller's */
	client->options.revoked = NULL;
	if (options->sim_host != NULL && options->key == NULL)
		return 0;
	rc = secure_open(&secure, &client->secure, why);
	if (rc != 0)
		error_text(ret_error, "%s", why);
	else if (!rekey_take(client, &secure)) {
		error_text(ret_error, "out of memory");
		rc = -ENOMEM;
	}
	return rc;
}

/* Nor the name of a host or a process. */
static void
client_take_name(struct cleave_client *client, const struct cleave_client_options *options)
{
	char host[CLIENT_NAME_BYTES] = "?";

	assert(client->name[0] == '\0');
	client->options.name = NULL; /* the caller's */
	if (options->name != NULL) {
		(void)snprintf(client->name, sizeof(client->name), "%s", options->name);
		return;
	}
	if (options->sim_host != NULL) {
		(void)snprintf(client->name, sizeof(client->name), "cleave-load[0]@?");
		return;
	}
	(void)gethostname(host, sizeof(host) - 1);
	(void)snprintf(client->name, sizeof(client->name), "%.24s[%d]@%.28s",
	    program_invocation_short_name, (int)getpid(), host);
}

static int
client_take_local(struct cleave_client *client, const struct cleave_client_options *options,
    char *ret_error)
{
	const char *wrong = local_take(options, client->local);

	client->options.local = NULL; /* the caller's */
	if (wrong == NULL)
		return 0;
	error_text(ret_error, "the folder of local sockets, %s: %s", client->local, wrong);
	return -EINVAL;
}

int
cleave_client_create(const struct cleave_client_options *options, struct cleave_client **ret_client,
    char *ret_error)
{
	struct cleave_client *client = client_calloc(1, sizeof(*client));
	int rc;

	assert(options->loop != NULL);
	if (client == NULL) {
		error_text(ret_error, "out of memory");
		return -ENOMEM;
	}
	client_init(client, options);
	rc = options_check(&client->options, ret_error);
	if (rc == 0)
		rc = client_take_gateways(client, options, ret_error);
	if (rc == 0)
		rc = client_take_key(client, options, ret_error);
	if (rc == 0)
		rc = client_take_local(client, options, ret_error);
	if (rc != 0)
		goto err_free;
	client_take_name(client, options);
	remember_init(client);
	rc = control_init(client);
	if (rc == 0)
		rc = client_open_port(client);
	if (rc == 0)
		rc = messages_init(client);
	if (rc != 0) {
		error_text(ret_error, "memory for %u messages: %s",
		    client->options.message_count_max, strerror(-rc));
		goto err_destroy;
	}
	*ret_client = client;
	return 0;

err_destroy:
	cleave_client_destroy(client);
	return rc;
err_free:
	rekey_fini(client);
	free(client);
	return rc;
}

static void
volume_discard(struct cleave_volume *volume)
{
	struct loop *loop = volume->client->loop;
	struct loop_link *link;

	CHECK_OBJ(volume, VOLUME_MAGIC);
	assert(volume->client->is_destroying);
	while ((link = list_pop_front(&volume->connections)) != NULL) {
		struct connection *connection = LIST_ENTRY(link, struct connection, link);

		loop_timer_stop(loop, &connection->timer);
		loop_timer_stop(loop, &connection->slow_timer);
		peeks_forget(connection);
		leases_forget(connection);
		free(connection);
	}
	volume_free(volume);
}

void
cleave_client_destroy(struct cleave_client *client)
{
	struct loop_link *link;

	if (client == NULL)
		return;
	CHECK_OBJ(client, CLIENT_MAGIC);
	client->is_destroying = true;
	if (client->port != NULL)
		split_port_close(client->port);
	messages_fini(client);
	/* First the calls: a volume that is being opened holds one of them. */
	control_fini(client);
	remember_fini(client);
	while ((link = list_first(&client->volumes)) != NULL)
		volume_discard(LIST_ENTRY(link, struct cleave_volume, link));
	loop_task_cancel(client->loop, &client->split_task);
	loop_timer_stop(client->loop, &client->map_timer);
	engine_set_destroy(client->engines);
	free(client->map);
	rekey_fini(client);
	client->magic = 0;
	free(client);
}

const struct cleave_stats *
cleave_client_stats(const struct cleave_client *client)
{
	CHECK_OBJ(client, CLIENT_MAGIC);
	return &client->stats;
}

const char *
cleave_error_text(int rc)
{
	uint16_t status = status_from_errno(rc);

	return status_to_errno(status) == rc ? status_text(status) : strerror(-rc);
}

/* Buffers. */

dev_ptr
cleave_buffer_alloc(struct cleave_client *client, size_t bytes)
{
	CHECK_OBJ(client, CLIENT_MAGIC);
	return dev_alloc(client->port, num_round_up(bytes, CLEAVE_BLOCK_BYTES));
}

void
cleave_buffer_free(struct cleave_client *client, dev_ptr buffer)
{
	CHECK_OBJ(client, CLIENT_MAGIC);
	if (!dev_ptr_is_null(buffer))
		dev_free(client->port, buffer);
}

void
cleave_buffer_fill(struct cleave_client *client, dev_ptr buffer, const void *src, size_t bytes)
{
	CHECK_OBJ(client, CLIENT_MAGIC);
	dev_copy_from_host(client->port, buffer, src, bytes);
}

void
cleave_buffer_copy(struct cleave_client *client, void *dst, dev_ptr buffer, size_t bytes)
{
	CHECK_OBJ(client, CLIENT_MAGIC);
	dev_copy_to_host(client->port, dst, buffer, bytes);
}

/* The map. */

uint32_t
client_gateway_count(const struct cleave_client *client)
{
	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(client->learnt_count <= CLIENT_PORTS_MAX);
	return client->options.gateway_count + client->learnt_count + client->remember.port_count;
}

bool
client_gateway_is_remembered(const struct cleave_client *client, uint32_t index)
{
	assert(client_gateway_count(client) > 0);
	return index % client_gateway_count(client) >=
	    client->options.gateway_count + client->learnt_count;
}

/* The cluster of volumes that are open; 0: none is, or it is not known. */
static uint64_t
client_volumes_cluster(const struct cleave_client *client)
{
	for (const struct loop_link *link = client->volumes.next; link != &client->volumes;
	     link = link->next) {
		uint64_t cluster_id =
		    LIST_ENTRY(link, const struct cleave_volume, link)->cluster_id;

		if (cluster_id != 0)
			return cluster_id;
	}
	return 0;
}

/*
 * A remembered one must be of the cluster that it was of. So must any while a volume is open, if it says: an address may
 * have been given to another cluster, whose map has nothing to say of this one.
 */
bool
client_gateway_is_of(const struct cleave_client *client, uint32_t index, uint64_t cluster_id)
{
	uint64_t ours = client_volumes_cluster(client);

	if (client_gateway_is_remembered(client, index) &&
	    cluster_id != client->remember.cluster_id)
		return false;
	return ours == 0 || cluster_id == 0 || cluster_id == ours;
}

const char *
client_gateway(const struct cleave_client *client, uint32_t index)
{
	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(client_gateway_count(client) > 0);
	index %= client_gateway_count(client);
	if (index < client->options.gateway_count)
		return client->gateways[index];
	index -= client->options.gateway_count;
	if (index < client->learnt_count)
		return client->learnt[index];
	return client->remember.ports[index - client->learnt_count];
}

static void
client_learn_gateways(struct cleave_client *client)
{
	const struct client_map *map = client->map;

	assert(map->port_count <= CLIENT_PORTS_MAX);
	client->learnt_count = 0;
	for (uint32_t i = 0; i < map->port_count; i++) {
		bool is_configured = false;
		assert(client->learnt_count <= i);

		for (uint32_t k = 0; k < client->options.gateway_count; k++)
			is_configured = is_configured ||
			    strcmp(client->gateways[k], map->ports[i]) == 0;
		if (!is_configured)
			memcpy(client->learnt[client->learnt_count++], map->ports[i],
			    SPLIT_ADDRESS_BYTES_MAX);
	}
}

int
client_set_map(struct cleave_client *client, const struct client_map *map)
{
	struct loop_link *link, *next;
	bool has_changed;

	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(map->shard_count > 0 && map->port_count > 0);
	assert(map != client->map && !client->is_destroying);
	if (client->map == NULL)
		client->map = client_calloc(1, sizeof(*client->map));
	if (client->map == NULL)
		return -ENOMEM;
	has_changed = map_merge(client->map, map);
	client->map_serial++;
	client_learn_gateways(client);
	remember_on_map(client, client->cluster_id);
	LIST_FOREACH_SAFE(&client->volumes, link, next)
		volume_on_map(LIST_ENTRY(link, struct cleave_volume, link));
	return has_changed;
}

static void
client_on_map(struct cleave_call *call, int rc, const char *reply, const char *error, void *arg)
{
	struct cleave_client *client = arg;
	struct client_map *map = NULL;
	const char *field;

	(void)call;
	(void)error;
	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(call == &client->map_call && client->is_map_call_out);
	client->is_map_call_out = false;
	if (rc == 0) {
		map = client_malloc(sizeof(*map));
		rc = map == NULL ? -ENOMEM : map_parse(reply, map, &field);
	}
	if (rc == 0)
		rc = client_set_map(client, map);
	free(map);
	if (rc == -EBADMSG)
		CLIENT_STAT(client, protocol_errors, 1);
	if (rc >= 0)
		CLIENT_STAT(client, map_fetches, 1);
	else if (!list_is_empty(&client->volumes))
		client_want_map(client);
	/* Somebody met an error that this gateway cannot explain: another may know more. */
	if (rc == 0)
		control_move_on(client);
}

static void
client_on_map_timer(struct loop_timer *timer, void *arg)
{
	struct cleave_client *client = arg;

	(void)timer;
	CHECK_OBJ(client, CLIENT_MAGIC);
	assert(timer == &client->map_timer && !client->is_map_call_out);
	if (list_is_empty(&client->volumes))
		return;
	client->map_call.fn = client_on_map;
	client->map_call.arg = client;
	client->is_map_call_out = true;
	if (cleave_control(client, &client->map_call, CLIENT_MAP_REQUEST) != 0) {
		client->is_map_call_out = false;
		client_want_map(client);
	}
}

void
client_want_map(struct cleave_client *client)
{
	const struct cleave_client_options *options = &client->options;
	uint64_t now_ns = loop_now_ns(client->loop), delay_ns = 0;

	CHECK_OBJ(client, CLIENT_MAGIC);
	if (client->is_map_call_out || client->map_timer.is_active)
		return;
	if (client->map_wanted_ns != 0 &&
	    now_ns - client->map_wanted_ns <= 2 * options->backoff_max_ns)
		delay_ns = retry_delay_ns(client->loop, client->map_wants_in_row++,
		    options->backoff_min_ns, options->backoff_max_ns);
	else
		client->map_wants_in_row = 0;
	client->map_wanted_ns = now_ns;
	loop_timer_start(client->loop, &client->map_timer, delay_ns);
}
