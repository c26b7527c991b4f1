/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c -- cleave-storage: options, the disk, signals; nothing else
 *
 *	cleave-storage format ...     format.c
 *	cleave-storage join ...       join/join.c
 *	cleave-storage --disk ...     the daemon
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/config.h"
#include "base/config_value.h"
#include "base/daemon.h"
#include "base/descriptors.h"
#include "base/lock_holder.h"
#include "base/log.h"
#include "base/notify.h"
#include "base/num.h"
#include "base/output.h"
#include "base/signals.h"
#include "base/watchdog.h"
#include "cleave/secure_options.h"
#include "disk/disk_fault.h"
#include "disk/disk_sight.h"
#include "disk/disk_uring.h"
#include "format/format.h"
#include "join/join.h"
#include "node.h"
#include "node_http.h"
#include "options.h"
#include "revoked_file.h"

/* The disk's queue holds so many requests for each receive that device memory has room for: more than there are. */
#define WAITING_PER_RECEIVE 4u
#define RECEIVE_BYTES (256u * 1024u)
/* A locked disk is tried again for three seconds: storage_open_free_disk. */
#define DISK_BUSY_PAUSE_NS NUM_MS(20)
#define DISK_BUSY_TRIES_MAX 150u
#define CONNECTIONS_MIN 16u           /* whatever the limit on descriptors */
#define STARTING_EXTEND_NS NUM_S(120) /* as the unit's TimeoutStartSec */

struct storage_process {
	struct storage_options options;
	struct secure secure;
	struct loop *loop;
	struct disk *disk; /* until the node has it */
	struct node *node;
	struct node_http http; /* --metrics */
	struct disk_fault fault;
	struct signals signals;
	struct watchdog watchdog;
	struct daemon daemon;
	char why[SIGNALS_TEXT_BYTES]; /* it stops */
	bool is_stopping;
	int exit_code;
	uint64_t cluster_id; /* that the options give; 0: any */
	struct revoked_file revoked;
	struct disk_sight sight;
	uint32_t
	    connections_max; /* connections that there are descriptors for; 0: NODE_CONNECTIONS_MAX */
};

static int __attribute__((format(printf, 1, 2))) storage_error(const char *format, ...)
{
	char text[LOG_LINE_BYTES_MAX];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args); /* cut where too long */
	va_end(args);
	log_complain(storage_program.name, "%s", text);
	return STORAGE_EXIT_FAILURE;
}

/* ---- fail points ---- */

#ifdef CLEAVE_TEST_BUILD
#define FAIL_POINT_DELAY_NS NUM_MS(200)

static void
fail_point_on_hit(void *arg)
{
	(void)arg;
	log_warn("disk: the fail point is reached");
}

static void
fail_point_on_kill(void *arg)
{
	(void)arg;
	(void)raise(SIGKILL); /* does not return */
}

static int
fail_point_parse(const char *text, struct disk_fault *fault)
{
	static const struct {
		const char *name;
		uint32_t ops;
	} ops[] = {
		{ "read", DISK_FAULT_OP(DISK_READ) },
		{ "write", DISK_FAULT_OP(DISK_WRITE) },
		{ "flush", DISK_FAULT_OP(DISK_FLUSH) },
		{ "any", DISK_FAULT_ANY },
	};
	char what[16] = "", op[16] = "";
	unsigned long long at;
	uint64_t delay_ns = FAIL_POINT_DELAY_NS;
	int end = 0;

	if (sscanf(text, "%15[a-z]-%15[a-z]=%llu%n", what, op, &at, &end) != 3 || at == 0)
		return -EINVAL;
	if (text[end] != '\0' &&
	    (text[end] != ':' || strcmp(what, "slow") != 0 ||
		config_parse_duration(text + end + 1, &delay_ns) != 0))
		return -EINVAL;
	*fault = (struct disk_fault){ .at_count = at,
		.verdict = DISK_FAULT_FAIL,
		.rc = -EIO,
		.on_hit = fail_point_on_hit };
	for (size_t i = 0; i < NUM_COUNT(ops); i++)
		if (strcmp(op, ops[i].name) == 0)
			fault->ops = ops[i].ops;
	if (strcmp(what, "kill") == 0)
		fault->on_hit = fail_point_on_kill;
	else if (strcmp(what, "failall") == 0)
		fault->is_sticky = true;
	else if (strcmp(what, "slow") == 0)
		*fault = (struct disk_fault){ .ops = fault->ops,
			.at_count = at,
			.verdict = DISK_FAULT_PASS,
			.delay_ns = delay_ns,
			.on_hit = fail_point_on_hit };
	else if (strcmp(what, "fail") != 0)
		return -EINVAL;
	return fault->ops == 0 ? -EINVAL : 0;
}

