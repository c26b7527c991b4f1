/* SPDX-License-Identifier: Apache-2.0 */
/* command_line.c -- see command_line.h */
#include "start/command_line.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/config.h"
#include "base/config_value.h"
#include "base/domain.h"
#include "base/host_memory.h"
#include "base/log.h"
#include "base/num.h"
#include "base/tcp_address.h"
#include "catalog/json.h"
#include "catalog/node_key.h"
#include "cluster/gateway_state.h"
#include "common/replica.h"
#include "common/settings.h"
#include "extent/capacity.h"
#include "gateway/gateway_options.h"
#include "meta/meta_open.h"
#include "worker/worker.h"

#define CPU_MAX 1023u /* as cpu_set_t has them */
#define LEASE_MS 3000u
#define LINE_WHY_BYTES 256u
/* An election takes an etcd up to four seconds: all gateways would lose a lease of three each time. */
#define LEASE_ETCD_MS 10000u
#ifdef CLEAVE_TEST_BUILD
#define LEASE_ETCD_MIN_MS 200u         /* tests have an etcd of one member, and no time */
#define LINE_BALANCE_FLOOR NUM_KIB(64) /* nor a load */
#else
#define LINE_BALANCE_FLOOR 0u /* as gateways have it */
#define LEASE_ETCD_MIN_MS 5000u
#endif
_Static_assert(CONFIG_LIST_MAX <= MT_NODES_MAX, "a list of nodes may be as long as any list");

/* Where what is wrong is told, a line each. */
struct line_error {
	char *text;
	size_t bytes;
};

/* -EINVAL, always. */
static int __attribute__((format(printf, 2, 3)))
line_refuse(const struct line_error *error, const char *format, ...)
{
	size_t used = strlen(error->text);
	va_list args;

	if (used > 0 && used + 1 < error->bytes) {
		error->text[used++] = '\n';
		error->text[used] = '\0';
	}
	va_start(args, format);
	(void)vsnprintf(error->text + used, error->bytes - used, format,
	    args); /* cut where too long */
	va_end(args);
	return -EINVAL;
}

/* Both are looked at; the first failure counts. */
static int
line_both(int a, int b)
{
	return a != 0 ? a : b;
}

/* A word that may follow an address. Its value stands in the item, to its end or to the next comma. */
struct line_pair {
	const char *key;
	const char *value; /* NULL: it was not given */
	int bytes;
};

/* -EINVAL, always. */
static int
line_refuse_pair(const struct line_error *error, const char *option, const char *item,
    const struct line_pair *pairs, uint32_t count)
{
	assert(count == 1 || count == 2);
	return line_refuse(error, "--%s: '%s': only ',%s=...'%s%s%s may follow the address", option,
	    item, pairs[0].key, count == 2 ? " and '," : "", count == 2 ? pairs[1].key : "",
	    count == 2 ? "=...'" : "");
}

/* ",key=value" at @text, which begins with the comma, into one of @pairs. NULL: none of them; else what follows. */
static const char *
line_take_pair(const char *text, struct line_pair *pairs, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		size_t bytes = strlen(pairs[i].key);

		if (strncmp(text + 1, pairs[i].key, bytes) != 0 || text[1 + bytes] != '=')
			continue;
		if (pairs[i].value != NULL)
			return NULL;
		pairs[i].value = text + 2 + bytes;
		pairs[i].bytes = (int)strcspn(pairs[i].value, ",");
		return pairs[i].bytes == 0 ? NULL : pairs[i].value + pairs[i].bytes;
	}
	return NULL;
}

/* "ADDRESS[,key=value ...]" into @ret_address and @pairs. */
static int
line_split_item(const struct line_error *error, const char *option, const char *item,
    struct line_pair *pairs, uint32_t count, char ret_address[SPLIT_ADDRESS_BYTES_MAX])
{
	size_t bytes = strcspn(item, ",");
	const char *wrong, *rest = item + bytes;

	assert(item != NULL && count > 0);
	if (bytes == 0 || bytes >= SPLIT_ADDRESS_BYTES_MAX)
		return line_refuse(error, "--%s: '%s': an address like tcp://HOST:PORT is wanted",
		    option, item);
	memcpy(ret_address, item, bytes);
	ret_address[bytes] = '\0';
	wrong = tcp_address_check(ret_address, strcmp(option, "node") == 0);
	if (wrong != NULL)
		return line_refuse(error, "--%s: '%s': %s", option, item, wrong);
	while (*rest != '\0') {
		rest = line_take_pair(rest, pairs, count);
		if (rest == NULL)
			return line_refuse_pair(error, option, item, pairs, count);
	}
	return 0;
}

