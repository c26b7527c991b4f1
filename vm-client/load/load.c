/* SPDX-License-Identifier: Apache-2.0 */
/* load.c -- cleave-load: options, what a job runs in, and which job it is */
#include "load.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/descriptors.h"
#include "base/num.h"
#include "base/output.h"
#include "library/gateways.h"
#include "workload.h"

#define SECONDS_DEFAULT 10
#define SILENCE_NS NUM_MS(500) /* of a gateway that is asked for the volume, then it is said */
#define BUFFER_BYTES_MAX NUM_GIB(1)
#define MESSAGE_COUNT_MIN 256u
#define MESSAGE_COUNT_MAX CLEAVE_MESSAGES_MAX

static const char *const pattern_names[] = { "sequential", "random", "zipf", "latest", NULL };

/*
 * YCSB's core workloads, a record a block. Source: Cooper et al., "Benchmarking cloud serving systems with YCSB",
 * SoCC '10, table 2. Not E, which scans; D's inserts are writes after the newest one.
 */
static const char *const ycsb_names[] = { "none", "a", "b", "c", "d", "f", NULL };
static const struct {
	enum workload_pattern pattern;
	uint32_t read_percent, rewrite_percent;
} ycsb_workloads[] = {
	{ WORKLOAD_RANDOM, 0, 0 }, /* none: not used */
	{ WORKLOAD_ZIPF, 50, 0 },
	{ WORKLOAD_ZIPF, 95, 0 },
	{ WORKLOAD_ZIPF, 100, 0 },
	{ WORKLOAD_LATEST, 95, 0 },
	{ WORKLOAD_ZIPF, 50, 50 },
};

