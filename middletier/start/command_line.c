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
#include "base/log.h"
#include "base/num.h"
#include "base/tcp_address.h"
#include "catalog/json.h"
#include "cleave/engine.h"
#include "cleave/wire.h"
#include "cluster/gateway_state.h"
#include "common/port.h"
#include "common/replica.h"
#include "extent/capacity.h"
#include "extent/node_link.h"
#include "meta/meta_open.h"

#define CPU_MAX 1023u /* as cpu_set_t has them */
#define LEASE_MS 3000u
/* An election takes an etcd up to four seconds: all gateways would lose a lease of three each time. */
#define LEASE_ETCD_MS 10000u
#ifdef CLEAVE_TEST_BUILD
#define LEASE_ETCD_MIN_MS 200u /* tests have an etcd of one member, and no time */
#else
#define LEASE_ETCD_MIN_MS 5000u
#endif
_Static_assert(CONFIG_LIST_MAX <= MT_NODES_MAX, "a list of nodes may be as long as any list");

static const char *const log_levels[] = { "trace", "debug", "info", "warn", "error", "off", NULL };

static const char *const yes_no[] = { "no", "yes", NULL };

static const struct config_option option_table[] = {
	{ "meta", 0, CONFIG_STRING, offsetof(struct mt_command_line, meta),
	    "DIR|etcd[s]://HOST:PORT[,...][/PREFIX]",
	    "The metadata store: a directory, for the gateways of one host, which --create and --recover "
	    "make; or an etcd of version 3.4 or newer, for those of several.",
	    NULL, true, 0, 0, NULL },
	{ "meta-ca", 0, CONFIG_STRING, offsetof(struct mt_command_line, meta_ca), "FILE",
	    "With etcds://: who signs its certificates, in PEM; by default the system's authorities.",
	    NULL, false, 0, 0, NULL },
	{ "meta-cert", 0, CONFIG_STRING, offsetof(struct mt_command_line, meta_cert), "FILE",
	    "With etcds://: the certificate to show it, in PEM, without a common name.", NULL,
	    false, 0, 0, NULL },
	{ "meta-key", 0, CONFIG_STRING, offsetof(struct mt_command_line, meta_key), "FILE",
	    "With etcds://: that certificate's key, in PEM.", NULL, false, 0, 0, NULL },
	{ "meta-user", 0, CONFIG_STRING, offsetof(struct mt_command_line, meta_user), "NAME",
	    "With an etcd that has users: which one this is.", NULL, false, 0, 0, NULL },
	{ "meta-password-file", 0, CONFIG_STRING,
	    offsetof(struct mt_command_line, meta_password_file), "FILE",
	    "That user's password: the first line of FILE.", NULL, false, 0, 0, NULL },
	{ "meta-compact", 0, CONFIG_CHOICE, offsetof(struct mt_command_line, meta_compact),
	    "WHETHER",
	    "With an etcd: shorten its history to the last minutes, since it keeps all by default; no: "
	    "others who use it do.",
	    "yes", false, 0, 0, yes_no },
	{ "port", 0, CONFIG_LIST, offsetof(struct mt_command_line, ports),
	    "tcp://HOST:PORT[,cpu=N] or verbs://...", "Listen here for clients; one thread each.",
	    NULL, false, 0, 0, NULL },
	{ "node", 0, CONFIG_LIST, offsetof(struct mt_command_line, nodes),
	    "tcp://HOST:PORT[,domain=NAME]", "A storage node and its failure domain.", NULL, true,
	    0, 0, NULL },
	{ "cluster-id", 0, CONFIG_STRING, offsetof(struct mt_command_line, cluster_id), "HEX",
	    "The cluster, as the nodes' disks were formatted for it: 16 hex digits.", NULL, true, 0,
	    0, NULL },
	{ "shards", 0, CONFIG_U64, offsetof(struct mt_command_line, shards), "N",
	    "Number of shards of a new cluster (8); an old one must agree.", "0", false, 0,
	    CLEAVE_SHARDS_MAX, NULL },
	{ "device-memory", 0, CONFIG_SIZE, offsetof(struct mt_command_line, device_memory), "SIZE",
	    "Device memory of each port.", "256M", false, NUM_MIB(2), NUM_GIB(256), NULL },
	{ "huge-pages", 0, CONFIG_FLAG, offsetof(struct mt_command_line, wants_huge_pages), NULL,
	    "Device memory of the system's reserved huge pages (vm.nr_hugepages), if they suffice.",
	    NULL, false, 0, 0, NULL },
	{ "engine-threads", 0, CONFIG_U64, offsetof(struct mt_command_line, engine_threads), "N",
	    "Engine threads of each port; 0: engines run on the port's own thread.", "0", false, 0,
	    64, NULL },
	{ "merge-threads", 0, CONFIG_U64, offsetof(struct mt_command_line, merge_threads), "N",
	    "Threads of each port, of the lowest priority, for merges that are in no hurry; 0: they "
	    "run where writes do.",
	    "1", false, 0, 64, NULL },
	{ "min-replicas", 0, CONFIG_U64, offsetof(struct mt_command_line, min_replicas), "N",
	    "Fewest nodes that writes go on with. 3: never fewer than three copies of what is "
	    "acknowledged. 1 also lets a take-over believe a lone replica.",
	    "2", false, 1, MT_REPLICAS_MAX, NULL },
	{ "node-timeout", 0, CONFIG_DURATION, offsetof(struct mt_command_line, node_timeout),
	    "DURATION", "A storage node that does not answer for this long is given up.", "5s",
	    false, NUM_MS(10), NUM_S(600), NULL },
	{ "gateway-id", 0, CONFIG_U64, offsetof(struct mt_command_line, gateway_id), "N",
	    "Which of several gateways this is, for those that share a store. By default the one "
	    "whose number the store's directory holds.",
	    "0", false, 0, INT64_MAX, NULL },
	{ "lease-ms", 0, CONFIG_U64, offsetof(struct mt_command_line, lease_ms), "MS",
	    "A gateway that is silent for this long loses its shards to the others (3000; with an etcd "
	    "10000, and at least 5000: it answers nothing while it elects a leader).",
	    NULL, false, 200, 600000, NULL },
	{ "session-timeout", 0, CONFIG_DURATION, offsetof(struct mt_command_line, session_timeout),
	    "DURATION",
	    "A writer that did not close its volume and is silent for this long has left it. The same "
	    "for all gateways of a cluster, and longer than clients take to find another gateway.",
	    "10s", false, NUM_MS(100), NUM_S(3600), NULL },
	{ "repair-after", 0, CONFIG_DURATION, offsetof(struct mt_command_line, repair_after),
	    "DURATION", "Copies on a node that is away for this long are made anew elsewhere.",
	    "60s", false, NUM_MS(100), NUM_S(86400), NULL },
	{ "repair-rate", 0, CONFIG_SIZE, offsetof(struct mt_command_line, repair_rate), "SIZE",
	    "Bytes a second that each port copies for repairs.", "64M", false, NUM_KIB(64),
	    NUM_GIB(64), NULL },
	{ "scrub-interval", 0, CONFIG_DURATION, offsetof(struct mt_command_line, scrub_interval),
	    "DURATION", "Every copy is read and verified once in this time.", "168h", false,
	    NUM_S(1), NUM_S(UINT64_C(365) * 86400), NULL },
	{ "sweep-interval", 0, CONFIG_DURATION, offsetof(struct mt_command_line, sweep_interval),
	    "DURATION", "Between two looks at a node for extents that nobody owns.", "10m", false,
	    NUM_S(1), NUM_S(86400), NULL },
	{ "orphan-grace", 0, CONFIG_DURATION, offsetof(struct mt_command_line, orphan_grace),
	    "DURATION",
	    "An extent at a node that no manifest names is deleted when it was seen for this long, and "
	    "at most a sixteenth of a node's extents in that time; `cleave sweep` lists them.",
	    "1h", false, 0, NUM_S(UINT64_C(365) * 86400), NULL },
	{ "log-bytes", 0, CONFIG_SIZE, offsetof(struct mt_command_line, log_bytes), "SIZE",
	    "Length of a shard's log beyond which writes are slowed down; less on small disks.",
	    "256M", false, NUM_MIB(1), NUM_GIB(64), NULL },
	{ "index-cache", 0, CONFIG_SIZE, offsetof(struct mt_command_line, index_cache), "SIZE",
	    "Host memory for the indexes of what is on the nodes, all ports together.", "64M",
	    false, NUM_MIB(1), NUM_GIB(64), NULL },
	{ "frame-bytes", 0, CONFIG_SIZE, offsetof(struct mt_command_line, frame_bytes), "SIZE",
	    "Neighbouring blocks up to this much are compressed together when they leave the log: a "
	    "power of two.",
	    "16K", false, CLEAVE_BLOCK_BYTES, ENGINE_RECORD_BYTES_MAX, NULL },
	{ "metrics", 0, CONFIG_STRING, offsetof(struct mt_command_line, metrics), "HOST:PORT",
	    "Tell monitors what there is to know, over HTTP at /metrics (OpenMetrics); by default "
	    "nowhere.",
	    NULL, false, 0, 0, NULL },
	{ "log-level", 0, CONFIG_CHOICE, offsetof(struct mt_command_line, log_level), "LEVEL",
	    "Least level to log.", "info", false, 0, 0, log_levels },
	{ "create", 0, CONFIG_FLAG, offsetof(struct mt_command_line, is_creation), NULL,
	    "Do not serve: make a new cluster, its metadata store and all, over nodes that hold "
	    "nothing, and end.",
	    NULL, false, 0, 0, NULL },
	{ "recover", 0, CONFIG_FLAG, offsetof(struct mt_command_line, is_recovery), NULL,
	    "Do not serve: make a lost or stale metadata store anew from all the nodes, and end.",
	    NULL, false, 0, 0, NULL },
	{ "accept-copy", 0, CONFIG_FLAG, offsetof(struct mt_command_line, is_accepting), NULL,
	    "Do not serve: the metadata store is a copy, or was moved to another file system; the "
	    "original is gone for good and was not newer. Note that down, and end.",
	    NULL, false, 0, 0, NULL },
	{ "force", 0, CONFIG_FLAG, offsetof(struct mt_command_line, is_forced), NULL,
	    "With --recover: also where newer data may exist that was not found.", NULL, false, 0,
	    0, NULL },
	{ "take", 0, CONFIG_FLAG, offsetof(struct mt_command_line, must_take), NULL,
	    "With --recover: also while gateways are connected to the nodes. The nodes refuse them from "
	    "then on, for good.",
	    NULL, false, 0, 0, NULL },
	{ .name = NULL },
};

