/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c -- cleave-gateway: its parts put together, the metadata store, signals; nothing else
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bus_fault.h"
#include "base/check.h"
#include "base/config.h"
#include "base/config_value.h"
#include "base/daemon.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/metrics_http.h"
#include "base/num.h"
#include "base/output.h"
#include "base/signals.h"
#include "base/watchdog.h"
#include "cleave/loop.h"
#include "cleave/meta.h"
#include "cleave/secure_metrics.h"
#include "cleave/secure_options.h"
#include "cleave/split.h"
#include "cluster/gateway_state.h"
#include "cluster/revoked.h"
#include "control/control_settings.h"
#include "gateway/gateway.h"
#include "kms/kms.h"
#include "meta/meta_lmdb.h"
#include "meta/meta_open.h"
#include "move/move_main.h"
#include "page/page.h"
#include "rebuild/accept_main.h"
#include "rebuild/rebuild_main.h"
#include "start/command_check.h"
#include "start/command_line.h"
#include "start/command_secure.h"
#include "start/creation_main.h"
#include "start/gateway_id.h"
#include "start/release_main.h"
#include "start/starting.h"
#include "start/store_path.h"

#define EXIT_USAGE 2
#define ERROR_BYTES 512

_Static_assert(ERROR_BYTES >= MT_ERROR_BYTES, "a sentence of the KEKs");

struct gateway_process {
	struct loop *loop;
	struct meta *meta;
	struct mt_gateway *gateway;
	struct mt_starting starting;
	struct metrics_http *metrics; /* NULL: nobody may ask */
	struct secure_metrics guard;  /* who may, over TLS */
	struct mt_page page;          /* what it tells */
	struct signals signals;
	struct watchdog watchdog;
	struct daemon daemon;
	struct secure secure;
	struct mt_kms *kms;
	char why[SIGNALS_TEXT_BYTES]; /* it stops */
	bool is_stopping;
	int exit_code;
};

/* Running. */

static void
on_stopped(void *arg)
{
	struct gateway_process *process = arg;

	assert(process->is_stopping);
	loop_stop(process->loop);
}

static void
process_stop(struct gateway_process *process)
{
	assert(process->gateway != NULL);
	if (process->is_stopping)
		return;
	process->is_stopping = true;
	watchdog_release(&process->watchdog);
	mt_gateway_stop(process->gateway, on_stopped, process);
}

static void
on_reload(const void *values, void *arg)
{
	const struct mt_command_line *fresh = values;
	struct gateway_process *process = arg;

	if (process->gateway == NULL)
		return; /* it waits for its store, and has no events yet */
	mt_settings_log_level(process->gateway, (enum log_level)fresh->log.log_level,
	    process->signals.text, NULL);
	mt_settings_slow_op(process->gateway, fresh->slow_op, process->signals.text, NULL);
	mt_command_secure_reload(fresh, &process->secure, process->gateway);
}

static void
on_signal(int number, void *arg)
{
	struct gateway_process *process = arg;

	assert(process->loop != NULL);
	if (number == SIGHUP) {
		(void)daemon_reload(&process->daemon, process->signals.text, on_reload, process);
		return;
	}
	daemon_tell_stopping(&process->daemon, process->signals.text);
	memcpy(process->why, process->signals.text, sizeof(process->why));
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

	assert(process->gateway != NULL);
	mt_starting_end(&process->starting, true);
}

/* mt_gateway_fail has said why. */
static void
on_failed(int rc, const char *text, void *arg)
{
	struct gateway_process *process = arg;

	assert(rc < 0);
	assert(process->gateway != NULL);
	(void)rc;
	(void)text;
	process->exit_code = EXIT_FAILURE;
	mt_starting_fini(&process->starting); /* the reason is told already */
	process_stop(process);
}

static const struct split_key *
metrics_key(void *arg)
{
	const struct gateway_process *process = arg;

	return process->gateway == NULL ? process->secure.key : process->gateway->revoked.key;
}

static bool
metrics_is_ready(void *arg)
{
	const struct gateway_process *process = arg;

	return process->gateway != NULL && mt_revoked_is_ready(process->gateway);
}

static int
start_metrics(struct gateway_process *process, const struct mt_command_line *values)
{
	const struct metrics_http_options options = { .address = values->metrics,
		.is_open = values->metrics_words.is_open,
		.wants_tls = values->metrics_words.wants_tls,
		.guard = process->secure.key == NULL ? NULL : &secure_metrics_guard,
		.guard_arg = &process->guard,
		.paths = mt_page_paths,
		.path_count = MT_PAGE_PATHS_NR,
		.arg = &process->page };
	char error[ERROR_BYTES];

	assert(process->metrics == NULL);
	if (values->metrics == NULL)
		return 0;
	mt_page_init(&process->page, process->loop);
	process->guard = (struct secure_metrics){ .noun = "gateway",
		.key = metrics_key,
		.is_ready = metrics_is_ready,
		.arg = process,
		.takes_anybody = options.is_open };
	process->metrics = metrics_http_start(process->loop, &options, error, sizeof(error));
	if (process->metrics == NULL) {
		log_error("gateway: --metrics: %s", error);
		return -EINVAL;
	}
	secure_metrics_tell(&process->guard, metrics_http_address(process->metrics),
	    metrics_http_is_tls(process->metrics));
	return 0;
}

