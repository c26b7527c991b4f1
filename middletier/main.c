/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c -- cleave-gateway: options, the metadata store, signals; nothing else
 *
 * The metadata directory also holds "gateway-id", 16 hex digits chosen once: a shard's root names its
 * owner by it. Several gateways of one host share the directory, each with its --gateway-id; those that share
 * an etcd have no directory, and each must be given one. The boot id is new with every start.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/config.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/metrics_http.h"
#include "base/num.h"
#include "base/signals.h"
#include "base/tcp_address.h"
#include "catalog/json.h"
#include "cleave/engine.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/split.h"
#include "cleave/wire.h"
#include "cluster/ask.h"
#include "cluster/gateway_state.h"
#include "common/port.h"
#include "common/replica.h"
#include "control/metrics.h"
#include "extent/capacity.h"
#include "extent/node_link.h"
#include "gateway/gateway.h"
#include "meta/meta_open.h"
#include "rebuild/rebuild_main.h"
#include "start/creation_main.h"
#include "start/place_main.h"
#include "start/starting.h"

#define EXIT_USAGE 2
#define ERROR_BYTES 512
#define PATH_BYTES 4096
#define CPU_MAX 1023u
#define LEASE_MS 3000u
/* An election takes an etcd up to four seconds: all gateways would lose a lease of three each time. */
#define LEASE_ETCD_MS 10000u
#define LEASE_ETCD_MIN_MS 5000u

struct main_options {
	const char *meta;
	const char *meta_ca, *meta_cert, *meta_key, *meta_user, *meta_password_file;
	unsigned meta_compact; /* of yes_no */
	struct config_list ports, nodes;
	const char *cluster_id;
	const char *metrics;
	uint64_t shards;
	uint64_t device_memory;
	bool wants_huge_pages;
	uint64_t engine_threads, merge_threads;
	uint64_t min_replicas;
	uint64_t node_timeout;
	uint64_t gateway_id;
	uint64_t lease_ms;
	uint64_t session_timeout;
	uint64_t repair_after, repair_rate;
	uint64_t scrub_interval, sweep_interval, orphan_grace, log_bytes;
	uint64_t index_cache;
	uint64_t frame_bytes;
	unsigned log_level;
	bool is_creation, is_recovery, is_forced, must_take, is_accepting;
};

static const char *const log_levels[] = { "trace", "debug", "info", "warn", "error", "off", NULL };

static const char *const yes_no[] = { "no", "yes", NULL };

