/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_seeds.c -- run seed after seed, on several cores; for ctest and for `./dev sim`
 *
 * Workers are processes; worker k of n takes each n-th seed. They write what came of it to a shared
 * table, one entry a worker, and violations to standard output as they are found.
 *
 * A replay runs the lines of a file: seed, options as on the command line ("-": none), what the seed has
 * found; separated by tabs.
 *
 * SIGINT or SIGTERM ends it when the seeds at work are through, with the sums of what was run and status 1;
 * a second one at once.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/config_value.h"
#include "base/num.h"
#include "run.h"

#define JOBS_MAX 64u
#define OPTIONS_MAX 32
#define REPLAY_BYTES_MAX 65536u

struct search {
	struct sim_run_options options;
	uint64_t first_seed, seed_count; /* 0: without end */
	uint64_t minutes;                /* 0: without end */
	uint64_t job_count, twice_every; /* each n-th seed runs twice: one trace */
	bool is_quiet, is_here;
	const char *replay_file;
};

/* Sums of one worker's runs. */
struct tally {
	uint64_t seed_count, failed_count, virtual_ns, op_count, takeover_count, repair_count;
	uint64_t sweep_count, delete_count, blind_count, merge_count, stage_count,
	    staged_seed_count, hasty_count, covered_count, refused_count, away_count,
	    recalled_count, hot_count, hot_seed_count, head_count;
	uint64_t snapshot_count, etcd_seed_count, change_count, relief_count, deed_count,
	    theft_count;
	uint64_t lease_count, map_read_count, direct_read_count, heated_count, peek_count,
	    torn_count;
	uint64_t fault_counts[SIM_FAULT_NR];
};

/* Memory that the processes share. */
struct table {
	struct tally tallies[JOBS_MAX];
	volatile sig_atomic_t is_interrupted;
};

static struct table *table;
static pid_t search_pid;

/* Also in the workers, and in what runs a seed: of a group that is signalled, the first process acts. */
static void
search_on_signal(int number)
{
	(void)number;
	if (getpid() != search_pid)
		return;
	if (table->is_interrupted)
		_exit(1); /* the others end with it */
	table->is_interrupted = 1;
}

static void
table_open(void)
{
	struct sigaction action = { .sa_handler = search_on_signal, .sa_flags = SA_RESTART };

	table =
	    mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (table == MAP_FAILED) {
		perror("sim: mmap");
		exit(1);
	}
	search_pid = getpid();
	(void)sigaction(SIGINT, &action, NULL); /* cannot fail */
	(void)sigaction(SIGTERM, &action, NULL);
}

static void __attribute__((noreturn)) usage(int rc)
{
	(void)fputs(
	    "usage: sim_run_seeds [--seed S | --first S] [--seeds N] [--minutes M]\n"
	    "  [--jobs N] [--gateways 1..3] [--nodes 3..5] [--clients 1..3] [--operations N]\n"
	    "  [--snapshots yes|no] [--meta etcd|memory|by-seed] [--members yes|no] [--balance yes|no]\n"
	    "  [--keys yes|no]\n"
	    "  [--faults none|all|NAME,...] [--twice-every N] [--quiet] [--here]\n"
	    "  [--replay FILE]\n"
	    "CLEAVE_SIM_LOG=info|debug|trace prints the daemons' logs in virtual time;\n"
	    "CLEAVE_SIM_TRACE=1 every event. Faults:\n",
	    rc == 0 ? stdout : stderr);
	for (uint32_t i = 0; i < SIM_FAULT_NR; i++)
		(void)fprintf(rc == 0 ? stdout : stderr, "  %-18s %s\n",
		    sim_fault_name((enum sim_fault)i), sim_fault_text((enum sim_fault)i));
	exit(rc);
}

static uint64_t
number(const char *text)
{
	uint64_t value;

	if (config_parse_u64(text, &value) != 0)
		usage(2);
	return value;
}