static int
storage_add_fault(struct storage_process *process)
{
	const char *text = process->options.fail_point;
	struct disk *faulty;
	int rc;

	assert(process->node == NULL);
	if (text == NULL)
		return 0;
	if (fail_point_parse(text, &process->fault) != 0) {
		(void)storage_error("--fail-point: '%s': fail-write=3 or the like is wanted", text);
		return STORAGE_EXIT_USAGE;
	}
	rc = disk_fault_open(process->loop, process->disk, &process->fault, &faulty);
	if (rc != 0)
		return storage_error("%s", strerror(-rc));
	process->disk = faulty;
	return 0;
}
#else
static int
storage_add_fault(struct storage_process *process)
{
	assert(process->node == NULL);
	return 0;
}
#endif

/* ---- the node's life ---- */

static void
storage_on_stopped(struct node *node, int rc, void *arg)
{
	struct storage_process *process = arg;

	(void)node;
	assert(process->is_stopping);
	assert(rc <= 0);
	if (rc != 0)
		process->exit_code = STORAGE_EXIT_FAILURE;
	loop_stop(process->loop);
}

static void
storage_on_ready(struct node *node, int rc, const char *reason, void *arg)
{
	struct storage_process *process = arg;

	assert((rc == 0) == (reason == NULL));
	if (rc != 0) {
		process->exit_code = storage_error("%s", reason);
		loop_stop(process->loop);
		return;
	}
	log_info("ready listen=%s node=%u extents=%u slots_free=%u%s", node_address(node),
	    node_id(node), node_extent_count(node), node_slots_free(node),
	    node_is_read_only(node) ? " read-only" : "");
	(void)notify_ready("storage"); /* a failure was logged */
	(void)notify_status("storage", "serves", 0);
}

static bool
storage_is_displaced(void *arg)
{
	struct storage_process *process = arg;

	return disk_sight_is_displaced(&process->sight);
}

/* The node's key has the lists that have come: the process's is the same one from here on. */
static void
storage_take_key(struct storage_process *process)
{
	split_key_free(process->secure.key);
	process->secure.key = split_key_share(node_own_key(process->node));
}

static void
storage_on_revoked(void *arg)
{
	struct storage_process *process = arg;

	storage_take_key(process);
	revoked_file_keep(&process->revoked, process->secure.key);
}

/* The service manager gives a start more time while it comes further, and none while it stands still. */
static void
storage_on_progress(const char *text, bool is_further, void *arg)
{
	char status[128];

	(void)arg;
	(void)snprintf(status, sizeof(status), "reads its disk: %s", text);
	(void)notify_status("storage", status, is_further ? STARTING_EXTEND_NS : 0);
}

/* Lists of revoked keys that the node has learnt stay: secure_reload carries them over. */
static void
storage_on_reload(const void *values, void *arg)
{
	const struct storage_options *fresh = values;
	struct storage_process *process = arg;
	const struct split_wanted wanted = options_wanted(&process->options, process->cluster_id);

	if (process->secure.key == NULL)
		return;
	storage_take_key(process);
	if (secure_reload("storage", &fresh->secure, &wanted, &process->secure) &&
	    node_rekey(process->node, process->secure.key) != 0)
		log_error("storage: out of memory: the key before stays");
}