#define O(member) offsetof(struct load_options, member)
static const struct config_option options_table[] = {
	{ "gateway", 'g', CONFIG_LIST, O(gateways), "ADDR[,ADDR...]",
	    "A gateway, HOST:PORT or verbs://HOST:PORT; others to turn to behind a comma, or again "
	    "[$CLEAVE_GATEWAY or " CLEAVE_DEFAULT_GATEWAY "].",
	    NULL, false, 0, 0, NULL },
	SECURE_CLIENT_ROWS(struct load_options, secure),
	{ "volume", 'v', CONFIG_STRING, O(volume), "NAME",
	    "The volume; a run replaces its content.", NULL, true, 0, 0, NULL },
	{ "volumes", 0, CONFIG_U64, O(volume_count), "N",
	    "Load N volumes of one size at once, NAME1 to NAMEN, each by a session of its own with its "
	    "share of the requests in flight.",
	    "0", false, 0, LOAD_VOLUMES_MAX, NULL },
	{ "pattern", 'p', CONFIG_CHOICE, O(pattern), NULL, "Where requests go.", "random", false, 0,
	    0, pattern_names },
	{ "zipf-theta", 0, CONFIG_U64, O(zipf_theta_percent), "PERCENT",
	    "How skewed the zipf and latest patterns are, in hundredths.", "99", false, 1, 99,
	    NULL },
	{ "ycsb", 0, CONFIG_CHOICE, O(ycsb), NULL,
	    "The pattern and percents of this workload of YCSB's: a half reads, half writes; b 95 % reads; c "
	    "reads; d 95 % reads, of the newest writes mostly; f half reads, half rewrites.",
	    "none", false, 0, 0, ycsb_names },
	{ "read-percent", 'r', CONFIG_U64, O(read_percent), "N", "Reads among the requests.", "0",
	    false, 0, 100, NULL },
	{ "discard-percent", 0, CONFIG_U64, O(discard_percent), "N", "Discards among the requests.",
	    "0", false, 0, 100, NULL },
	{ "rewrite-percent", 0, CONFIG_U64, O(rewrite_percent), "N",
	    "Of the requests: reads whose block is written when it has come, timed as one.", "0",
	    false, 0, 100, NULL },
	{ "block-size", 'b', CONFIG_SIZE, O(block_bytes), "SIZE",
	    "Of each request: a multiple of 4K.", "4K", false, LOAD_BLOCK_BYTES,
	    LOAD_BLOCK_BYTES_MAX, NULL },
	{ "in-flight", 'q', CONFIG_U64, O(in_flight_count), "N", "Requests at a time.", "32", false,
	    1, LOAD_IN_FLIGHT_MAX, NULL },
	{ "rate", 0, CONFIG_U64, O(rate_per_s), "N",
	    "Requests a second, started on time whatever the others do; latency counts from then.",
	    "0", false, 0, 10000000, NULL },
	{ "io-timeout", 0, CONFIG_DURATION, O(io_timeout_ns), "DURATION",
	    "A request that nobody serves for so long is an error; 0: it waits for ever.", "60s",
	    false, 0, NUM_S(86400), NULL },
	{ "seconds", 's', CONFIG_U64, O(seconds), "N",
	    "End after that; the first end given counts; none given: 10 s.", "0", false, 0,
	    1000000000, NULL },
	{ "operations", 'n', CONFIG_U64, O(operation_count_max), "N",
	    "End after that many requests.", "0", false, 0, 0, NULL },
	{ "bytes", 0, CONFIG_SIZE, O(bytes_max), "SIZE", "End after requests of that many bytes.",
	    "0", false, 0, 0, NULL },
	{ "data", 'd', CONFIG_LIST, O(data), "FILE", "Write the blocks of FILE, behind stamps.",
	    NULL, false, 0, 0, NULL },
	{ "compressibility", 0, CONFIG_U64, O(compressibility_percent), "PERCENT",
	    "Of generated blocks (no --data): how much of each compresses away.", "50", false, 0,
	    100, NULL },
	{ "take", 0, CONFIG_FLAG, O(must_take), NULL,
	    "Take the volume from whoever has it open for writing.", NULL, false, 0, 0, NULL },
	{ "writer", 0, CONFIG_FLAG, O(is_writer), NULL,
	    "Open the volume for writing also where nothing is written: its writer alone reads one that is read "
	    "directly at storage nodes.",
	    NULL, false, 0, 0, NULL },
	{ "data-exact", 0, CONFIG_FLAG, O(is_data_exact), NULL,
	    "Write blocks without stamps; reads are checked against checksums kept in memory.",
	    NULL, false, 0, 0, NULL },
	{ "journal", 'j', CONFIG_STRING, O(journal), "FILE",
	    "Append to FILE what is issued and what is acknowledged.", NULL, false, 0, 0, NULL },
	{ "verify-journal", 0, CONFIG_STRING, O(verify_journal), "FILE",
	    "Prove that the volume holds what FILE promises; nothing is written.", NULL, false, 0,
	    0, NULL },
	{ "written-as", 0, CONFIG_U64, O(written_as), "ID",
	    "With --verify-journal: FILE is about the volume of this id, of which this is a clone or a "
	    "snapshot.",
	    NULL, false, 1, 0, NULL },
	{ "file-copy", 0, CONFIG_LIST, O(file_copy), "FILE",
	    "Write FILE to the volume, from its start on, and compare.", NULL, false, 0, 0, NULL },
	{ "file-verify", 0, CONFIG_LIST, O(file_verify), "FILE",
	    "Compare what --file-copy has written.", NULL, false, 0, 0, NULL },
	{ "json", 0, CONFIG_STRING, O(json), "FILE", "Write the report to FILE, too.", NULL, false,
	    0, 0, NULL },
	{ "seed", 0, CONFIG_U64, O(seed), "N", "The same seed, the same requests.", "1", false, 0,
	    0, NULL },
	{ "progress", 0, CONFIG_DURATION, O(progress_ns), "DURATION",
	    "A line about what came since the last one, so often.", "1s", false, NUM_MS(10),
	    NUM_S(86400), NULL },
	{ "quiet", 0, CONFIG_FLAG, O(is_quiet), NULL, "No progress lines.", NULL, false, 0, 0,
	    NULL },
	{ NULL, 0, CONFIG_FLAG, 0, NULL, NULL, NULL, false, 0, 0, NULL },
};
#undef O

static const struct config_program program = {
	.name = "cleave-load",
	.synopsis = "--volume NAME [--verify-journal FILE | --file-copy FILE... | options]",
	.purpose =
	    "Puts load on a volume and checks every block that it reads. Exits with 1 when a "
	    "block is not what it must be or a request fails.",
	.options = options_table,
	.operands_max = 16,
};

void
load_complain(const char *format, ...)
{
	char line[768];
	va_list args;

	assert(format != NULL);
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	fprintf(stderr, "cleave-load: %s\n", line);
}

