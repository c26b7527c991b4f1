/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- see options.h */
#include "options.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/config_check.h"
#include "base/host_memory.h"
#include "base/num.h"
#include "base/tcp_address.h"
#include "format/format.h"
#include "node.h"
#include "revoked_file.h"

static const char *const write_caches[] = { "auto", "volatile", "protected", NULL };

static const char *const directs[] = { "off", "on", "trusted", NULL };

static const struct config_option option_table[] = {
	{ "disk", 0, CONFIG_STRING, offsetof(struct storage_options, disk), "PATH",
	    "The formatted file or block device.", NULL, true, 0, 0, NULL },
	{ "listen", 0, CONFIG_STRING, offsetof(struct storage_options, listen), "tcp://HOST:PORT",
	    "Where gateways connect; port 0 takes a free one.", NULL, true, 0, 0, NULL },
	{ "advertise", 0, CONFIG_STRING, offsetof(struct storage_options, advertise),
	    "tcp://HOST:PORT",
	    "Where clients that read here find this node, where that is not the address by which gateways do; port 0: "
	    "that of --listen.",
	    NULL, false, 0, 0, NULL },
	{ "cluster-id", 0, CONFIG_STRING, offsetof(struct storage_options, cluster_id), "HEX",
	    "Refuse a disk of another cluster.", NULL, false, 0, 0, NULL },
	{ "node-id", 0, CONFIG_U64, offsetof(struct storage_options, node_id), "N",
	    "Refuse a disk of another node.", "0", false, 0, UINT32_MAX, NULL },
	{ "write-cache", 0, CONFIG_CHOICE, offsetof(struct storage_options, write_cache), "KIND",
	    "Whether writes that the disk has acknowledged survive a power failure; auto: as a block "
	    "device says, and volatile for a file.",
	    "auto", false, 0, 0, write_caches },
	{ "direct", 0, CONFIG_CHOICE, offsetof(struct storage_options, direct), "WHO",
	    "Whether clients may read here, past gateways, what these have given them tickets for; on: clients with "
	    "keys, which needs one here; trusted: also clients and gateways without: whoever reaches this node can "
	    "then read all that it holds.",
	    "off", false, 0, 0, directs },
	{ "device-memory", 0, CONFIG_SIZE, offsetof(struct storage_options, device_memory), "SIZE",
	    "Device memory for messages.", "64M", false, NUM_MIB(8), NUM_GIB(16), NULL },
	{ "head-cache", 0, CONFIG_SIZE, offsetof(struct storage_options, head_cache), "SIZE",
	    "Host memory for heads of batches of runs, which say where blocks lie. Gateways that have no room for theirs "
	    "ask for them: one that is here saves a read of the disk.",
	    "16M", false, NODE_HEAD_CACHE_BYTES_MIN, NUM_GIB(16), NULL },
	{ "huge-pages", 0, CONFIG_FLAG, offsetof(struct storage_options, wants_huge_pages), NULL,
	    "Device memory of the system's reserved huge pages (vm.nr_hugepages), if they suffice.",
	    NULL, false, 0, 0, NULL },
	{ "engine-threads", 0, CONFIG_U64, offsetof(struct storage_options, engine_threads), "N",
	    "Threads that check batches; 0: the daemon's own.", "0", false, 0, 64, NULL },
	{ "verify-rate", 0, CONFIG_SIZE, offsetof(struct storage_options, verify_rate), "SIZE",
	    "Bytes a second that verifications of copies may read.", "64M", false, NUM_KIB(64),
	    NUM_GIB(64), NULL },
	{ "metrics", 0, CONFIG_STRING, offsetof(struct storage_options, metrics), "HOST:PORT",
	    "Where monitors get metrics, over HTTP at /metrics (OpenMetrics), and whether the disk takes writes, at "
	    "/healthz; by default nowhere.",
	    NULL, false, 0, 0, NULL },
	SECURE_METRICS_ROWS(struct storage_options, metrics_words),
	SECURE_OPTION_ROWS(struct storage_options, secure),
	{ "revoked", 0, CONFIG_STRING, offsetof(struct storage_options, revoked), "FILE",
	    "Where lists of revoked keys are kept that gateways bring, so that they count from the next start on "
	    "[$STATE_DIRECTORY/revoked-N.pem, of node N, if there is one].",
	    NULL, false, 0, 0, NULL },
	DAEMON_OPTION_ROWS(struct storage_options, log),
#ifdef CLEAVE_TEST_BUILD
	{ "fail-point", 0, CONFIG_STRING, offsetof(struct storage_options, fail_point), "WHAT-OP=N",
	    "Test builds: fail or kill at the N-th read, write, flush or any, or delay it and all later "
	    "ones, as in fail-write=3, kill-flush=1, failall-read=5, slow-write=1, slow-flush=1:20ms.",
	    NULL, false, 0, 0, NULL },
#endif
	{ .name = NULL },
};