/* "HOST:PORT" at @pair, with the scheme of @address before it. */
static int
line_take_advertise(const struct line_error *error, const char *item, const char *address,
    const struct line_pair *pair, char ret_advertise[SPLIT_ADDRESS_BYTES_MAX])
{
	const char *scheme = strncmp(address, "verbs://", 8) == 0 ? "verbs" : "tcp";
	const char *wrong = NULL;
	int bytes;

	assert(strstr(address, "://") != NULL); /* tcp_address_check let it through */
	bytes = snprintf(ret_advertise, SPLIT_ADDRESS_BYTES_MAX, "%s://%.*s", scheme, pair->bytes,
	    pair->value);
	if (bytes >= (int)SPLIT_ADDRESS_BYTES_MAX)
		wrong = "an address has at most 127 characters";
	else
		wrong = tcp_address_check(ret_advertise, false);
	if (wrong != NULL)
		return line_refuse(error, "--port: '%s': advertise: %s", item, wrong);
	if (tcp_address_is_any(ret_advertise))
		return line_refuse(error,
		    "--port: '%s': advertise: %s is an address of every machine: give the name or "
		    "the number by which others reach this one",
		    item, ret_advertise);
	return 0;
}

static int
line_take_port(const struct line_error *error, const char *item, struct mt_gateway_options *options,
    uint32_t index)
{
	struct line_pair pairs[] = { { .key = "cpu" }, { .key = "advertise" } };
	char *address = options->ports[index].address;
	char text[8];
	uint64_t cpu;
	int rc = line_split_item(error, "port", item, pairs, NUM_COUNT(pairs), address);

	assert(index < MT_PORTS_MAX);
	if (rc == 0 && pairs[1].value != NULL)
		rc = line_take_advertise(error, item, address, &pairs[1],
		    options->ports[index].advertise);
	if (rc != 0)
		return rc;
	options->ports[index].cpu = -1;
	if (pairs[0].value == NULL)
		return 0;
	(void)snprintf(text, sizeof(text), "%.*s", pairs[0].bytes, pairs[0].value);
	if (pairs[0].bytes >= (int)sizeof(text) || config_parse_u64(text, &cpu) != 0 ||
	    cpu > CPU_MAX)
		return line_refuse(error, "--port: '%s': cpu must be 0 to %u", item, CPU_MAX);
	options->ports[index].cpu = (int)cpu;
	return 0;
}

/* Each takes a free one. */
static bool
line_is_any_port(const char *address)
{
	const char *colon = strrchr(address, ':');

	return colon != NULL && strcmp(colon, ":0") == 0;
}

static int
line_take_ports(const struct line_error *error, const struct config_list *list,
    struct mt_gateway_options *options)
{
	int rc = 0;

	if (list->count == 0)
		return line_refuse(error, "--port is required, see --help");
	if (list->count > MT_PORTS_MAX)
		return line_refuse(error, "--port: at most %u", MT_PORTS_MAX);
	for (uint32_t i = 0; i < list->count; i++)
		rc = line_both(rc, line_take_port(error, list->items[i], options, i));
	options->port_count = list->count;
	for (uint32_t i = 0; rc == 0 && i < list->count; i++) {
		for (uint32_t k = 0; k < i; k++) {
			if (strcmp(options->ports[i].address, options->ports[k].address) == 0 &&
			    !line_is_any_port(options->ports[i].address))
				rc = line_refuse(error, "--port: '%s': the address is given twice",
				    options->ports[i].address);
		}
	}
	return rc;
}

/* Gateways of several hosts, and their clients, would look for this one at themselves. */
static int
line_check_advertised(const struct line_error *error, const struct meta_where *where,
    const struct mt_gateway_options *options)
{
	for (uint32_t i = 0; i < options->port_count; i++) {
		const char *address = options->ports[i].address;

		if (!tcp_address_is_any(address) || options->ports[i].advertise[0] != '\0')
			continue;
		if (meta_where_directory(where) == NULL)
			return line_refuse(error,
			    "--port: '%s': gateways that share an etcd, and their clients, are told "
			    "where to find each other, and this is everywhere: add "
			    "',advertise=HOST:PORT', the name or number by which they reach it",
			    address);
		log_warn(
		    "gateway: clients are told port=%s, where those of other hosts find nobody: add "
		    "',advertise=HOST:PORT' to it",
		    address);
	}
	return 0;
}