/* Another process is this gateway now: whatever this one did would be done twice. */
static void
on_claim_lost(void *arg)
{
	struct gateway_process *process = arg;

	assert(process->loop != NULL && process->meta != NULL);
	log_error(
	    "gateway: another process has this gateway's id, after the metadata store was silent "
	    "for too long: stopping");
	process->exit_code = EXIT_FAILURE;
	if (process->gateway == NULL) {
		loop_stop(process->loop);
		return;
	}
	mt_starting_fini(&process->starting); /* the reason is told already */
	process_stop(process);
}

static int
open_store(struct gateway_process *process, struct meta_where *where,
    struct mt_gateway_options *options)
{
	const char *directory = meta_where_directory(where);
	char error[ERROR_BYTES];

	assert(process->meta == NULL && process->gateway == NULL);
	assert(options->boot_id == 0);
	/* Before anything is made there: who mounts it later finds it as it was. */
	if (mt_meta_where_check(where) != 0)
		return -ENOENT;
	process->meta = meta_open(where, process->loop, error, sizeof(error));
	if (process->meta == NULL) {
		log_error("gateway: metadata store: %s", error);
		return -EIO;
	}
	if (mt_gateway_ids_take(directory, options) != 0)
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
run(struct gateway_process *process, const struct mt_command_line *values, struct meta_where *where,
    struct mt_gateway_options *options)
{
	char error[ERROR_BYTES];
	int rc;

