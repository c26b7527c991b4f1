/* SPDX-License-Identifier: Apache-2.0 */
/* test_command_line.c -- a gateway's command line: ports, what they advertise, nodes */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "base/num.h"
#include "middletier/cluster/gateway_state.h"
#include "middletier/meta/meta_open.h"
#include "middletier/start/command_line.h"

static struct mt_command_line values;
static struct mt_gateway_options options;
static struct meta_where where;
static struct meta_where to;
static char error[MT_COMMAND_LINE_ERROR_BYTES];

/* @meta with these ports; nodes of three domains. */
static int
take(const char *meta, const char *port, const char *other_port)
{
	const char *argv[] = { "cleave-gateway", "--meta", meta, "--cluster-id", "00000000000000c1",
		"--node", "tcp://n1.example:7201,domain=a", "--node",
		"tcp://10.0.0.2:7202,domain=b", "--node", "tcp://[fd00::3]:7203", "--gateway-id",
		"1", "--port", port, other_port != NULL ? "--port" : NULL, other_port };
	struct config_result result;
	int argc = (int)NUM_COUNT(argv) - (other_port == NULL ? 2 : 0);

	memset(&values, 0, sizeof(values));
	memset(&options, 0, sizeof(options));
	error[0] = '\0';
	log_set_level(LOG_OFF);
	cr_assert_eq(config_parse(&mt_command_line_program, argc, (char **)argv, &values, &result),
	    0);
	return mt_command_line_take(&values, &options, &where, &to, error, sizeof(error));
}

static void
expect_refused(const char *meta, const char *port, const char *text)
{
	cr_assert_eq(take(meta, port, NULL), -EINVAL, "%s", port);
	cr_assert_not_null(strstr(error, text), "'%s' has no '%s'", error, text);
	cr_assert_not_null(strstr(error, port), "'%s' does not name '%s'", error, port);
}

/* The options of take() at one port, and these. */
static int
take_with(const char *first, const char *value)
{
	const char *argv[] = { "cleave-gateway", "--meta", "/m", "--cluster-id", "00000000000000c1",
		"--node", "tcp://n1:1,domain=a", "--node", "tcp://n2:1,domain=b", "--port",
		"tcp://10.0.0.1:7100", first, value };
	struct config_result result;

	memset(&values, 0, sizeof(values));
	memset(&options, 0, sizeof(options));
	error[0] = '\0';
	log_set_level(LOG_OFF);
	cr_assert_eq(config_parse(&mt_command_line_program, (int)NUM_COUNT(argv), (char **)argv,
			 &values, &result),
	    0);
	return mt_command_line_take(&values, &options, &where, &to, error, sizeof(error));
}

Test(command_line, what_a_gateway_could_not_start_with_is_refused_before_it_begins)
{
	static const struct {
		const char *option, *value, *error;
	} wrong[] = {
		{ "--device-memory", "2M",
		    "--device-memory: 2097152 bytes are too little for a single shard: at least " },
		{ "--hot-bytes", "1K", "--hot-bytes: 0, or at least " },
		{ "--mirror-heads", "1K", "--mirror-heads: 0, or at least " },
		{ "--node", "tcp://n1:1,domain=c", "--node: tcp://n1:1 is given twice" },
		{ "--port", "tcp://10.0.0.1:7100",
		    "--port: 'tcp://10.0.0.1:7100': the address is given twice" },
		{ "--frame-bytes", "12K", "--frame-bytes: 12288: no power of two" },
		{ "--read-frame-bytes", "32K",
		    "--read-frame-bytes: 32768: more than --frame-bytes" },
	};

	for (size_t i = 0; i < NUM_COUNT(wrong); i++) {
		cr_assert_eq(take_with(wrong[i].option, wrong[i].value), -EINVAL, "%s %s",
		    wrong[i].option, wrong[i].value);
		cr_assert_not_null(strstr(error, wrong[i].error), "'%s' has no '%s'", error,
		    wrong[i].error);
	}
	/* Two ports that take free ones are two. */
	cr_assert_eq(take("/m", "tcp://10.0.0.1:0", "tcp://10.0.0.1:0"), 0, "%s", error);
}