static const struct config_option option_table[] = {
	{ "meta", 0, CONFIG_STRING, offsetof(struct main_options, meta),
	    "DIR|etcd[s]://HOST:PORT[,...][/PREFIX]",
	    "The metadata store: a directory, for the gateways of one host, which --create and --recover "
	    "make; or an etcd of version 3.4 or newer, for those of several.",
	    NULL, true, 0, 0, NULL },
	{ "meta-ca", 0, CONFIG_STRING, offsetof(struct main_options, meta_ca), "FILE",
	    "With etcds://: who signs its certificates, in PEM; by default the system's authorities.",
	    NULL, false, 0, 0, NULL },
	{ "meta-cert", 0, CONFIG_STRING, offsetof(struct main_options, meta_cert), "FILE",
	    "With etcds://: the certificate to show it, in PEM, without a common name.", NULL,
	    false, 0, 0, NULL },
	{ "meta-key", 0, CONFIG_STRING, offsetof(struct main_options, meta_key), "FILE",
	    "With etcds://: that certificate's key, in PEM.", NULL, false, 0, 0, NULL },
	{ "meta-user", 0, CONFIG_STRING, offsetof(struct main_options, meta_user), "NAME",
	    "With an etcd that has users: which one this is.", NULL, false, 0, 0, NULL },
	{ "meta-password-file", 0, CONFIG_STRING, offsetof(struct main_options, meta_password_file),
	    "FILE", "That user's password: the first line of FILE.", NULL, false, 0, 0, NULL },
	{ "meta-compact", 0, CONFIG_CHOICE, offsetof(struct main_options, meta_compact), "WHETHER",
	    "With an etcd: shorten its history to the last minutes, since it keeps all by default; no: "
	    "others who use it do.",
	    "yes", false, 0, 0, yes_no },
	{ "port", 0, CONFIG_LIST, offsetof(struct main_options, ports),
	    "tcp://HOST:PORT[,cpu=N] or verbs://...", "Listen here for clients; one thread each.",
	    NULL, false, 0, 0, NULL },
	{ "node", 0, CONFIG_LIST, offsetof(struct main_options, nodes),
	    "tcp://HOST:PORT[,domain=NAME]", "A storage node and its failure domain.", NULL, true,
	    0, 0, NULL },
	{ "cluster-id", 0, CONFIG_STRING, offsetof(struct main_options, cluster_id), "HEX",
	    "The cluster, as the nodes' disks were formatted for it: 16 hex digits.", NULL, true, 0,
	    0, NULL },
	{ "shards", 0, CONFIG_U64, offsetof(struct main_options, shards), "N",
	    "Number of shards of a new cluster (8); an old one must agree.", "0", false, 0,
	    CLEAVE_SHARDS_MAX, NULL },
	{ "device-memory", 0, CONFIG_SIZE, offsetof(struct main_options, device_memory), "SIZE",
	    "Device memory of each port.", "256M", false, NUM_MIB(2), NUM_GIB(256), NULL },
	{ "huge-pages", 0, CONFIG_FLAG, offsetof(struct main_options, wants_huge_pages), NULL,
	    "Device memory of the system's reserved huge pages (vm.nr_hugepages), if they suffice.",
	    NULL, false, 0, 0, NULL },
	{ "engine-threads", 0, CONFIG_U64, offsetof(struct main_options, engine_threads), "N",
	    "Engine threads of each port; 0: engines run on the port's own thread.", "0", false, 0,
	    64, NULL },
	{ "merge-threads", 0, CONFIG_U64, offsetof(struct main_options, merge_threads), "N",
	    "Threads of each port, of the lowest priority, for merges that are in no hurry; 0: they "
	    "run where writes do.",
	    "1", false, 0, 64, NULL },
	{ "min-replicas", 0, CONFIG_U64, offsetof(struct main_options, min_replicas), "N",
	    "Fewest nodes that writes go on with. 3: never fewer than three copies of what is "
	    "acknowledged. 1 also lets a take-over believe a lone replica.",
	    "2", false, 1, MT_REPLICAS_MAX, NULL },
	{ "node-timeout", 0, CONFIG_DURATION, offsetof(struct main_options, node_timeout),
	    "DURATION", "A storage node that does not answer for this long is given up.", "5s",
	    false, NUM_MS(10), NUM_S(600), NULL },
	{ "gateway-id", 0, CONFIG_U64, offsetof(struct main_options, gateway_id), "N",
	    "Which of several gateways this is, for those that share a store. By default the one "
	    "whose number the store's directory holds.",
	    "0", false, 0, INT64_MAX, NULL },
	{ "lease-ms", 0, CONFIG_U64, offsetof(struct main_options, lease_ms), "MS",
	    "A gateway that is silent for this long loses its shards to the others (3000; with an etcd "
	    "10000, and at least 5000: it answers nothing while it elects a leader).",
	    NULL, false, 200, 600000, NULL },
	{ "session-timeout", 0, CONFIG_DURATION, offsetof(struct main_options, session_timeout),
	    "DURATION",
	    "A writer that did not close its volume and is silent for this long has left it. The same "
	    "for all gateways of a cluster, and longer than clients take to find another gateway.",
	    "10s", false, NUM_MS(100), NUM_S(3600), NULL },
	{ "repair-after", 0, CONFIG_DURATION, offsetof(struct main_options, repair_after),
	    "DURATION", "Copies on a node that is away for this long are made anew elsewhere.",
	    "60s", false, NUM_MS(100), NUM_S(86400), NULL },
	{ "repair-rate", 0, CONFIG_SIZE, offsetof(struct main_options, repair_rate), "SIZE",
	    "Bytes a second that each port copies for repairs.", "64M", false, NUM_KIB(64),
	    NUM_GIB(64), NULL },
	{ "scrub-interval", 0, CONFIG_DURATION, offsetof(struct main_options, scrub_interval),
	    "DURATION", "Every copy is read and verified once in this time.", "168h", false,
	    NUM_S(1), NUM_S(UINT64_C(365) * 86400), NULL },
	{ "sweep-interval", 0, CONFIG_DURATION, offsetof(struct main_options, sweep_interval),
	    "DURATION", "Between two looks at a node for extents that nobody owns.", "10m", false,
	    NUM_S(1), NUM_S(86400), NULL },
	{ "orphan-grace", 0, CONFIG_DURATION, offsetof(struct main_options, orphan_grace),
	    "DURATION",
	    "An extent at a node that no manifest names is deleted when it was seen for this long, and "
	    "at most a sixteenth of a node's extents in that time; `cleave sweep` lists them.",
	    "1h", false, 0, NUM_S(UINT64_C(365) * 86400), NULL },
	{ "log-bytes", 0, CONFIG_SIZE, offsetof(struct main_options, log_bytes), "SIZE",
	    "Length of a shard's log beyond which writes are slowed down; less on small disks.",
	    "256M", false, NUM_MIB(1), NUM_GIB(64), NULL },
	{ "index-cache", 0, CONFIG_SIZE, offsetof(struct main_options, index_cache), "SIZE",
	    "Host memory for the indexes of what is on the nodes, all ports together.", "64M",
	    false, NUM_MIB(1), NUM_GIB(64), NULL },
	{ "frame-bytes", 0, CONFIG_SIZE, offsetof(struct main_options, frame_bytes), "SIZE",
	    "Neighbouring blocks up to this much are compressed together when they leave the log: a "
	    "power of two.",
	    "16K", false, CLEAVE_BLOCK_BYTES, ENGINE_RECORD_BYTES_MAX, NULL },
	{ "metrics", 0, CONFIG_STRING, offsetof(struct main_options, metrics), "HOST:PORT",
	    "Tell monitors what there is to know, over HTTP at /metrics (OpenMetrics); by default "
	    "nowhere.",
	    NULL, false, 0, 0, NULL },
	{ "log-level", 0, CONFIG_CHOICE, offsetof(struct main_options, log_level), "LEVEL",
	    "Least level to log.", "info", false, 0, 0, log_levels },
	{ "create", 0, CONFIG_FLAG, offsetof(struct main_options, is_creation), NULL,
	    "Do not serve: make a new cluster, its metadata store and all, over nodes that hold "
	    "nothing, and end.",
	    NULL, false, 0, 0, NULL },
	{ "recover", 0, CONFIG_FLAG, offsetof(struct main_options, is_recovery), NULL,
	    "Do not serve: make a lost or stale metadata store anew from all the nodes, and end.",
	    NULL, false, 0, 0, NULL },
	{ "accept-copy", 0, CONFIG_FLAG, offsetof(struct main_options, is_accepting), NULL,
	    "Do not serve: the metadata store is a copy, or was moved to another file system; the "
	    "original is gone for good and was not newer. Note that down, and end.",
	    NULL, false, 0, 0, NULL },
	{ "force", 0, CONFIG_FLAG, offsetof(struct main_options, is_forced), NULL,
	    "With --recover: also where newer data may exist that was not found.", NULL, false, 0,
	    0, NULL },
	{ "take", 0, CONFIG_FLAG, offsetof(struct main_options, must_take), NULL,
	    "With --recover: also while gateways are connected to the nodes. The nodes refuse them from "
	    "then on, for good.",
	    NULL, false, 0, 0, NULL },
	{ .name = NULL },
};