	assert(process->loop == NULL && process->gateway == NULL);
	assert(options->meta == NULL);
	process->loop = loop_ev_create(0);
	rc = process->loop == NULL
	    ? -errno
	    : signals_init(&process->signals, process->loop, on_signal, process);
	if (rc != 0) {
		log_error("gateway: no event loop: %s", strerror(-rc));
		return EXIT_FAILURE;
	}
	watchdog_start(&process->watchdog, process->loop, "gateway");
	/* First: an address that is taken costs nobody a take-over. */
	if (start_metrics(process, values) != 0)
		return EXIT_FAILURE;
	if (mt_kms_open(values->keks.items, values->keks.count, process->loop, 0, &process->kms,
		error) != 0) {
		log_error("gateway: --kek: %s", error);
		return EXIT_FAILURE;
	}
	if (open_store(process, where, options) != 0)
		return EXIT_FAILURE;
	options->kms = process->kms;
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
	if (process->metrics != NULL)
		mt_page_begin(&process->page, process->gateway);
	rc = mt_gateway_start(process->gateway, error, sizeof(error));
	if (rc != 0) {
		log_error("gateway: %s", error);
		return EXIT_FAILURE;
	}
	for (uint32_t i = 0; i < process->gateway->port_count && !process->is_stopping; i++)
		watchdog_watch(&process->watchdog, process->gateway->ports[i].loop);
	/* Not begun for one that has failed already: that has said why. */
	if (process->exit_code == EXIT_SUCCESS)
		mt_starting_begin(&process->starting, process->gateway);
	(void)loop_run(process->loop, NULL, NULL);
	return process->exit_code;
}

static void
process_fini(struct gateway_process *process)
{
	assert(process->gateway == NULL || process->meta != NULL);
	mt_starting_fini(&process->starting);
	watchdog_stop(&process->watchdog);
	mt_kms_close(process->kms);           /* forgets the calls that the gateway has */
	mt_gateway_destroy(process->gateway); /* forgets who asked */
	mt_page_fini(&process->page);
	metrics_http_stop(process->metrics);
	if (process->meta != NULL)
		process->meta->ops->close(process->meta);
	signals_fini(&process->signals);
	loop_destroy(process->loop);
}

static bool
is_tcp(const char *address)
{
	return strncmp(address, "tcp://", 6) == 0;
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

	assert(options->port_count > 0 && options->node_count <= MT_NODES_MAX);
	assert(options->port_count <= MT_PORTS_MAX);
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

/* A mode other than serving, from its beginning to its end; -1: it is to serve. */
static int
run_mode(const struct mt_command_line *values, struct mt_gateway_options *options,
    struct meta_where *where, const struct meta_where *to)
{
	struct mt_kms *kms = NULL;
	char error[ERROR_BYTES];
	int rc;

	/* A KEK's program may end before it has read what it is asked (kek_command.h). */
	(void)signal(SIGPIPE, SIG_IGN);
	if (values->is_recovery &&
	    mt_kms_open(values->keks.items, values->keks.count, NULL, 0, &kms, error) != 0) {
		log_error("recover: --kek: %s", error);
		return EXIT_FAILURE;
	}
	options->kms = kms;
	if (values->is_creation)
		rc = mt_creation_main(options, where);
	else if (values->is_recovery)
		rc = mt_rebuild_main(options, where, values->is_forced, values->must_take);
	else if (values->is_accepting)
		rc = mt_accept_main(options, where, values->must_take, values->is_forced);
	else if (values->is_release)
		rc = mt_release_main(options, where);
	else if (values->is_dump)
		rc = mt_dump_main(options, where);
	else if (values->is_load)
		rc = mt_load_main(options, where, values->must_take);
	else if (values->move_to != NULL)
		rc = mt_move_main(options, where, to, values->must_take);
	else
		return -1;
	mt_kms_close(kms);
	return rc == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool
is_server(const struct mt_command_line *values)
{
	return !values->is_creation && !values->is_recovery && !values->is_accepting &&
	    !values->is_release && !values->is_dump && !values->is_load && values->move_to == NULL;
}

/* All that is wrong with the options is said. Returns how much it is. */
static uint32_t
take_options(const struct mt_command_line *values, struct config_result *result,
    struct mt_gateway_options *options, struct meta_where *where, struct meta_where *to,
    struct secure *secure)
{
	char error[MT_COMMAND_LINE_ERROR_BYTES], *rest = error, *line;

	if (mt_command_line_take(values, options, where, to, error, sizeof(error)) != 0) {
		while ((line = strsep(&rest, "\n")) != NULL && line[0] != '\0')
			config_problem(&mt_command_line_program, result, "%s", line);
	}
	mt_command_secure_take(values, is_server(values), result, options, secure);
	/* Before it is opened: an etcd's history is shortened, and its size watched, by a gateway alone. */
	if (is_server(values))
		where->gateway_id = options->gateway_id;
	if ((is_server(values) || values->is_release) && options->gateway_id == 0 &&
	    where->place != NULL && meta_where_directory(where) == NULL)
		config_problem(&mt_command_line_program, result,
		    "--gateway-id is required with an etcd and no key: a number of its own for "
		    "each gateway that shares it");
	if (is_server(values))
		secure_metrics_check(&mt_command_line_program, result, secure, values->metrics,
		    &values->metrics_words);
	if (result->is_check && where->place != NULL && is_server(values))
		mt_command_line_check_files(values, where, result);
	return result->problem_count;
}

static int
serve(struct gateway_process *process, const struct mt_command_line *values,
    const struct config_result *result, struct meta_where *where,
    struct mt_gateway_options *options)
{
	char why[SPLIT_KEY_WHY_BYTES_MAX];
	int rc;

	daemon_tell_start(&process->daemon, result);
	/* Else it takes its part of the shards, and serves none. Tried again: many a clock is set soon after a boot. */
	if (!secure_is_timely(&process->secure, log_wall_s(), why)) {
		log_error("gateway: %s", why);
		return EXIT_FAILURE;
	}
	mt_command_secure_tell(&process->secure, options, where->place);
	prepare_descriptors(options);
	rc = run(process, values, where, options);
	process_fini(process);
	if (rc == EXIT_SUCCESS)
		daemon_tell_stop(&process->daemon, process->why);
	return rc;
}

int
main(int argc, char *argv[])
{
	struct mt_gateway_options options = { 0 };
	struct mt_command_line values = { 0 };
	struct gateway_process process = { .exit_code = EXIT_SUCCESS,
		.daemon = { .noun = "gateway",
		    .program = &mt_command_line_program,
		    .argc = argc,
		    .argv = argv,
		    .values = &values,
		    .values_bytes = sizeof(values),
		    .options_offset = offsetof(struct mt_command_line, log),
		    .reload = mt_command_line_reload } };
	struct meta_where where = { 0 }, to = { 0 };
	struct config_result result = { 0 };
	int rc;

	descriptors_hold_standard();
	rc = config_parse(&mt_command_line_program, argc, argv, &values, &result);
	if (rc != 0)
		return rc > 0 ? output_finish("cleave-gateway", EXIT_SUCCESS, EXIT_FAILURE)
			      : EXIT_USAGE;
	daemon_begin(&process.daemon);
	bus_fault_tell("cleave-gateway", "of a metadata store " META_LMDB_BROKEN_HELP);
	if (take_options(&values, &result, &options, &where, &to, &process.secure) > 0)
		rc = result.is_check ? EXIT_FAILURE : EXIT_USAGE;
	else if (result.is_check)
		rc = EXIT_SUCCESS;
	else if (mt_store_id_take(&options) != 0)
		rc = EXIT_FAILURE;
	else
		rc = run_mode(&values, &options, &where, &to);
	if (rc < 0)
		rc = serve(&process, &values, &result, &where, &options);
	secure_close(&process.secure);
	config_result_fini(&result);
	return rc;
}