/* As much as it names is enough, and a MiB less is not. */
Test(command_line, the_device_memory_that_it_asks_for_is_enough)
{
	const char *mib;
	unsigned long least;
	char text[32];

	cr_assert_eq(take_with("--device-memory", "2M"), -EINVAL);
	mib = strstr(error, "at least ");
	cr_assert_not_null(mib);
	least = strtoul(mib + strlen("at least "), NULL, 10);
	cr_assert_gt(least, 2);
	(void)snprintf(text, sizeof(text), "%luM", least);
	cr_assert_eq(take_with("--device-memory", text), 0, "%s: %s", text, error);
	(void)snprintf(text, sizeof(text), "%luM", least - 1);
	cr_assert_eq(take_with("--device-memory", text), -EINVAL, "%s", text);
}

static int
take_slow_op(const char *text)
{
	const char *argv[] = { "cleave-gateway", "--meta", "/m", "--cluster-id", "00000000000000c1",
		"--slow-op", text };
	struct config_result result;

	memset(&values, 0, sizeof(values));
	log_set_level(LOG_OFF);
	return config_parse(&mt_command_line_program, (int)NUM_COUNT(argv), (char **)argv, &values,
	    &result);
}

Test(command_line, which_requests_are_slow)
{
	cr_assert_eq(take("/m", "tcp://10.0.0.1:1", NULL), 0, "%s", error);
	cr_assert_eq(options.slow_op_ns, NUM_MS(500), "by default");
	cr_assert_eq(take_slow_op("20ms"), 0);
	cr_assert_eq(values.slow_op, NUM_MS(20));
	cr_assert_eq(take_slow_op("0s"), 0, "off");
	cr_assert_eq(values.slow_op, 0);
	cr_assert_neq(take_slow_op("2h"), 0, "nothing is so slow");
	cr_assert_neq(take_slow_op("soon"), 0);
	cr_assert_neq(take_slow_op("-1s"), 0);
}

static int
take_frames(uint64_t frame_bytes, uint64_t read_frame_bytes)
{
	cr_assert_eq(take("/m", "tcp://10.0.0.1:1", NULL), 0, "%s", error);
	values.frame_bytes = frame_bytes;
	values.read_frame_bytes = read_frame_bytes;
	return mt_command_line_take(&values, &options, &where, &to, error, sizeof(error));
}

Test(command_line, frames_for_readers_are_no_longer_than_others)
{
	cr_assert_eq(take("/m", "tcp://10.0.0.1:1", NULL), 0, "%s", error);
	cr_assert_eq(options.frame_bytes, NUM_KIB(16), "by default");
	cr_assert_eq(options.read_frame_bytes, NUM_KIB(4), "by default");
	cr_assert_eq(take_frames(NUM_KIB(8), NUM_KIB(8)), 0, "%s", error);
	cr_assert_eq(options.read_frame_bytes, NUM_KIB(8));
	cr_assert_eq(take_frames(NUM_KIB(8), NUM_KIB(16)), -EINVAL);
	cr_assert_str_eq(error,
	    "--read-frame-bytes: 16384: more than --frame-bytes, 8192: give it at most that");
	cr_assert_eq(take_frames(NUM_KIB(12), NUM_KIB(4)), -EINVAL);
	cr_assert_str_eq(error, "--frame-bytes: 12288: no power of two");
	cr_assert_eq(take_frames(NUM_KIB(16), NUM_KIB(12)), -EINVAL);
	cr_assert_str_eq(error, "--read-frame-bytes: 12288: no power of two");
}

Test(command_line, memory_for_hot_blocks)
{
	cr_assert_eq(take("/m", "tcp://10.0.0.1:1", "tcp://10.0.0.1:2"), 0, "%s", error);
	cr_assert_eq(options.hot_bytes, NUM_MIB(64), "by default, of both ports together");
	cr_assert_eq(options.mirror_bytes, 0, "by default");
	cr_assert(!options.has_offload && options.worker_jobs == 0, "likewise");
	cr_assert_eq(options.device_bytes, NUM_MIB(256));
}

Test(command_line, what_a_port_advertises)
{
	cr_assert_eq(take("/m", "tcp://0.0.0.0:7100,cpu=3,advertise=gw1.example:7200",
			 "verbs://10.0.0.1:7101,advertise=[fd00::1]:0,cpu=1023"),
	    0, "%s", error);
	cr_assert_eq(options.port_count, 2);
	cr_assert_str_eq(options.ports[0].address, "tcp://0.0.0.0:7100");
	cr_assert_str_eq(options.ports[0].advertise, "tcp://gw1.example:7200");
	cr_assert_eq(options.ports[0].cpu, 3);
	cr_assert_str_eq(options.ports[1].address, "verbs://10.0.0.1:7101");
	cr_assert_str_eq(options.ports[1].advertise, "verbs://[fd00::1]:0");
	cr_assert_eq(options.ports[1].cpu, 1023);
}