static void
storage_on_signal(int number, void *arg)
{
	struct storage_process *process = arg;

	if (number == SIGHUP) {
		(void)daemon_reload(&process->daemon, process->signals.text, storage_on_reload,
		    process);
		return;
	}
	daemon_tell_stopping(&process->daemon, process->signals.text);
	memcpy(process->why, process->signals.text, sizeof(process->why));
	/* The second one does not wait. */
	if (process->is_stopping) {
		process->exit_code = STORAGE_EXIT_FAILURE;
		loop_stop(process->loop);
		return;
	}
	process->is_stopping = true;
	node_stop(process->node, storage_on_stopped, process);
}

static int
storage_start_metrics(struct storage_process *process)
{
	char error[2 * NODE_REASON_BYTES_MAX];

	if (node_http_start(&process->http, &process->options, process->loop, process->node,
		&process->secure, error, sizeof(error)) == 0)
		return 0;
	return storage_error("--metrics: %s", error);
}

static int
storage_watch_signals(struct storage_process *process)
{
	int rc = signals_init(&process->signals, process->loop, storage_on_signal, process);

	assert(rc <= 0);
	return rc == 0 ? 0 : storage_error("cannot watch signals: %s", strerror(-rc));
}

static int
storage_begin_revoked(struct storage_process *process)
{
	int rc = revoked_file_begin(&process->revoked, &process->options, process->loop);

	return rc == 0 ? 0 : storage_error("cannot keep lists of revoked keys: %s", strerror(-rc));
}

static void
storage_on_pause(struct loop_timer *timer, void *arg)
{
	(void)timer;
	*(bool *)arg = true;
}

static bool
storage_is_pause_over(void *arg)
{
	return *(const bool *)arg;
}

static void
storage_pause(struct storage_process *process, uint64_t duration_ns)
{
	struct loop_timer timer;
	bool is_over = false;

	assert(!loop_is_running(process->loop));
	assert(duration_ns > 0);
	loop_timer_init(&timer, storage_on_pause, &is_over);
	loop_timer_start(process->loop, &timer, duration_ns);
	(void)loop_run(process->loop, storage_is_pause_over, &is_over); /* shorter is fine */
	loop_timer_stop(process->loop, &timer);
}

/*
 * Open the disk; wait while it is locked. After kill -9 the kernel keeps the disk open, and locked, until the last
 * request of the dead process's ring has ended: a start right behind it must not be turned away.
 */
static int
storage_open_free_disk(struct storage_process *process, const struct disk_uring_options *options)
{
	int rc = disk_uring_open(process->loop, options, &process->disk);

	assert(rc <= 0);
	for (unsigned i = 0; rc == -EBUSY && i < DISK_BUSY_TRIES_MAX; i++) {
		storage_pause(process, DISK_BUSY_PAUSE_NS);
		rc = disk_uring_open(process->loop, options, &process->disk);
	}
	return rc;
}

static int
storage_in_use(const char *path)
{
	int holder = lock_holder(path);

	if (holder > 0)
		return storage_error("%s: in use by process %d", path, holder);
	return storage_error("%s: in use by another process", path);
}