/* ---- options ---- */
/* Words without dashes are further files of the job that takes files. */
static int
take_operands(struct load_options *o, const struct config_result *result)
{
	struct config_list *list = o->file_copy.count > 0 ? &o->file_copy : &o->file_verify;

	assert(o->file_copy.count <= CONFIG_LIST_MAX && o->file_verify.count <= CONFIG_LIST_MAX);
	if (result->operand_count > 0 && list->count == 0) {
		load_complain("unexpected word '%s'", result->operands[0]);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < result->operand_count; i++) {
		if (list->count == CONFIG_LIST_MAX) {
			load_complain("more than %d files", CONFIG_LIST_MAX);
			return -EINVAL;
		}
		list->items[list->count++] = result->operands[i];
	}
	return 0;
}

static bool
is_file_job(const struct load_options *o)
{
	assert(o->volume != NULL);
	return o->file_copy.count > 0 || o->file_verify.count > 0;
}

/* A journal is about one volume. */
static int
check_volumes(const struct load_options *o)
{
	assert(o->volume_count <= LOAD_VOLUMES_MAX);
	if (o->volume_count == 0)
		return 0;
	if (is_file_job(o) || o->verify_journal != NULL || o->journal != NULL) {
		load_complain("--volumes: not with journals or files to copy");
		return -EINVAL;
	}
	if (o->in_flight_count % o->volume_count != 0) {
		load_complain("--in-flight: %llu is not a multiple of --volumes",
		    (unsigned long long)o->in_flight_count);
		return -EINVAL;
	}
	return 0;
}

static int
check_workload(struct load_options *o)
{
	assert(o->ycsb < NUM_COUNT(ycsb_workloads));
	if (o->ycsb != 0 && (o->read_percent | o->discard_percent | o->rewrite_percent) != 0) {
		load_complain("--ycsb: has percents of its own");
		return -EINVAL;
	}
	if (o->ycsb != 0) {
		o->pattern = ycsb_workloads[o->ycsb].pattern;
		o->read_percent = ycsb_workloads[o->ycsb].read_percent;
		o->rewrite_percent = ycsb_workloads[o->ycsb].rewrite_percent;
	}
	if (o->read_percent + o->discard_percent + o->rewrite_percent <= 100)
		return 0;
	load_complain(
	    "--read-percent, --discard-percent, --rewrite-percent: more than 100 together");
	return -EINVAL;
}

static int
check_options(struct load_options *o, const struct config_result *result)
{
	assert(o->block_bytes >= LOAD_BLOCK_BYTES && o->in_flight_count <= LOAD_IN_FLIGHT_MAX);
	if (gateways_default("cleave-load", &o->gateways) != 0)
		return -EINVAL;
	if (!num_is_aligned(o->block_bytes, LOAD_BLOCK_BYTES)) {
		load_complain("--block-size: %llu is not a multiple of 4096",
		    (unsigned long long)o->block_bytes);
		return -EINVAL;
	}
	if (o->block_bytes * o->in_flight_count > BUFFER_BYTES_MAX) {
		load_complain("--block-size times --in-flight: more than 1 GiB");
		return -EINVAL;
	}
	if (check_workload(o) != 0)
		return -EINVAL;
	if (o->is_data_exact && o->journal != NULL) {
		load_complain("--journal: needs stamped blocks, so not with --data-exact");
		return -EINVAL;
	}
	if (o->verify_journal != NULL && (is_file_job(o) || o->journal != NULL)) {
		load_complain("--verify-journal: is a job of its own");
		return -EINVAL;
	}
	if (check_volumes(o) != 0)
		return -EINVAL;
	if (o->seconds == 0 && o->operation_count_max == 0 && o->bytes_max == 0)
		o->seconds = SECONDS_DEFAULT;
	return take_operands(o, result);
}

/* ---- what a job runs in ---- */
static void
on_signal(int number, void *arg)
{
	struct load *load = arg;

	(void)number;
	assert(load->options != NULL);
	/* The second one means it: requests that never end must not keep us. */
	if (load->is_interrupted)
		_exit(1);
	load->is_interrupted = true;
	if (load->on_interrupt != NULL)
		load->on_interrupt(load->on_interrupt_arg);
}