const struct config_program mt_command_line_program = {
	.name = "cleave-gateway",
	.synopsis = "--meta STORE --port ADDR --node ADDR --cluster-id HEX [options]\n"
		    "--create --meta STORE --node ADDR --cluster-id HEX [--shards N]\n"
		    "--recover --meta STORE --node ADDR --cluster-id HEX [--force] [--take]\n"
		    "--accept-copy --meta DIR --node ADDR --cluster-id HEX",
	.purpose = "The middle tier of a Cleave cluster: takes blocks from clients, compresses and "
		   "replicates them.",
	.options = option_table,
};

/* ---- taken ---- */

/* Where what is wrong is told. */
struct line_error {
	char *text;
	size_t bytes;
};

/* -EINVAL, always. */
static int __attribute__((format(printf, 2, 3)))
line_refuse(const struct line_error *error, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(error->text, error->bytes, format, args); /* cut where too long */
	va_end(args);
	return -EINVAL;
}

/*
 * "ADDRESS[,key=value]" into @ret_address; *@ret_value is behind "key=", NULL where there is none.
 */
static int
line_split_item(const struct line_error *error, const char *option, const char *item,
    const char *key, char ret_address[SPLIT_ADDRESS_BYTES_MAX], const char **ret_value)
{
	const char *comma = strchr(item, ',');
	size_t bytes = comma == NULL ? strlen(item) : (size_t)(comma - item);
	size_t key_bytes = strlen(key);
	const char *wrong;

	assert(item != NULL && key[0] != '\0');
	*ret_value = NULL;
	if (bytes == 0 || bytes >= SPLIT_ADDRESS_BYTES_MAX)
		return line_refuse(error, "--%s: '%s': an address like tcp://HOST:PORT is wanted",
		    option, item);
	memcpy(ret_address, item, bytes);
	ret_address[bytes] = '\0';
	wrong = tcp_address_check(ret_address, strcmp(option, "node") == 0);
	if (wrong != NULL)
		return line_refuse(error, "--%s: '%s': %s", option, item, wrong);
	if (comma == NULL)
		return 0;
	if (strncmp(comma + 1, key, key_bytes) != 0 || comma[1 + key_bytes] != '=' ||
	    comma[2 + key_bytes] == '\0' || strchr(comma + 1, ',') != NULL)
		return line_refuse(error, "--%s: '%s': only ',%s=...' may follow the address",
		    option, item, key);
	*ret_value = comma + 2 + key_bytes;
	return 0;
}