static double
wall_s(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail */
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void
tally_add(struct tally *tally, const struct sim_run_result *result)
{
	tally->virtual_ns += result->virtual_ns;
	tally->op_count += result->op_count;
	tally->takeover_count += result->takeover_count;
	tally->repair_count += result->repair_count;
	tally->sweep_count += result->sweep_count;
	tally->delete_count += result->delete_count;
	tally->blind_count += result->blind_count;
	tally->merge_count += result->merge_count;
	tally->stage_count += result->stage_count;
	tally->staged_seed_count += result->stage_count > 0;
	tally->hasty_count += result->hasty_count;
	tally->covered_count += result->covered_count;
	tally->refused_count += result->refused_count;
	tally->away_count += result->away_count;
	tally->recalled_count += result->recalled_count;
	tally->hot_count += result->hot_count;
	tally->hot_seed_count += result->hot_count > 0;
	tally->head_count += result->head_count;
	tally->snapshot_count += result->snapshot_count;
	tally->change_count += result->change_count;
	tally->relief_count += result->relief_count;
	tally->deed_count += result->deed_count;
	tally->theft_count += result->theft_count;
	tally->lease_count += result->lease_count;
	tally->map_read_count += result->map_read_count;
	tally->direct_read_count += result->direct_read_count;
	tally->heated_count += result->heated_count;
	tally->peek_count += result->peek_count;
	tally->torn_count += result->torn_count;
	tally->etcd_seed_count += result->is_on_etcd;
	for (uint32_t i = 0; i < SIM_FAULT_NR; i++)
		tally->fault_counts[i] += result->fault_counts[i];
}

static void
run_one(const struct search *search, uint64_t seed, struct tally *tally)
{
	struct sim_run_options options = search->options;
	struct sim_run_result result = { 0 }, again = { 0 };
	char text[SIM_RUN_TEXT_BYTES + 600];
	int rc;

	options.seed = seed;
	rc = sim_run_seed(&options, &result, text, sizeof(text));
	if (rc == 0 && search->twice_every != 0 && seed % search->twice_every == 0) {
		rc = sim_run_seed(&options, &again, text, sizeof(text));
		if (rc == 0 && result.trace_hash != again.trace_hash) {
			(void)snprintf(text, sizeof(text),
			    "two runs, two traces: %" PRIx64 ", %" PRIx64, result.trace_hash,
			    again.trace_hash);
			rc = -EBADMSG;
		}
	}
	tally_add(tally, &result);
	tally->seed_count++;
	if (rc == 0)
		return;
	tally->failed_count++;
	(void)printf("seed %" PRIu64 ": %s\n", seed, text);
	(void)fflush(stdout);
}

static void
worker_run(const struct search *search, uint64_t index, double end_s, struct tally *tally)
{
	for (uint64_t i = index; search->seed_count == 0 || i < search->seed_count;
	     i += search->job_count) {
		if (table->is_interrupted || (search->minutes != 0 && wall_s() >= end_s))
			break;
		run_one(search, search->first_seed + i, tally);
	}
}

static void
print_totals(const struct tally *sum, double seconds)
{
	uint64_t fault_count = 0;

	for (uint32_t i = 0; i < SIM_FAULT_NR; i++) {
		fault_count += sum->fault_counts[i];
		if (sum->fault_counts[i] != 0)
			(void)printf("%10" PRIu64 "  %s\n", sum->fault_counts[i],
			    sim_fault_text((enum sim_fault)i));
	}
	(void)printf("%" PRIu64 " seeds, %.2f simulated hours, %" PRIu64 " operations, %" PRIu64
		     " faults, %" PRIu64 " take-overs, %" PRIu64 " repairs, %" PRIu64
		     " orphans swept, %" PRIu64 " deletions judged, %" PRIu64
		     " of them blindly, %" PRIu64 " merges (%" PRIu64 " early stages, in %" PRIu64
		     " seeds, %" PRIu64 " runs in haste, %" PRIu64 " covered, %" PRIu64
		     " made elsewhere, %" PRIu64 " not, %" PRIu64 " refused), %" PRIu64
		     " hot reads, in %" PRIu64 " seeds, %" PRIu64 " heads had in memory, %" PRIu64
		     " snapshots, %" PRIu64 " changes of nodes, %" PRIu64
		     " shards given away by load, %" PRIu64 " deeds of enemies, %" PRIu64
		     " thefts, %" PRIu64 " changes under read leases, %" PRIu64
		     " blocks of runs as maps say, %" PRIu64 " reads at nodes (%" PRIu64
		     " runs told of), %" PRIu64 " out of gateways' memory (%" PRIu64
		     " met a change), %" PRIu64 " seeds on an etcd, %.0f s; %" PRIu64
		     " seeds failed%s\n",
	    sum->seed_count, (double)sum->virtual_ns / 3600e9, sum->op_count, fault_count,
	    sum->takeover_count, sum->repair_count, sum->sweep_count, sum->delete_count,
	    sum->blind_count, sum->merge_count, sum->stage_count, sum->staged_seed_count,
	    sum->hasty_count, sum->covered_count, sum->away_count, sum->recalled_count,
	    sum->refused_count, sum->hot_count, sum->hot_seed_count, sum->head_count,
	    sum->snapshot_count, sum->change_count, sum->relief_count, sum->deed_count,
	    sum->theft_count, sum->lease_count, sum->map_read_count, sum->direct_read_count,
	    sum->heated_count, sum->peek_count, sum->torn_count, sum->etcd_seed_count, seconds,
	    sum->failed_count, table->is_interrupted ? " (interrupted)" : "");
}

static int
search_run(const struct search *search)
{
	double begin_s = wall_s(), end_s = begin_s + (double)search->minutes * 60;
	struct tally sum = { 0 };
	int status, rc = 0;

	for (uint64_t i = 0; i < search->job_count; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* cannot fail */
			if (getppid() != search_pid)
				_exit(1); /* it has ended before */
			worker_run(search, i, end_s, &table->tallies[i]);
			_exit(0);
		}
		if (pid < 0)
			return 1;
	}
	while (wait(&status) > 0)
		rc |= status != 0;
	for (uint64_t i = 0; i < search->job_count; i++) {
		const struct tally *tally = &table->tallies[i];

		for (uint32_t k = 0; k < sizeof(sum) / sizeof(uint64_t); k++)
			((uint64_t *)&sum)[k] += ((const uint64_t *)tally)[k];
	}
	if (!search->is_quiet)
		print_totals(&sum, wall_s() - begin_s);
	return rc != 0 || sum.failed_count != 0 || table->is_interrupted;
}