const struct config_program storage_program = {
	.name = "cleave-storage",
	.synopsis = "--disk PATH --listen tcp://HOST:PORT [options]\n"
		    "format --disk PATH --cluster-id HEX --node-id N [options]\n"
		    "join --disk PATH --gateway HOST:PORT --listen tcp://HOST:PORT [options]",
	.purpose = "A storage node of a Cleave cluster: a disk of extents behind queue pairs.",
	.options = option_table,
	.has_check = true,
};

/* Whose is it? As the start says it (recover.c). */
static void
check_owner(const struct storage_options *options, const struct node_format *format,
    uint64_t cluster_id, const struct secure *secure, struct config_result *result)
{
	const struct split_wanted wanted = { .roles = SPLIT_ROLE_NODE,
		.number = format->node_id,
		.cluster_id = format->cluster_id };
	char why[SPLIT_KEY_WHY_BYTES_MAX];

	if (cluster_id != 0 && cluster_id != format->cluster_id)
		config_problem(&storage_program, result,
		    "--cluster-id: %s: superblock: cluster_id is %016" PRIx64 ", not %016" PRIx64
		    ": this disk belongs to another cluster",
		    options->disk, format->cluster_id, cluster_id);
	if (options->node_id != 0 && options->node_id != format->node_id)
		config_problem(&storage_program, result,
		    "--node-id: %s: superblock: node_id is %" PRIu32 ", not %" PRIu64
		    ": this is another node's disk",
		    options->disk, format->node_id, options->node_id);
	if (secure->key != NULL &&
	    split_subject_check(split_key_subject(secure->key), &wanted, why) != 0)
		config_problem(&storage_program, result, "--key: %s: %s", options->disk, why);
}

static void
check_content(const struct storage_options *options, uint64_t cluster_id,
    const struct secure *secure, struct config_result *result)
{
	enum format_content content = FORMAT_OTHER;
	struct node_format format;
	int fd = open(options->disk, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 ? -errno : format_look(fd, &content, &format);
	off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END); /* of a block device, too */

	if (rc == 0 && end < 0)
		rc = -errno;
	if (fd >= 0)
		(void)close(fd); /* nothing was written */
	if (rc != 0)
		config_problem(&storage_program, result, "--disk: %s: %s", options->disk,
		    strerror(-rc));
	else if (content != FORMAT_DISK)
		config_problem(&storage_program, result,
		    "--disk: %s: superblock: no disk of a storage node: make it one with "
		    "cleave-storage format",
		    options->disk);
	else if ((uint64_t)end < format.capacity_bytes)
		config_problem(&storage_program, result, "--disk: %s: " FORMAT_CUT_TEXT,
		    options->disk, (unsigned long long)end);
	else
		check_owner(options, &format, cluster_id, secure, result);
}

/* The disk as a start would find it. It is read, and not locked: its node may run. */
static void
check_disk(const struct storage_options *options, uint64_t cluster_id, const struct secure *secure,
    struct config_result *result)
{
	uint32_t count = result->problem_count;
	const char *path = options->disk;
	struct stat info;

	if (path == NULL)
		return; /* said already: it is required */
	if (stat(path, &info) != 0)
		config_problem(&storage_program, result, "--disk: %s: %s", path, strerror(errno));
	else if (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode))
		config_problem(&storage_program, result,
		    "--disk: %s: neither a file nor a block device", path);
	else
		config_check_access(&storage_program, result, "disk", path, R_OK | W_OK);
	if (result->problem_count == count)
		check_content(options, cluster_id, secure, result);
}