static void
on_stall(const struct cleave_stall *stall, void *arg)
{
	(void)arg;
	assert(stall->volume != NULL && (stall->is_over || stall->reason != NULL));
	if (stall->is_over && stall->reason[0] != '\0')
		load_complain("volume '%s': %s, after %.1f s", stall->volume, stall->reason,
		    (double)stall->waited_ns / NUM_S(1));
	else if (stall->is_over)
		load_complain("volume '%s' is answered again after %.1f s", stall->volume,
		    (double)stall->waited_ns / NUM_S(1));
	else
		load_complain("volume '%s' gets no answers: %s", stall->volume, stall->reason);
}

static int
create_client(struct load *load)
{
	const struct load_options *o = load->options;
	uint64_t messages = o->in_flight_count * ((o->block_bytes + 65535) / 65536);
	uint32_t message_count =
	    (uint32_t)num_min(num_max(messages, MESSAGE_COUNT_MIN), MESSAGE_COUNT_MAX);
	struct cleave_client_options options = {
		.loop = load->loop,
		.gateways = o->gateways.items,
		.gateway_count = o->gateways.count,
		.message_count_max = message_count,
		.connection_depth_max = message_count,
		.buffer_bytes = load->buffer_bytes,
		.io_timeout_ns = o->io_timeout_ns == 0 ? CLEAVE_FOREVER : o->io_timeout_ns,
		.on_stall = on_stall,
		.key = o->secure.key,
		.security = o->secure.security,
		.revoked = o->secure.revoked,
	};
	char error[CLEAVE_ERROR_BYTES_MAX] = "";
	int rc = cleave_client_create(&options, &load->client, error);

	assert(load->volume_count > 0);
	assert(message_count <= MESSAGE_COUNT_MAX);
	if (rc != 0)
		load_complain("client: %s", error[0] != '\0' ? error : strerror(-rc));
	return rc;
}

static int
name_volumes(struct load *load)
{
	const struct load_options *o = load->options;
	uint32_t count = o->volume_count == 0 ? 1 : (uint32_t)o->volume_count;

	assert(load->volumes == NULL && count <= LOAD_VOLUMES_MAX);
	load->volumes = calloc(count, sizeof(*load->volumes));
	if (load->volumes == NULL) {
		load_complain("out of memory");
		return -ENOMEM;
	}
	load->volume_count = count;
	for (uint32_t i = 0; i < count; i++) {
		char *name = load->volumes[i].name;
		size_t size = sizeof(load->volumes[i].name);
		int bytes = o->volume_count == 0 ? snprintf(name, size, "%s", o->volume)
						 : snprintf(name, size, "%s%u", o->volume, i + 1);

		if (bytes < 0 || (size_t)bytes >= size) {
			load_complain("--volume: the name is too long");
			return -EINVAL;
		}
	}
	return 0;
}

static void
on_open(struct cleave_volume *volume, int rc, const char *error, void *arg)
{
	struct load *load = arg;
	struct load_volume *opened = &load->volumes[load->opened_count];

	assert(!load->is_open_done && opened->volume == NULL);
	assert(load->opened_count < load->volume_count && (rc == 0) == (volume != NULL));
	opened->volume = volume;
	load->open_rc = rc;
	load->is_open_done = true;
	if (rc == 0)
		return;
	/* The library's text names the volume, mostly. */
	if (error != NULL && strstr(error, opened->name) != NULL)
		load_complain("%s", error);
	else
		load_complain("volume %s: %s", opened->name,
		    error != NULL && *error != '\0' ? error : strerror(-rc));
}

static bool
is_open_done(void *arg)
{
	const struct load *load = arg;

	assert(load->opened_count < load->volume_count);
	return load->is_open_done || load->is_interrupted;
}

/* The library asks on, for as long as half a minute: say whom. */
static void
on_silence(struct loop_timer *timer, void *arg)
{
	const struct load *load = arg;
	const struct config_list *gateways = &load->options->gateways;

	assert(load->opened_count < load->volume_count);
	(void)timer;
	for (uint32_t i = 0; i < gateways->count; i++)
		load_complain("no answer yet: waiting for the gateway at %s", gateways->items[i]);
}