static void
run_here(const struct search *search)
{
	struct sim_run_options options = search->options;
	struct sim_run_result result;

	options.seed = search->first_seed;
	sim_run_here(&options, &result);
	(void)printf("trace %" PRIx64 ", %.3f s\n", result.trace_hash,
	    (double)result.virtual_ns / 1e9);
	exit(0);
}

static const struct option long_options[] = { { "seed", 1, NULL, 's' }, { "first", 1, NULL, 'f' },
	{ "seeds", 1, NULL, 'n' }, { "minutes", 1, NULL, 'm' }, { "jobs", 1, NULL, 'j' },
	{ "gateways", 1, NULL, 'g' }, { "nodes", 1, NULL, 'k' }, { "clients", 1, NULL, 'c' },
	{ "operations", 1, NULL, 'o' }, { "faults", 1, NULL, 'x' }, { "twice-every", 1, NULL, 't' },
	{ "quiet", 0, NULL, 'q' }, { "here", 0, NULL, 'h' }, { "replay", 1, NULL, 'r' },
	{ "snapshots", 1, NULL, 'S' }, { "meta", 1, NULL, 'M' }, { "members", 1, NULL, 'e' },
	{ "balance", 1, NULL, 'b' }, { "keys", 1, NULL, 'y' }, { "help", 0, NULL, 'H' }, { 0 } };

static uint32_t
meta_kind(const char *text)
{
	if (strcmp(text, "etcd") == 0)
		return SIM_META_ETCD;
	if (strcmp(text, "memory") == 0)
		return SIM_META_MEMORY;
	if (strcmp(text, "by-seed") != 0)
		usage(2);
	return SIM_META_BY_SEED;
}

