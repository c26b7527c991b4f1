/* SPDX-License-Identifier: Apache-2.0 */
/* report.c -- numbers with their units */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>

#include "base/check.h"
#include "base/num.h"
#include "base/output.h"
#include "cleave/client.h"

static const char *const op_names[REPORT_NR] = { "read", "write", "discard", "rewrite" };

static const struct {
	const char *name;
	double percent;
} percentiles[] = { { "p50", 50 }, { "p90", 90 }, { "p99", 99 }, { "p999", 99.9 } };

double
report_cpu_s(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	    (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void
report_start(struct report *report, uint64_t now_ns)
{
	assert(now_ns > 0);
	memset(report, 0, sizeof(*report));
	for (int op = 0; op < REPORT_NR; op++)
		histogram_init(&report->latency_ns[op]);
	histogram_init(&report->second_latency_ns);
	report->started_ns = report->second_started_ns = now_ns;
	report->cpu_started_s = report_cpu_s();
}

void
report_add(struct report *report, enum report_op op, uint64_t bytes, uint64_t latency_ns)
{
	assert(report->ended_ns == 0 && report->started_ns > 0);
	assert(op < REPORT_NR);
	histogram_record(&report->latency_ns[op], latency_ns);
	histogram_record(&report->second_latency_ns, latency_ns);
	report->counts[op].op_count++;
	report->counts[op].bytes += bytes;
	report->second[op].op_count++;
	report->second[op].bytes += bytes;
}

void
report_progress(struct report *report, const struct cleave_stats *stats, uint64_t now_ns, FILE *out)
{
	double s = (double)(now_ns - report->second_started_ns) / 1e9, bytes = 0;

	assert(report->ended_ns == 0 && out != NULL);
	assert(now_ns >= report->second_started_ns);
	if (s <= 0)
		return;
	fprintf(out, "%.*f s", s < 0.9 ? 2 : 0, (double)(now_ns - report->started_ns) / 1e9);
	for (int op = 0; op < REPORT_NR; op++) {
		if (report->counts[op].op_count == 0 && op != REPORT_WRITE)
			continue;
		fprintf(out, "  %.0f %ss/s", (double)report->second[op].op_count / s, op_names[op]);
		bytes += (double)report->second[op].bytes;
	}
	fprintf(out, "  %.1f MB/s  p99 %.0f us", bytes / s / 1e6,
	    (double)histogram_percentile(&report->second_latency_ns, 99) / 1e3);
	if (stats->hot_reads > 0)
		fprintf(out, "  hot %" PRIu64, stats->hot_reads);
	if (stats->direct_reads > 0)
		fprintf(out, "  direct %" PRIu64, stats->direct_reads);
	fputc('\n', out);
	fflush(out);
	histogram_init(&report->second_latency_ns);
	memset(report->second, 0, sizeof(report->second));
	report->second_started_ns = now_ns;
}

static double
duration_s(const struct report *report)
{
	assert(report->ended_ns >= report->started_ns);
	return report->ended_ns <= report->started_ns
	    ? 1e-9
	    : (double)(report->ended_ns - report->started_ns) / 1e9;
}

void
report_print(const struct report *report, FILE *out)
{
	double s = duration_s(report), cpu_s = report_cpu_s() - report->cpu_started_s;
	uint64_t op_count = 0;

	assert(out != NULL && report->ended_ns != 0);
	for (int op = 0; op < REPORT_NR; op++) {
		const struct report_count *c = &report->counts[op];
		const struct histogram *h = &report->latency_ns[op];

		op_count += c->op_count;
		if (c->op_count == 0)
			continue;
		fprintf(out,
		    "%ss: %" PRIu64 " in %.2f s, %.0f/s, %.1f MB/s; latency in us:", op_names[op],
		    c->op_count, s, (double)c->op_count / s, (double)c->bytes / s / 1e6);
		for (size_t i = 0; i < NUM_COUNT(percentiles); i++)
			fprintf(out, " p%g %.1f", percentiles[i].percent,
			    (double)histogram_percentile(h, percentiles[i].percent) / 1e3);
		fprintf(out, " max %.1f\n", (double)h->max / 1e3);
	}
	fprintf(out,
	    "operations: %" PRIu64 ", %" PRIu64 " errors, %" PRIu64 " mismatches; own CPU %.2f s",
	    op_count, report->error_count, report->mismatch_count, cpu_s);
	if (op_count > 0)
		fprintf(out, ", %.2f us each", cpu_s * 1e6 / (double)op_count);
	fputc('\n', out);
	fflush(out);
}

static void
write_stats(const struct cleave_stats *stats, FILE *out)
{
	const char *between = "";

	fprintf(out, "  \"client\": {");
#define STAT_WRITE(name, help)                                                                     \
	fprintf(out, "%s\"%s\": %" PRIu64, between, #name, stats->name);                           \
	between = ", ";
	CLEAVE_STAT_LIST(STAT_WRITE)
#undef STAT_WRITE
	fprintf(out, "},\n");
}

int
report_write_json(const struct report *report, const struct cleave_stats *stats, const char *path)
{
	FILE *out = fopen(path, "we");
	double s = duration_s(report);
	uint64_t op_count = 0;
	int rc;

	assert(path != NULL && report->ended_ns != 0);
	if (out == NULL)
		return -errno;
	fprintf(out, "{\n");
	for (int op = 0; op < REPORT_NR; op++) {
		const char *name = op_names[op];
		const struct report_count *c = &report->counts[op];
		const struct histogram *h = &report->latency_ns[op];

		op_count += c->op_count;
		fprintf(out, "  \"%ss_count\": %" PRIu64 ",\n", name, c->op_count);
		fprintf(out, "  \"%ss_per_s\": %.3f,\n", name, (double)c->op_count / s);
		fprintf(out, "  \"%s_bytes\": %" PRIu64 ",\n", name, c->bytes);
		fprintf(out, "  \"%s_bytes_per_s\": %.1f,\n", name, (double)c->bytes / s);
		for (size_t i = 0; i < NUM_COUNT(percentiles); i++)
			fprintf(out, "  \"%s_latency_us_%s\": %.3f,\n", name, percentiles[i].name,
			    (double)histogram_percentile(h, percentiles[i].percent) / 1e3);
		fprintf(out, "  \"%s_latency_us_mean\": %.3f,\n", name, histogram_mean(h) / 1e3);
		fprintf(out, "  \"%s_latency_us_max\": %.3f,\n", name, (double)h->max / 1e3);
	}
	write_stats(stats, out);
	fprintf(out, "  \"operations_count\": %" PRIu64 ",\n", op_count);
	fprintf(out, "  \"mismatches_count\": %" PRIu64 ",\n", report->mismatch_count);
	fprintf(out, "  \"errors_count\": %" PRIu64 ",\n", report->error_count);
	fprintf(out, "  \"started_ns\": %" PRIu64 ",\n", report->started_ns);
	fprintf(out, "  \"ended_ns\": %" PRIu64 ",\n", report->ended_ns);
	fprintf(out, "  \"duration_s\": %.6f,\n", s);
	fprintf(out, "  \"cpu_s\": %.6f\n}\n", report_cpu_s() - report->cpu_started_s);
	rc = output_check(out);
	if (fclose(out) != 0 && rc == 0)
		rc = -errno;
	return rc;
}