/* The one at opened_count. */
static int
open_volume(struct load *load, unsigned flags)
{
	struct load_volume *opened = &load->volumes[load->opened_count];
	struct loop_timer silence;
	int rc = cleave_volume_open(load->client, opened->name, flags, on_open, load);

	assert(load->opened_count < load->volume_count);
	assert(opened->volume == NULL);
	if (rc != 0) {
		load_complain("volume %s: %s", opened->name, strerror(-rc));
		return rc;
	}
	load->is_open_done = false;
	loop_timer_init(&silence, on_silence, load);
	loop_timer_start(load->loop, &silence, SILENCE_NS);
	loop_run(load->loop, is_open_done, load);
	loop_timer_stop(load->loop, &silence);
	if (!load->is_open_done)
		return -EINTR;
	if (load->open_rc == 0)
		opened->info = *cleave_volume_info(opened->volume);
	return load->open_rc;
}

static int
open_volumes(struct load *load, unsigned flags)
{
	const struct load_volume *first = &load->volumes[0];

	assert(load->volume_count > 0 && load->opened_count == 0);
	for (; load->opened_count < load->volume_count; load->opened_count++) {
		const struct load_volume *volume = &load->volumes[load->opened_count];
		int rc = open_volume(load, flags);

		if (rc != 0)
			return rc;
		if (volume->info.size_bytes != first->info.size_bytes) {
			load_complain(
			    "volume %s: not of the size of %s, and all are to be of one size",
			    volume->name, first->name);
			return -EINVAL;
		}
	}
	return 0;
}

static void
on_close(void *arg)
{
	struct load *load = arg;

	assert(load->closing_count > 0);
	load->closing_count--;
}

static bool
is_close_done(void *arg)
{
	const struct load *load = arg;

	assert(load->closing_count <= load->volume_count);
	return load->closing_count == 0;
}

static int
set_up(struct load *load, unsigned flags)
{
	int rc;

	assert(load->loop == NULL && load->client == NULL);
	load->loop = loop_ev_create(0);
	if (load->loop == NULL) {
		load_complain("event loop: %s", strerror(errno));
		return -errno;
	}
	rc = signals_init(&load->signals, load->loop, on_signal, load);
	if (rc != 0) {
		load_complain("signals: %s", strerror(-rc));
		return rc;
	}
	rc = name_volumes(load);
	if (rc == 0)
		rc = create_client(load);
	return rc != 0 ? rc : open_volumes(load, flags);
}

static void
tear_down(struct load *load)
{
	assert(load->closing_count == 0);
	for (uint32_t i = 0; i < load->volume_count; i++) {
		if (load->volumes[i].volume == NULL)
			continue;
		load->closing_count++;
		cleave_volume_close(load->volumes[i].volume, on_close, load);
	}
	if (load->closing_count > 0)
		loop_run(load->loop, is_close_done, load);
	cleave_client_destroy(load->client);
	free(load->volumes);
	signals_fini(&load->signals);
	loop_destroy(load->loop);
}

static int
run_job(struct load *load)
{
	const struct load_options *o = load->options;
	bool is_reader = !o->is_writer &&
	    (o->verify_journal != NULL || (is_file_job(o) && o->file_copy.count == 0) ||
		(!is_file_job(o) && o->read_percent == 100));
	unsigned flags = is_reader ? CLEAVE_OPEN_READ_ONLY : 0;
	int status = 1;

	assert(load->loop == NULL && load->buffer_bytes == 0);
	/* Jobs that are not a run have small requests of their own memory. */
	if (o->verify_journal == NULL && !is_file_job(o))
		load->buffer_bytes = o->block_bytes * o->in_flight_count;
	if (!is_reader && o->must_take)
		flags = CLEAVE_OPEN_TAKE;
	if (set_up(load, flags) == 0) {
		if (o->verify_journal != NULL)
			status = load_verify(load);
		else if (is_file_job(o))
			status = load_copy(load);
		else
			status = load_run(load);
	}
	tear_down(load);
	return status;
}

int
main(int argc, char *argv[])
{
	struct load_options options = { 0 };
	struct config_result result = { 0 };
	struct load load = { .options = &options };
	int rc;

	descriptors_hold_standard();
	rc = config_parse(&program, argc, argv, &options, &result);
	if (rc == 1)
		return output_finish("cleave-load", 0, 1);
	if (rc != 0 || check_options(&options, &result) != 0) {
		config_result_fini(&result);
		return 2;
	}
	rc = run_job(&load);
	config_result_fini(&result);
	return output_finish("cleave-load", rc, 1);
}