static int
line_take_ports(const struct line_error *error, const struct config_list *list,
    struct mt_gateway_options *options)
{
	if (list->count == 0)
		return line_refuse(error, "--port is required, see --help");
	if (list->count > MT_PORTS_MAX)
		return line_refuse(error, "--port: at most %u", MT_PORTS_MAX);
	for (uint32_t i = 0; i < list->count; i++) {
		const char *cpu_text;
		uint64_t cpu;
		int rc = line_split_item(error, "port", list->items[i], "cpu",
		    options->ports[i].address, &cpu_text);

		if (rc != 0)
			return rc;
		options->ports[i].cpu = -1;
		if (cpu_text == NULL)
			continue;
		if (config_parse_u64(cpu_text, &cpu) != 0 || cpu > CPU_MAX)
			return line_refuse(error, "--port: '%s': cpu must be 0 to %u",
			    list->items[i], CPU_MAX);
		options->ports[i].cpu = (int)cpu;
	}
	options->port_count = list->count;
	return 0;
}

static int
line_take_nodes(const struct line_error *error, const struct config_list *list,
    struct mt_gateway_options *options)
{
	for (uint32_t i = 0; i < list->count; i++) {
		struct mt_node_config *node = &options->nodes[i];
		const char *domain;
		int rc = line_split_item(error, "node", list->items[i], "domain", node->address,
		    &domain);

		if (rc != 0)
			return rc;
		if (domain == NULL)
			continue;
		if (strlen(domain) >= sizeof(node->domain))
			return line_refuse(error, "--node: '%s': domain has at most %zu characters",
			    list->items[i], sizeof(node->domain) - 1);
		(void)snprintf(node->domain, sizeof(node->domain), "%s", domain);
	}
	options->node_count = list->count;
	return 0;
}