Test(command_line, hosts_are_names_or_numbers)
{
	cr_assert_eq(take("/m", "tcp://gw1.example:7100", NULL), 0, "%s", error);
	cr_assert_str_eq(options.ports[0].address, "tcp://gw1.example:7100");
	cr_assert_str_eq(options.ports[0].advertise, "");
	cr_assert_eq(options.ports[0].cpu, -1);
	cr_assert_eq(options.node_count, 3);
	cr_assert_str_eq(options.nodes[0].address, "tcp://n1.example:7201");
	cr_assert_str_eq(options.nodes[0].domain, "a");
	cr_assert_str_eq(options.nodes[1].domain, "b");
	cr_assert_str_eq(options.nodes[2].address, "tcp://[fd00::3]:7203");
	cr_assert_str_eq(options.nodes[2].domain, "");
}

Test(command_line, everywhere_is_no_address_for_others)
{
	const char *const anywhere[] = { "tcp://0.0.0.0:7100", "tcp://[::]:7100",
		"verbs://0.0.0.0:7100" };

	for (size_t i = 0; i < NUM_COUNT(anywhere); i++) {
		expect_refused("etcd://h:2379", anywhere[i], "advertise=HOST:PORT");
		cr_assert_eq(take("/m", anywhere[i], NULL), 0, "a warning: %s", error);
	}
	cr_assert_eq(take("etcd://h:2379", "tcp://0.0.0.0:7100,advertise=gw1:7100", NULL), 0, "%s",
	    error);
	cr_assert_eq(take("etcd://h:2379", "tcp://10.0.0.1:7100", NULL), 0, "%s", error);
	expect_refused("/m", "tcp://0.0.0.0:7100,advertise=0.0.0.0:7100", "every machine");
	expect_refused("/m", "tcp://0.0.0.0:7100,advertise=[::]:1", "every machine");
}

Test(command_line, all_that_is_wrong_is_told_a_line_each)
{
	unsigned lines = 1;

	cr_assert_eq(take("etcd://h", "tcp://10.0.0.1:x", "gw:1"), -EINVAL);
	for (const char *c = error; *c != '\0'; c++)
		lines += *c == '\n';
	cr_assert_eq(lines, 3, "%s", error);
	cr_assert_not_null(strstr(error, "--meta: 'etcd://h': "));
	cr_assert_not_null(strstr(error, "\n--port: 'tcp://10.0.0.1:x': "));
	cr_assert_not_null(strstr(error, "\n--port: 'gw:1': "));
}

Test(command_line, what_else_follows_an_address_is_refused)
{
	static const char long_name[] =
	    "tcp://0.0.0.0:1,advertise=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbb"
	    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb.cccccccccc:1";
	static const struct {
		const char *port, *text;
	} wrong[] = {
		{ "tcp://10.0.0.1:1,", "only ',cpu=...' and ',advertise=...' may follow" },
		{ "tcp://10.0.0.1:1,cpu", "only ',cpu=...' and ',advertise=...' may follow" },
		{ "tcp://10.0.0.1:1,cpu=", "only ',cpu=...' and ',advertise=...' may follow" },
		{ "tcp://10.0.0.1:1,cpu=1,cpu=2",
		    "only ',cpu=...' and ',advertise=...' may follow" },
		{ "tcp://10.0.0.1:1,cpu=1,", "only ',cpu=...' and ',advertise=...' may follow" },
		{ "tcp://10.0.0.1:1,domain=a", "only ',cpu=...' and ',advertise=...' may follow" },
		{ "tcp://10.0.0.1:1,cpu=1024", "cpu must be 0 to 1023" },
		{ "tcp://10.0.0.1:1,cpu=000000000000000000000000000001", "cpu must be" },
		{ "tcp://10.0.0.1:1,cpu=x", "cpu must be" },
		{ "tcp://10.0.0.1:1,advertise=gw1", "advertise: HOST:PORT is wanted" },
		{ "tcp://10.0.0.1:1,advertise=tcp://gw1:1", "advertise: HOST:PORT is wanted" },
		{ "tcp://10.0.0.1:1,advertise=gw 1:1", "advertise: HOST:PORT is wanted" },
		{ long_name, "advertise: an address has at most 127 characters" },
		{ "tcp://gw..example:1", "HOST:PORT is wanted" },
		{ "gw1:1", "neither tcp:// nor verbs://" },
	};

	for (size_t i = 0; i < NUM_COUNT(wrong); i++)
		expect_refused("/m", wrong[i].port, wrong[i].text);
}