static const struct config_program program = {
	.name = "cleave-gateway",
	.synopsis = "--meta STORE --port ADDR --node ADDR --cluster-id HEX [options]\n"
		    "--create --meta STORE --node ADDR --cluster-id HEX [--shards N]\n"
		    "--recover --meta STORE --node ADDR --cluster-id HEX [--force] [--take]\n"
		    "--accept-copy --meta DIR --node ADDR --cluster-id HEX",
	.purpose = "The middle tier of a Cleave cluster: takes blocks from clients, compresses and "
		   "replicates them.",
	.options = option_table,
};

struct gateway_process {
	struct loop *loop;
	struct meta *meta;
	struct mt_gateway *gateway;
	struct mt_starting starting;
	struct metrics_http *metrics; /* NULL: nobody may ask */
	struct signals signals;
	bool is_stopping;
	int exit_code;
};

/* Options. */

static int __attribute__((format(printf, 1, 2))) usage_error(const char *format, ...)
{
	va_list args;

	(void)fprintf(stderr, "cleave-gateway: ");
	va_start(args, format);
	(void)vfprintf(stderr, format, args);
	va_end(args);
	(void)fprintf(stderr, "\n");
	return -EINVAL;
}

static bool
is_tcp(const char *address)
{
	return strncmp(address, "tcp://", 6) == 0;
}