struct split_wanted
options_wanted(const struct storage_options *options, uint64_t cluster_id)
{
	return (struct split_wanted){ .roles = SPLIT_ROLE_NODE,
		.number = options->node_id,
		.cluster_id = cluster_id };
}

static void
check_secure(const struct storage_options *options, struct config_result *result,
    uint64_t cluster_id, struct secure *ret_secure)
{
	const struct split_wanted wanted = options_wanted(options, cluster_id);
	char path[PATH_MAX], why[SPLIT_KEY_WHY_BYTES_MAX];

	secure_take(&storage_program, result, &options->secure, &wanted, ret_secure);
	if (ret_secure->key != NULL && revoked_file_path(options, path) &&
	    secure_revoke(ret_secure, path, true, why) != 0)
		config_problem(&storage_program, result, "%s", why);
	if (options->direct == DIRECT_ON && ret_secure->key == NULL && options->secure.key == NULL)
		config_problem(&storage_program, result,
		    "--direct: on needs --key; where whoever reaches this node may read all, --direct trusted");
	if (options->listen != NULL)
		secure_refuse_open(&storage_program, result, ret_secure, "listen", options->listen);
}

/* Clients alone are told it: gateways have the address that an operator gave them (cleave node add). */
static void
check_advertise(const struct storage_options *options, struct config_result *result)
{
	const char *address = options->advertise, *wrong;
	size_t scheme_bytes = options->listen == NULL ? 0 : strcspn(options->listen, ":");

	if (address == NULL)
		return;
	wrong = tcp_address_check(address, false);
	if (wrong == NULL && tcp_address_is_any(address))
		wrong =
		    "an address of every machine: give the name or the number by which clients reach this one";
	if (wrong == NULL && options->listen != NULL &&
	    strncmp(address, options->listen, scheme_bytes + 1) != 0)
		wrong = "of another kind than --listen";
	if (wrong != NULL)
		config_problem(&storage_program, result, "--advertise: '%s': %s", address, wrong);
	if (options->direct == DIRECT_OFF)
		config_problem(&storage_program, result,
		    "--advertise: clients alone are told it, and none may read here: needs --direct");
}

/* A start touches all of it: where that is more than there is, the kernel ends whatever processes it chooses. */
static void
check_memory(const struct storage_options *options, struct config_result *result)
{
	uint64_t bytes = options->device_memory + options->head_cache;
	uint64_t host_bytes = host_memory_bytes();

	if (bytes > host_bytes)
		config_problem(&storage_program, result,
		    "--device-memory, --head-cache: %" PRIu64 " MiB are more than the %" PRIu64
		    " MiB of memory that there are here: give less",
		    bytes / NUM_MIB(1), host_bytes / NUM_MIB(1));
}

uint32_t
options_check(const struct storage_options *options, struct config_result *result,
    uint64_t *ret_cluster_id, struct secure *ret_secure)
{
	const char *wrong;

	assert(ret_cluster_id != NULL);
	if (options->cluster_id != NULL &&
	    storage_parse_hex(options->cluster_id, ret_cluster_id) != 0)
		config_problem(&storage_program, result,
		    "--cluster-id: '%s': 1 to 16 hex digits are wanted, and not 0",
		    options->cluster_id);
	wrong = options->listen == NULL ? NULL : tcp_address_check(options->listen, false);
	if (wrong != NULL)
		config_problem(&storage_program, result, "--listen: '%s': %s", options->listen,
		    wrong);
	check_advertise(options, result);
	check_memory(options, result);
	check_secure(options, result, *ret_cluster_id, ret_secure);
	secure_metrics_check(&storage_program, result, ret_secure, options->metrics,
	    &options->metrics_words);
	if (!result->is_check)
		return result->problem_count;
	check_disk(options, *ret_cluster_id, ret_secure, result);
	config_check_metrics(&storage_program, result, options->metrics);
	return result->problem_count;
}