static int
line_take_node(const struct line_error *error, const char *item, struct mt_node_config *node)
{
	struct line_pair domain = { .key = "domain" };
	int rc = line_split_item(error, "node", item, &domain, 1, node->address);

	if (rc != 0 || domain.value == NULL)
		return rc;
	if (domain.bytes >= (int)sizeof(node->domain))
		return line_refuse(error, "--node: '%s': domain has at most %zu characters", item,
		    sizeof(node->domain) - 1);
	(void)snprintf(node->domain, sizeof(node->domain), "%.*s", domain.bytes, domain.value);
	if (!domain_is_valid(node->domain))
		return line_refuse(error,
		    "--node: '%s': domain is one name, or up to %u with a / between each two", item,
		    DOMAIN_PARTS_MAX);
	return 0;
}

static int
line_take_nodes(const struct line_error *error, const struct mt_command_line *values,
    struct mt_gateway_options *options)
{
	const struct config_list *list = &values->nodes;
	int rc = 0;

	for (uint32_t i = 0; i < list->count; i++) {
		const char *domain = options->nodes[i].domain;

		rc = line_both(rc, line_take_node(error, list->items[i], &options->nodes[i]));
		/* A cluster of before may have others. */
		if (rc == 0 && values->is_creation && domain_check(domain) != NULL)
			rc = line_refuse(error, "--node: '%s': domain: %s", list->items[i],
			    domain_check(domain));
	}
	options->node_count = list->count;
	return rc;
}

/* No start can succeed with fewer failure domains than --min-replicas: every write would wait for ever. */
static int
line_check_domains(const struct line_error *error, const struct mt_command_line *values,
    const struct mt_gateway_options *options)
{
	uint32_t count = mt_node_domain_count(options->nodes, options->node_count);

	assert(count <= options->node_count);
	if (options->node_count == 0)
		return 0; /* the metadata store names them */
	if (count < values->min_replicas)
		return line_refuse(error,
		    "--node: copies are on nodes of different failure domains, and "
		    "%" PRIu32 " nodes are of %" PRIu32 ", but --min-replicas "
		    "%" PRIu64 " wants as many: add nodes, give those that fail "
		    "apart a ',domain=NAME' each, or lower --min-replicas",
		    options->node_count, count, values->min_replicas);
	if (count < MT_REPLICAS_MAX)
		log_warn("gateway: nodes of %" PRIu32 " failure domains hold %" PRIu32
			 " copies of each block, not %u: add nodes, or give those that fail apart "
			 "a domain each",
		    count, count, MT_REPLICAS_MAX);
	return 0;
}

static int
line_take_where(const struct line_error *error, const struct mt_command_line *values,
    const char *place, bool is_server, struct meta_where *where)
{
	const char *wrong;

	*where = (struct meta_where){ .place = place,
		.gateway_id = is_server ? values->gateway_id : 0,
		.ca = values->meta_ca,
		.cert = values->meta_cert,
		.key = values->meta_key,
		.user = values->meta_user,
		.password_file = values->meta_password_file,
		.keeps_history = values->meta_compact == 0 };
	wrong = meta_where_check(where);
	if (wrong != NULL)
		return line_refuse(error, "--%s: '%s': %s",
		    place == values->meta ? "meta" : "move-to", place, wrong);
	return 0;
}

static int
line_take_lease(const struct line_error *error, const struct mt_command_line *values,
    const struct meta_where *where, struct mt_gateway_options *options)
{
	bool is_etcd = meta_where_directory(where) == NULL;
	uint64_t lease_ms = values->lease_ms;

	if (lease_ms == 0)
		lease_ms = is_etcd ? LEASE_ETCD_MS : LEASE_MS;
	if (is_etcd && lease_ms < LEASE_ETCD_MIN_MS)
		return line_refuse(error,
		    "--lease-ms: %" PRIu64 ": at least %u with an etcd, which answers "
		    "nothing for seconds while it elects a leader",
		    lease_ms, LEASE_ETCD_MIN_MS);
	options->lease_ns = NUM_MS(lease_ms);
	return 0;
}