/*
 * "ADDRESS[,key=value]" into @ret_address; *@ret_value is behind "key=", NULL where there is none.
 */
static int
split_item(const char *option, const char *item, const char *key,
    char ret_address[SPLIT_ADDRESS_BYTES_MAX], const char **ret_value)
{
	const char *comma = strchr(item, ',');
	size_t bytes = comma == NULL ? strlen(item) : (size_t)(comma - item);
	size_t key_bytes = strlen(key);
	const char *wrong;

	*ret_value = NULL;
	if (bytes == 0 || bytes >= SPLIT_ADDRESS_BYTES_MAX)
		return usage_error("--%s: '%s': an address like tcp://HOST:PORT is wanted", option,
		    item);
	memcpy(ret_address, item, bytes);
	ret_address[bytes] = '\0';
	wrong = tcp_address_check(ret_address, strcmp(option, "node") == 0);
	if (wrong != NULL)
		return usage_error("--%s: '%s': %s", option, item, wrong);
	if (comma == NULL)
		return 0;
	if (strncmp(comma + 1, key, key_bytes) != 0 || comma[1 + key_bytes] != '=' ||
	    comma[2 + key_bytes] == '\0' || strchr(comma + 1, ',') != NULL)
		return usage_error("--%s: '%s': only ',%s=...' may follow the address", option,
		    item, key);
	*ret_value = comma + 2 + key_bytes;
	return 0;
}

static int
take_ports(const struct config_list *list, struct mt_gateway_options *options)
{
	if (list->count == 0)
		return usage_error("--port is required, see --help");
	if (list->count > MT_PORTS_MAX)
		return usage_error("--port: at most %u", MT_PORTS_MAX);
	for (uint32_t i = 0; i < list->count; i++) {
		const char *cpu_text;
		uint64_t cpu;
		int rc =
		    split_item("port", list->items[i], "cpu", options->ports[i].address, &cpu_text);

		if (rc != 0)
			return rc;
		options->ports[i].cpu = -1;
		if (cpu_text == NULL)
			continue;
		if (config_parse_u64(cpu_text, &cpu) != 0 || cpu > CPU_MAX)
			return usage_error("--port: '%s': cpu must be 0 to %u", list->items[i],
			    CPU_MAX);
		options->ports[i].cpu = (int)cpu;
	}
	options->port_count = list->count;
	return 0;
}

static int
take_nodes(const struct config_list *list, struct mt_gateway_options *options)
{
	for (uint32_t i = 0; i < list->count; i++) {
		struct mt_node_config *node = &options->nodes[i];
		const char *domain;
		int rc = split_item("node", list->items[i], "domain", node->address, &domain);

		if (rc != 0)
			return rc;
		if (domain == NULL)
			continue;
		if (strlen(domain) >= sizeof(node->domain))
			return usage_error("--node: '%s': domain has at most %zu characters",
			    list->items[i], sizeof(node->domain) - 1);
		(void)snprintf(node->domain, sizeof(node->domain), "%s", domain);
	}
	options->node_count = list->count;
	return 0;
}