static int
storage_open_disk(struct storage_process *process)
{
	const char *path = process->options.disk;
	struct disk_uring_options options = { .path = path,
		.waiting_max = (uint32_t)num_max(4096,
		    WAITING_PER_RECEIVE * (process->options.device_memory / RECEIVE_BYTES)) };
	int rc = storage_open_free_disk(process, &options);

	assert((rc == 0) == (process->disk != NULL));
	switch (rc) {
	case 0:
		return 0;
	case -EBUSY:
		return storage_in_use(path);
	case -EINVAL:
		return storage_error("%s: not a file or block device that takes direct I/O of "
				     "4096 bytes",
		    path);
	case -ENOSYS:
	case -EPERM:
		return storage_error(
		    "%s: no io_uring here, or it is not allowed (kernel.io_uring_disabled, "
		    "a sandbox): %s",
		    path, strerror(-rc));
	case -ENOENT:
		return storage_error(
		    "%s: there is no such file or device: make a disk with cleave-storage "
		    "format",
		    path);
	default:
		return storage_error("%s: cannot be opened: %s", path, strerror(-rc));
	}
}

static bool
storage_is_protected(const struct storage_process *process)
{
	assert(process->options.write_cache <= WRITE_CACHE_PROTECTED);
	if (process->options.write_cache == WRITE_CACHE_AUTO)
		return !process->disk->is_cache_volatile;
	if (process->options.write_cache != WRITE_CACHE_PROTECTED)
		return false;
	if (disk_uring_is_direct(process->disk))
		return true;
	log_warn(
	    "disk: flushed after each write, whatever --write-cache says: its file system is not known "
	    "to write past the page cache disk=%s",
	    process->options.disk);
	return false;
}

static int
storage_make_node(struct storage_process *process, uint64_t cluster_id)
{
	bool is_file = disk_uring_is_file(process->disk);
	struct node_options options = {
		.loop = process->loop,
		.disk_name = process->options.disk,
		.listen = process->options.listen,
		.advertise = process->options.advertise,
		.cluster_id = cluster_id,
		.node_id = (uint32_t)process->options.node_id,
		.write_cache = storage_is_protected(process) ? NODE_CACHE_PROTECTED
							     : NODE_CACHE_VOLATILE,
		.must_prewrite = is_file,
		.device_bytes = process->options.device_memory,
		.wants_huge_pages = process->options.wants_huge_pages,
		.engine_threads = (uint32_t)process->options.engine_threads,
		.head_cache_bytes = process->options.head_cache,
		.verify_bytes_s = process->options.verify_rate,
		.connections_max = process->connections_max,
		.direct = (enum node_direct)process->options.direct,
		.key = process->secure.key,
		.security = process->secure.security,
		.on_ready = storage_on_ready,
		.on_revoked = storage_on_revoked,
		.on_progress = storage_on_progress,
		.is_displaced = storage_is_displaced,
		.arg = process,
	};
	int rc = disk_sight_begin(&process->sight, process->loop, process->options.disk);

	assert(process->node == NULL);
	assert(process->disk != NULL);
	if (rc != 0)
		log_warn(
		    "disk: its path is not watched: who moves or deletes it is not noticed disk=%s "
		    "rc=%s",
		    process->options.disk, log_errno(rc));
	rc = storage_add_fault(process);
	if (rc != 0)
		return rc;
	options.disk = process->disk;
	process->node = node_create(&options);
	if (process->node == NULL)
		return storage_error("cannot make a node: %s", strerror(errno));
	process->disk = NULL;
	return 0;
}

static int
storage_run(struct storage_process *process, uint64_t cluster_id)
{
	int rc;

	assert(process->loop == NULL);
	process->loop = loop_ev_create(0);
	if (process->loop == NULL)
		return storage_error("cannot make an event loop: %s", strerror(errno));
	rc = storage_open_disk(process);
	if (rc == 0)
		rc = storage_make_node(process, cluster_id);
	if (rc == 0)
		rc = storage_watch_signals(process);
	if (rc == 0)
		rc = storage_start_metrics(process);
	if (rc == 0 && process->secure.key != NULL)
		rc = storage_begin_revoked(process);
	if (rc == 0) {
		watchdog_start(&process->watchdog, process->loop, "storage");
		node_start(process->node);
		(void)loop_run(process->loop, NULL, NULL); /* until loop_stop */
		rc = process->exit_code;
	}
	watchdog_stop(&process->watchdog);
	node_http_stop(&process->http);
	node_destroy(process->node);
	revoked_file_end(&process->revoked);
	disk_sight_end(&process->sight);
	if (process->disk != NULL)
		disk_close(process->disk);
	signals_fini(&process->signals);
	loop_destroy(process->loop);
	return rc;
}