/* Things other than serving: at most one is asked for. */
static int
line_check_mode(const struct line_error *error, const struct mt_command_line *values,
    bool *ret_is_server)
{
	uint32_t count = (uint32_t)values->is_creation + values->is_recovery +
	    values->is_accepting + values->is_release + values->is_dump + values->is_load +
	    (values->move_to != NULL);

	*ret_is_server = count == 0;
	if (values->is_creation && values->is_recovery)
		return line_refuse(error,
		    "--create: makes a new cluster, --recover an old one anew: which?");
	if (values->is_accepting && (values->is_creation || values->is_recovery))
		return line_refuse(error,
		    "--accept-copy: keeps a store as it is, --create and --recover "
		    "make one: which?");
	if (count > 1)
		return line_refuse(error,
		    "--create, --recover, --accept-copy, --release, --dump, --load and --move-to are "
		    "things of their own: which?");
	if (values->is_forced && !values->is_recovery && !values->is_accepting)
		return line_refuse(error, "--force goes with --recover and --accept-copy alone");
	if (values->must_take && !values->is_recovery && !values->is_accepting &&
	    !values->is_load && values->move_to == NULL)
		return line_refuse(error,
		    "--take goes with --recover, --accept-copy, --load and --move-to alone");
	return 0;
}

static int
line_take_cluster_id(const struct line_error *error, const struct mt_command_line *values,
    struct meta_where *where, struct mt_gateway_options *options)
{
	bool needs_none = values->is_dump || values->is_release;

	options->cluster_id = 0;
	if (values->cluster_id == NULL && needs_none && meta_where_directory(where) != NULL)
		return 0;
	if (values->cluster_id == NULL)
		return line_refuse(error, "--cluster-id HEX is required, see --help");
	if (mt_hex_parse(values->cluster_id, &options->cluster_id) != 0 || options->cluster_id == 0)
		return line_refuse(error, "--cluster-id: '%s': 16 hex digits, not all 0",
		    values->cluster_id);
	where->cluster_id = options->cluster_id;
	return 0;
}

/* A gateway that serves may find them in the store. */
static bool
line_needs_nodes(const struct mt_command_line *values)
{
	return values->is_creation || values->is_recovery || values->is_accepting ||
	    values->is_load || values->move_to != NULL;
}

/* Options of a gateway that serves, and of no other mode. */
static int
line_take_server(const struct line_error *error, const struct mt_command_line *values,
    struct mt_gateway_options *options, const struct meta_where *where)
{
	int rc = line_take_ports(error, &values->ports, options);

	return rc != 0 ? rc : line_check_advertised(error, where, options);
}

/* Names of places: the stores, the ports, the nodes, the cluster. */
static int
line_take_places(const struct line_error *error, const struct mt_command_line *values,
    struct mt_gateway_options *options, struct meta_where *where, struct meta_where *to)
{
	bool is_server;
	int rc = line_check_mode(error, values, &is_server);
	int nodes_rc = 0, store_rc;

	if (rc != 0)
		return rc;
	store_rc = line_take_where(error, values, values->meta, is_server, where);
	if (is_server)
		rc = line_take_server(error, values, options, where);
	if (values->nodes.count == 0 && line_needs_nodes(values))
		nodes_rc = line_refuse(error, "--node is required: a cluster is made of its nodes");
	if (nodes_rc == 0)
		nodes_rc = line_take_nodes(error, values, options);
	if (nodes_rc == 0 && is_server)
		nodes_rc = line_check_domains(error, values, options);
	rc = line_both(store_rc, line_both(rc, nodes_rc));
	rc = line_both(rc, line_take_cluster_id(error, values, where, options));
	if (values->move_to == NULL)
		return rc;
	rc = line_both(rc, line_take_where(error, values, values->move_to, false, to));
	to->cluster_id = options->cluster_id;
	return rc;
}

static int
line_check_frames(const struct line_error *error, const struct mt_command_line *values)
{
	int rc = 0;

	if ((values->frame_bytes & (values->frame_bytes - 1)) != 0)
		rc = line_refuse(error, "--frame-bytes: %" PRIu64 ": no power of two",
		    values->frame_bytes);
	if ((values->read_frame_bytes & (values->read_frame_bytes - 1)) != 0)
		rc = line_refuse(error, "--read-frame-bytes: %" PRIu64 ": no power of two",
		    values->read_frame_bytes);
	if (values->read_frame_bytes > values->frame_bytes)
		rc = line_refuse(error,
		    "--read-frame-bytes: %" PRIu64 ": more than --frame-bytes, %" PRIu64
		    ": give it at most that",
		    values->read_frame_bytes, values->frame_bytes);
	return rc;
}