/* No start can succeed with fewer failure domains than --min-replicas: every write would wait for ever. */
static int
check_domains(const struct main_options *values, const struct mt_gateway_options *options)
{
	uint32_t count = mt_node_domain_count(options->nodes, options->node_count);

	if (count < values->min_replicas)
		return usage_error("--node: copies are on nodes of different failure domains, and "
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
take_where(const struct main_options *values, bool is_server, struct meta_where *where)
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
		return usage_error("--meta: '%s': %s", values->meta, wrong);
	if (meta_where_directory(where) != NULL)
		return 0;
	if (is_server && values->gateway_id == 0)
		return usage_error("--gateway-id is required with an etcd: a number of its own for "
				   "each gateway that shares it");
	if (values->is_accepting)
		return usage_error(
		    "--accept-copy is about a store in a directory, not about an etcd");
	return 0;
}

static int
take_lease(const struct main_options *values, const struct meta_where *where,
    struct mt_gateway_options *options)
{
	bool is_etcd = meta_where_directory(where) == NULL;
	uint64_t lease_ms = values->lease_ms;

	if (lease_ms == 0)
		lease_ms = is_etcd ? LEASE_ETCD_MS : LEASE_MS;
#ifndef CLEAVE_TEST_BUILD
	if (is_etcd && lease_ms < LEASE_ETCD_MIN_MS)
		return usage_error("--lease-ms: %" PRIu64
				   ": at least %u with an etcd, which answers "
				   "nothing for seconds while it elects a leader",
		    lease_ms, LEASE_ETCD_MIN_MS);
#endif
	options->lease_ns = NUM_MS(lease_ms);
	return 0;
}

static int
take_options(const struct main_options *values, struct mt_gateway_options *options,
    struct meta_where *where)
{
	bool is_server = !values->is_recovery && !values->is_creation && !values->is_accepting;
	int rc = is_server ? take_ports(&values->ports, options) : 0;

	if (values->is_creation && values->is_recovery)
		return usage_error(
		    "--create: makes a new cluster, --recover an old one anew: which?");
	if (values->is_accepting && (values->is_creation || values->is_recovery))
		return usage_error("--accept-copy: keeps a store as it is, --create and --recover "
				   "make one: which?");
	if (values->is_forced && !values->is_recovery)
		return usage_error("--force goes with --recover alone");
	if (values->must_take && !values->is_recovery)
		return usage_error("--take goes with --recover alone");
	if (rc == 0)
		rc = take_where(values, is_server, where);
	if (rc == 0)
		rc = take_nodes(&values->nodes, options);
	if (rc == 0 && is_server)
		rc = check_domains(values, options);
	if (rc != 0)
		return rc;
	if (mt_hex_parse(values->cluster_id, &options->cluster_id) != 0 || options->cluster_id == 0)
		return usage_error("--cluster-id: '%s': 16 hex digits, not all 0",
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
	rc = take_lease(values, where, options);
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
		return usage_error("--frame-bytes: %" PRIu64 ": no power of two",
		    values->frame_bytes);
	options->frame_bytes = (uint32_t)values->frame_bytes;
	return 0;
}

/* Ids. */

static int
read_gateway_id(const char *path, uint64_t *ret_id)
{
	char text[32];
	ssize_t bytes;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	bytes = read(fd, text, sizeof(text) - 1);
	(void)close(fd); /* only read from */
	if (bytes < 0)
		return -EIO;
	text[bytes] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return mt_hex_parse(text, ret_id) == 0 && *ret_id != 0 ? 0 : -EBADMSG;
}

/* Written beside, flushed, then renamed: a half-written id is never seen. */
static int
write_gateway_id(const char *path, uint64_t id)
{
	char beside[PATH_BYTES], text[18];
	int fd, rc = 0;

	if (snprintf(beside, sizeof(beside), "%s.new", path) >= (int)sizeof(beside))
		return -ENAMETOOLONG;
	(void)snprintf(text, sizeof(text), "%016" PRIx64 "\n", id);
	fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (write(fd, text, 17) != 17 || fsync(fd) != 0)
		rc = -EIO;
	if (close(fd) != 0 || (rc == 0 && rename(beside, path) != 0))
		rc = -EIO;
	return rc;
}

static int
random_id(uint64_t *ret_id)
{
	do {
		if (getrandom(ret_id, sizeof(*ret_id), 0) != (ssize_t)sizeof(*ret_id))
			return -EIO;
	} while (*ret_id == 0);
	return 0;
}

static int
take_store_id(struct mt_gateway_options *options)
{
	int rc = random_id(&options->store_id.high);

	if (rc == 0)
		rc = random_id(&options->store_id.low);
	if (rc != 0)
		log_error("gateway: no random bytes");
	return rc;
}

/* The gateway's: --gateway-id, else the directory's own. The boot's: new. */
static int
take_ids(const char *meta, struct mt_gateway_options *options)
{
	char path[PATH_BYTES];
	int rc;

	if (options->gateway_id != 0)
		return random_id(&options->boot_id);
	if (snprintf(path, sizeof(path), "%s/gateway-id", meta) >= (int)sizeof(path))
		return usage_error("--meta: '%s' is too long", meta);
	rc = read_gateway_id(path, &options->gateway_id);
	if (rc == -ENOENT) {
		rc = random_id(&options->gateway_id);
		if (rc == 0)
			rc = write_gateway_id(path, options->gateway_id);
	}
	if (rc == 0)
		rc = random_id(&options->boot_id);
	if (rc != 0)
		log_error("gateway: cannot use %s: %s", path,
		    rc == -EBADMSG ? "it does not hold 16 hex digits" : strerror(-rc));
	return rc;
}

/* Running. */

static void
on_stopped(void *arg)
{
	struct gateway_process *process = arg;

	loop_stop(process->loop);
}

static void
process_stop(struct gateway_process *process)
{
	if (process->is_stopping)
		return;
	process->is_stopping = true;
	mt_gateway_stop(process->gateway, on_stopped, process);
}

static void
on_signal(int number, void *arg)
{
	struct gateway_process *process = arg;

	log_info("gateway: stopping signal=%d", number);
	if (process->gateway == NULL) { /* it waits for its store */
		loop_stop(process->loop);
		return;
	}
	mt_starting_end(&process->starting, false);
	process_stop(arg);
}

static void
on_ready(void *arg)
{
	struct gateway_process *process = arg;

	mt_starting_end(&process->starting, true);
}

/* mt_gateway_fail has said why. */
static void
on_failed(int rc, const char *text, void *arg)
{
	struct gateway_process *process = arg;

	(void)rc;
	(void)text;
	process->exit_code = EXIT_FAILURE;
	mt_starting_fini(&process->starting); /* the reason is told already */
	process_stop(process);
}

static void
on_metrics_asked(struct mt_ask *ask, void *arg)
{
	metrics_scrape_finish(arg, mt_metrics_write(metrics_scrape_out(arg), ask));
}

static void
on_scrape(struct metrics_scrape *scrape, void *arg)
{
	struct gateway_process *process = arg;
	int rc = mt_ask_ports(process->gateway, MT_ASK_SNAPSHOT, NULL, on_metrics_asked, scrape);

	if (rc != 0)
		metrics_scrape_finish(scrape, rc);
}

static int
start_metrics(struct gateway_process *process, const char *address)
{
	char error[ERROR_BYTES];

	if (address == NULL)
		return 0;
	process->metrics =
	    metrics_http_start(process->loop, address, on_scrape, process, error, sizeof(error));
	if (process->metrics == NULL) {
		log_error("gateway: --metrics: %s", error);
		return -EINVAL;
	}
	log_info("gateway: metrics listen=%s", metrics_http_address(process->metrics));
	return 0;
}

/* Another process is this gateway now: whatever this one did would be done twice. */
static void
on_claim_lost(void *arg)
{
	struct gateway_process *process = arg;

	log_error(
	    "gateway: another process has this gateway's id, after the metadata store was silent "
	    "for too long: stopping");
	process->exit_code = EXIT_FAILURE;
	if (process->gateway == NULL)
		loop_stop(process->loop);
	else
		process_stop(process);
}

static int
open_store(struct gateway_process *process, struct meta_where *where,
    struct mt_gateway_options *options)
{
	const char *directory = meta_where_directory(where);
	char error[ERROR_BYTES];

	/* Before anything is made there: who mounts it later finds it as it was. */
	if (mt_meta_where_check(where) != 0)
		return -ENOENT;
	process->meta = meta_open(where, process->loop, error, sizeof(error));
	if (process->meta == NULL) {
		log_error("gateway: metadata store: %s", error);
		return -EIO;
	}
	if (take_ids(directory, options) != 0)
		return -EIO;
	where->gateway_id = options->gateway_id;
	if (meta_open_claim(where, process->meta, process->loop, options->lease_ns, on_claim_lost,
		process, error, sizeof(error)) != 0) {
		log_error(
		    "gateway: %s; another gateway of this store needs a --gateway-id of its own",
		    error);
		return -EBUSY;
	}
	return 0;
}

static int
run(struct gateway_process *process, const struct main_options *values, struct meta_where *where,
    struct mt_gateway_options *options)
{
	char error[ERROR_BYTES];
	int rc;

	process->loop = loop_ev_create(0);
	rc = process->loop == NULL
	    ? -errno
	    : signals_init(&process->signals, process->loop, on_signal, process);
	if (rc != 0) {
		log_error("gateway: no event loop: %s", strerror(-rc));
		return EXIT_FAILURE;
	}
	/* First: an address that is taken costs nobody a take-over. */
	if (start_metrics(process, values->metrics) != 0)
		return EXIT_FAILURE;
	if (open_store(process, where, options) != 0)
		return EXIT_FAILURE;
	options->loop = process->loop;
	options->meta = process->meta;
	options->meta_name = where->place;
	options->on_ready = on_ready;
	options->on_failed = on_failed;
	options->arg = process;
	process->gateway = mt_gateway_create(options, error, sizeof(error));
	if (process->gateway == NULL) {
		log_error("gateway: %s", error);
		return EXIT_FAILURE;
	}
	rc = mt_gateway_start(process->gateway, error, sizeof(error));
	if (rc != 0) {
		log_error("gateway: %s", error);
		return EXIT_FAILURE;
	}
	/* Not begun for one that has failed already: that has said why. */
	if (process->exit_code == EXIT_SUCCESS)
		mt_starting_begin(&process->starting, process->gateway);
	(void)loop_run(process->loop, NULL, NULL);
	return process->exit_code;
}

static void
process_fini(struct gateway_process *process)
{
	mt_starting_fini(&process->starting);
	mt_gateway_destroy(process->gateway); /* forgets who asked */
	metrics_http_stop(process->metrics);
	if (process->meta != NULL)
		process->meta->ops->close(process->meta);
	signals_fini(&process->signals);
	loop_destroy(process->loop);
}

/*
 * Where the hard limit of descriptors is too low, each port accepts fewer clients, and refuses the others with
 * a reason. What a port opens itself, to nodes and gateways, keeps its share. Over RDMA a connection takes none.
 */
static void
prepare_descriptors(struct mt_gateway_options *options)
{
	uint64_t wanted_count = MT_PORT_CONNECTIONS_MAX + SPLIT_SURPLUS_MAX;
	uint64_t least_count = 2 * (uint64_t)options->node_count + SPLIT_SURPLUS_MAX;
	uint64_t port_count = 0, count;

	for (uint32_t i = 0; i < options->port_count; i++)
		port_count += is_tcp(options->ports[i].address);
	if (port_count == 0)
		return;
	count = descriptors_prepare("gateway", port_count * wanted_count) / port_count;
	count = num_max(count, least_count) - SPLIT_SURPLUS_MAX;
	for (uint32_t i = 0; i < options->port_count; i++) {
		if (is_tcp(options->ports[i].address))
			options->ports[i].connections_max = (uint32_t)count;
	}
}

int
main(int argc, char *argv[])
{
	struct gateway_process process = { .exit_code = EXIT_SUCCESS };
	struct mt_gateway_options options = { 0 };
	struct main_options values = { 0 };
	struct meta_where where = { 0 };
	struct config_result result = { 0 };
	int rc = config_parse(&program, argc, argv, &values, &result);

	if (rc != 0)
		return rc > 0 ? EXIT_SUCCESS : EXIT_USAGE;
	log_set_level((enum log_level)values.log_level);
	if (take_options(&values, &options, &where) != 0) {
		rc = EXIT_USAGE;
	} else if (take_store_id(&options) != 0) {
		rc = EXIT_FAILURE;
	} else if (values.is_creation) {
		rc = mt_creation_main(&options, &where) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
	} else if (values.is_recovery) {
		rc = mt_rebuild_main(&options, &where, values.is_forced, values.must_take) == 0
		    ? EXIT_SUCCESS
		    : EXIT_FAILURE;
	} else if (values.is_accepting) {
		rc = mt_place_main(&options, &where) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
	} else {
		prepare_descriptors(&options);
		rc = run(&process, &values, &where, &options);
		process_fini(&process);
		if (rc == EXIT_SUCCESS)
			log_info("gateway: stopped");
	}
	config_result_fini(&result);
	return rc;
}