/* Raise the limit on descriptors; where it stays too low, take fewer connections. Over RDMA they have none. */
static void
storage_prepare_descriptors(struct storage_process *process)
{
	uint64_t count;

	assert(process->loop == NULL); /* before threads, and what takes descriptors */
	if (strncmp(process->options.listen, "tcp://", 6) != 0)
		return;
	count = descriptors_prepare("storage", NODE_CONNECTIONS_MAX + SPLIT_SURPLUS_MAX);
	process->connections_max =
	    (uint32_t)(num_max(count, CONNECTIONS_MIN + SPLIT_SURPLUS_MAX) - SPLIT_SURPLUS_MAX);
	assert(process->connections_max <= NODE_CONNECTIONS_MAX);
}

/* Keys of tickets are told over sealed connections alone: of the two ends the stricter one says what a connection is. */
static void
storage_tell_direct(const struct storage_process *process)
{
	if (process->options.direct != DIRECT_ON ||
	    (process->secure.security != SPLIT_SECURITY_SIGN &&
		process->secure.security != SPLIT_SECURITY_OPEN))
		return;
	log_warn(
	    "storage: --direct on with --security %s: no client reads here unless gateways run with "
	    "--security seal: start this node so, or them",
	    process->secure.security == SPLIT_SECURITY_SIGN ? "sign" : "open");
}

static int
storage_serve(struct storage_process *process, const struct config_result *result,
    uint64_t cluster_id)
{
	int rc;

	process->cluster_id = cluster_id;
	daemon_tell_start(&process->daemon, result);
	secure_tell("storage", &process->secure, process->options.listen);
	storage_tell_direct(process);
	storage_prepare_descriptors(process);
	rc = storage_run(process, cluster_id);
	if (rc == 0)
		daemon_tell_stop(&process->daemon, process->why);
	return rc;
}

/* Standard output that cannot be written is no success. */
static int
finish(int status)
{
	return output_finish("cleave-storage", status, STORAGE_EXIT_FAILURE);
}

/* Options that a SIGHUP takes: their files are read again, even where their names are the same. */
static const char *const storage_reloaded[] = { "key", "revoked", NULL };

int
main(int argc, char *argv[])
{
	struct storage_process process = { .daemon = { .noun = "storage",
					       .program = &storage_program,
					       .argc = argc,
					       .argv = argv,
					       .values = &process.options,
					       .values_bytes = sizeof(process.options),
					       .options_offset =
						   offsetof(struct storage_options, log),
					       .reload = storage_reloaded } };
	struct config_result result = { 0 };
	uint64_t cluster_id = 0;
	int rc;

	descriptors_hold_standard();
	if (argc > 1 && strcmp(argv[1], "format") == 0)
		return finish(format_main(argc - 1, argv + 1));
	if (argc > 1 && strcmp(argv[1], "join") == 0)
		return finish(join_main(argc - 1, argv + 1));
	rc = config_parse(&storage_program, argc, argv, &process.options, &result);
	if (rc != 0) {
		config_result_fini(&result);
		return rc == 1 ? finish(0) : STORAGE_EXIT_USAGE;
	}
	daemon_begin(&process.daemon);
	if (options_check(&process.options, &result, &cluster_id, &process.secure) > 0)
		rc = result.is_check ? STORAGE_EXIT_FAILURE : STORAGE_EXIT_USAGE;
	else if (!result.is_check)
		rc = storage_serve(&process, &result, cluster_id);
	secure_close(&process.secure);
	config_result_fini(&result);
	return rc;
}