static int
line_take(const struct line_error *error, const struct mt_command_line *values,
    struct mt_gateway_options *options, struct meta_where *where, struct meta_where *to)
{
	int rc = line_take_places(error, values, options, where, to);

	options->shard_count = (uint32_t)values->shards;
	options->device_bytes = values->device_memory;
	options->wants_huge_pages = values->wants_huge_pages;
	options->engine_threads = (uint32_t)values->engine_threads;
	options->merge_threads = (uint32_t)values->merge_threads;
	options->min_replicas = (uint32_t)values->min_replicas;
	options->node_timeout_ns = values->node_timeout;
	options->slow_op_ns = values->slow_op;
	options->gateway_id = values->gateway_id;
	options->session_ns = values->session_timeout;
	options->repair_after_ns = values->repair_after;
	options->repair_bytes_per_s = values->repair_rate;
	options->scrub_interval_ns = values->scrub_interval;
	options->sweep_interval_ns = values->sweep_interval;
	options->orphan_grace_ns = values->orphan_grace;
	options->log_bytes = values->log_bytes;
	options->flush_age_ns = values->flush_age;
	options->index_cache_bytes = values->index_cache;
	options->hot_bytes = values->hot_bytes;
	options->mirror_bytes = values->mirror_heads;
	options->has_offload = values->offload != 0;
	options->worker_jobs = (uint32_t)values->worker_jobs;
	options->balance = (enum mt_balance)(MT_BALANCE_COUNT + values->balance);
	options->balance_interval_ns = values->balance_interval;
	options->is_health_watched = true;
	options->is_address_asked = true;
	options->is_address_outside = values->is_outside;
	options->local = values->local;
	options->has_read_ahead = true;
	options->balance_floor = LINE_BALANCE_FLOOR;
	options->frame_bytes = (uint32_t)values->frame_bytes;
	options->read_frame_bytes = (uint32_t)values->read_frame_bytes;
	options->run_codec = (enum mt_run_codec)values->run_codec;
	if (where->place != NULL)
		rc = line_both(rc, line_take_lease(error, values, where, options));
	rc = line_both(rc, line_check_frames(error, values));
	return rc;
}

/*
 * Ports touch all of their memory when they open: where it is more than there is, the kernel ends whatever processes it
 * chooses. Caches that grow (--index-cache) do not count.
 */
static int
line_check_memory(const struct line_error *error, const struct mt_gateway_options *options)
{
	const struct mt_settings settings = { .worker_jobs = options->worker_jobs };
	uint64_t port_bytes = options->device_bytes +
	    mt_worker_device_bytes(&settings, options->device_bytes);
	uint64_t bytes = options->port_count * port_bytes + options->hot_bytes +
	    options->mirror_bytes;
	uint64_t host_bytes = host_memory_bytes();

	assert(options->port_count <= MT_PORTS_MAX);
	if (bytes <= host_bytes)
		return 0;
	return line_refuse(error,
	    "--device-memory, --worker-jobs, --hot-bytes, --mirror-heads: %" PRIu64
	    " MiB, for %" PRIu32 " ports, are more than the %" PRIu64
	    " MiB of memory that there are here: give less",
	    bytes / NUM_MIB(1), options->port_count, host_bytes / NUM_MIB(1));
}

int
mt_command_line_take(const struct mt_command_line *values, struct mt_gateway_options *ret_options,
    struct meta_where *ret_where, struct meta_where *ret_to, char *ret_error, size_t error_bytes)
{
	const struct line_error error = { ret_error, error_bytes };
	char why[LINE_WHY_BYTES];
	bool is_server;
	int rc;

	assert(error_bytes > 0);
	ret_error[0] = '\0';
	if (values->meta == NULL) /* config.c wants it, and has said so to a check */
		return -EINVAL;
	rc = line_take(&error, values, ret_options, ret_where, ret_to);
	/* As mt_gateway_create does, but before it has begun: so a check says it, and systemd does not try again. */
	if (rc != 0 || line_check_mode(&error, values, &is_server) != 0 || !is_server)
		return rc;
	if (mt_gateway_options_check(ret_options, why, sizeof(why)) != 0)
		rc = line_refuse(&error, "%s", why);
	else
		rc = line_check_memory(&error, ret_options);
	return rc;
}