/* No start can succeed with fewer failure domains than --min-replicas: every write would wait for ever. */
static int
line_check_domains(const struct line_error *error, const struct mt_command_line *values,
    const struct mt_gateway_options *options)
{
	uint32_t count = mt_node_domain_count(options->nodes, options->node_count);

	assert(count <= options->node_count);
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
    bool is_server, struct meta_where *where)
{
	const char *wrong;

	*where = (struct meta_where){ .place = values->meta,
		.gateway_id = is_server ? values->gateway_id : 0,
		.ca = values->meta_ca,
		.cert = values->meta_cert,
		.key = values->meta_key,
		.user = values->meta_user,
		.password_file = values->meta_password_file,
		.keeps_history = values->meta_compact == 0 };
	wrong = meta_where_check(where);
	if (wrong != NULL)
		return line_refuse(error, "--meta: '%s': %s", values->meta, wrong);
	if (meta_where_directory(where) != NULL)
		return 0;
	if (is_server && values->gateway_id == 0)
		return line_refuse(error,
		    "--gateway-id is required with an etcd: a number of its own for "
		    "each gateway that shares it");
	if (values->is_accepting)
		return line_refuse(error,
		    "--accept-copy is about a store in a directory, not about an etcd");
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

static int
line_take(const struct line_error *error, const struct mt_command_line *values,
    struct mt_gateway_options *options, struct meta_where *where)
{
	bool is_server = !values->is_recovery && !values->is_creation && !values->is_accepting;
	int rc = is_server ? line_take_ports(error, &values->ports, options) : 0;

	if (values->is_creation && values->is_recovery)
		return line_refuse(error,
		    "--create: makes a new cluster, --recover an old one anew: which?");
	if (values->is_accepting && (values->is_creation || values->is_recovery))
		return line_refuse(error,
		    "--accept-copy: keeps a store as it is, --create and --recover "
		    "make one: which?");
	if (values->is_forced && !values->is_recovery)
		return line_refuse(error, "--force goes with --recover alone");
	if (values->must_take && !values->is_recovery)
		return line_refuse(error, "--take goes with --recover alone");
	if (rc == 0)
		rc = line_take_where(error, values, is_server, where);
	if (rc == 0)
		rc = line_take_nodes(error, &values->nodes, options);
	if (rc == 0 && is_server)
		rc = line_check_domains(error, values, options);
	if (rc != 0)
		return rc;
	if (mt_hex_parse(values->cluster_id, &options->cluster_id) != 0 || options->cluster_id == 0)
		return line_refuse(error, "--cluster-id: '%s': 16 hex digits, not all 0",
		    values->cluster_id);
	where->cluster_id = options->cluster_id;
	options->shard_count = (uint32_t)values->shards;
	options->device_bytes = values->device_memory;
	options->wants_huge_pages = values->wants_huge_pages;
	options->engine_threads = (uint32_t)values->engine_threads;
	options->merge_threads = (uint32_t)values->merge_threads;
	options->min_replicas = (uint32_t)values->min_replicas;
	options->node_timeout_ns = values->node_timeout;
	options->gateway_id = values->gateway_id;
	rc = line_take_lease(error, values, where, options);
	if (rc != 0)
		return rc;
	options->session_ns = values->session_timeout;
	options->repair_after_ns = values->repair_after;
	options->repair_bytes_per_s = values->repair_rate;
	options->scrub_interval_ns = values->scrub_interval;
	options->sweep_interval_ns = values->sweep_interval;
	options->orphan_grace_ns = values->orphan_grace;
	options->log_bytes = values->log_bytes;
	options->index_cache_bytes = values->index_cache;
	if ((values->frame_bytes & (values->frame_bytes - 1)) != 0)
		return line_refuse(error, "--frame-bytes: %" PRIu64 ": no power of two",
		    values->frame_bytes);
	options->frame_bytes = (uint32_t)values->frame_bytes;
	return 0;
}

int
mt_command_line_take(const struct mt_command_line *values, struct mt_gateway_options *ret_options,
    struct meta_where *ret_where, char *ret_error, size_t error_bytes)
{
	const struct line_error error = { ret_error, error_bytes };

	assert(values->meta != NULL && values->cluster_id != NULL); /* config.c wants them */
	return line_take(&error, values, ret_options, ret_where);
}