static void
option_set(struct search *search, int letter)
{
	switch (letter) {
	case 's':
		search->seed_count = 1;
		search->first_seed = number(optarg);
		break;
	case 'f':
		search->first_seed = number(optarg);
		break;
	case 'n':
		search->seed_count = number(optarg);
		break;
	case 'm':
		search->minutes = number(optarg);
		break;
	case 'j':
		search->job_count = num_max(1, num_min(JOBS_MAX, number(optarg)));
		break;
	case 'g':
		search->options.gateway_count = (uint32_t)number(optarg);
		break;
	case 'k':
		search->options.node_count = (uint32_t)number(optarg);
		break;
	case 'c':
		search->options.client_count = (uint32_t)number(optarg);
		break;
	case 'o':
		search->options.op_count = (uint32_t)number(optarg);
		break;
	case 't':
		search->twice_every = number(optarg);
		break;
	case 'r':
		search->replay_file = optarg;
		break;
	case 'q':
		search->is_quiet = true;
		break;
	case 'h':
		search->is_here = true;
		break;
	case 'S':
		search->options.snapshots = strcmp(optarg, "no") == 0 ? SIM_SNAPSHOTS_NO
								      : SIM_SNAPSHOTS_YES;
		break;
	case 'e':
		search->options.members = strcmp(optarg, "no") == 0 ? SIM_MEMBERS_NO
								    : SIM_MEMBERS_YES;
		break;
	case 'b':
		search->options.balance = strcmp(optarg, "no") == 0 ? SIM_BALANCE_NO
								    : SIM_BALANCE_YES;
		break;
	case 'y':
		search->options.keys = strcmp(optarg, "no") == 0 ? SIM_KEYS_NO : SIM_KEYS_YES;
		break;
	case 'M':
		search->options.meta = meta_kind(optarg);
		break;
	case 'x':
		if (sim_faults_parse(optarg, &search->options.faults) != 0)
			usage(2);
		break;
	case 'H':
		usage(0);
	default:
		usage(2);
	}
}

static void
options_parse(struct search *search, char *text)
{
	static char name[] = "replay";
	char *argv[OPTIONS_MAX] = { name };
	int argc = 1, letter;

	for (char *word = strtok(text, " "); word != NULL && argc + 1 < OPTIONS_MAX;
	     word = strtok(NULL, " "))
		if (strcmp(word, "-") != 0)
			argv[argc++] = word;
	optind = 0; /* glibc: begin anew */
	while ((letter = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		option_set(search, letter);
}

static void
replay_line(char *line, struct tally *tally)
{
	char *seed = strtok(line, "\t\n"), *options = strtok(NULL, "\t\n");
	struct search search = { .twice_every = 0 };

	if (seed == NULL || seed[0] == '#' || options == NULL)
		return;
	options_parse(&search, options);
	run_one(&search, number(seed), tally);
}

/* Read to its end first: processes that are forked share the file's position. */
static int
replay(const struct search *search)
{
	FILE *file = fopen(search->replay_file, "r");
	struct tally tally = { 0 };
	static char text[REPLAY_BYTES_MAX + 1];
	size_t bytes;

	if (file == NULL) {
		perror(search->replay_file);
		return 2;
	}
	bytes = fread(text, 1, REPLAY_BYTES_MAX, file);
	text[bytes] = 0;
	(void)fclose(file); /* it was only read */
	for (char *line = text, *end; *line != 0 && !table->is_interrupted; line = end) {
		end = line + strcspn(line, "\n");
		if (*end != 0)
			*end++ = 0;
		replay_line(line, &tally);
	}
	print_totals(&tally, 0);
	return tally.failed_count != 0 || table->is_interrupted;
}

int
main(int argc, char **argv)
{
	struct search search = { .first_seed = 1, .twice_every = 50 };
	int letter;

	search.job_count = num_max(1, num_min(JOBS_MAX, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN)));
	while ((letter = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		option_set(&search, letter);
	if (optind != argc)
		usage(2);
	if (search.seed_count == 0 && search.minutes == 0)
		search.seed_count = 100;
	if (search.is_here)
		run_here(&search);
	table_open();
	if (search.replay_file != NULL)
		return replay(&search);
	return search_run(&search);
}
