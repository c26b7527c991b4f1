/* SPDX-License-Identifier: Apache-2.0 */
/* test_tcp_address.c -- addresses from text and back: numbers, names, brackets, ports */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "base/tcp_address.h"

static void
expect_name(const char *host_port, const char *wanted, uint16_t wanted_port)
{
	char name[SPLIT_ADDRESS_BYTES_MAX] = "";
	uint16_t port = 0;

	cr_assert(tcp_address_is_name(host_port, name, &port), "%s", host_port);
	cr_assert_str_eq(name, wanted);
	cr_assert_eq(port, wanted_port);
}

Test(tcp_address, names)
{
	expect_name("gw1.example:7100", "gw1.example", 7100);
	expect_name("gw1:0", "gw1", 0);
	expect_name("gw_1.a-b.example.:65535", "gw_1.a-b.example.", 65535);
	expect_name("1gateway.10.example:1", "1gateway.10.example", 1);
	expect_name("ip6-localhost:1", "ip6-localhost", 1);
}

Test(tcp_address, what_is_no_name)
{
	const char *const texts[] = { "127.0.0.1:1", "localhost:1", "[::1]:1", "[gw1]:1", "::1:1",
		"gw1", "gw1:", "gw1:65536", "gw1:-1", "gw1:x", ":1", "", "gw 1:1", "gw1/:1",
		"-gw:1", "gw..example:1", ".gw:1", "1.2.3.400:1", "10.1:1", "10.1.:1", "gw%eth0:1",
		"g\xc3\xa4:1" };
	char name[SPLIT_ADDRESS_BYTES_MAX] = "untouched";
	uint16_t port = 7;

	for (size_t i = 0; i < NUM_COUNT(texts); i++)
		cr_assert(!tcp_address_is_name(texts[i], name, &port), "%s", texts[i]);
	cr_assert_str_eq(name, "untouched");
	cr_assert_eq(port, 7);
}

Test(tcp_address, a_label_and_an_address_have_a_longest)
{
	char text[2 * SPLIT_ADDRESS_BYTES_MAX];

	(void)snprintf(text, sizeof(text), "tcp://%063d.a:1", 0);
	cr_assert_null(tcp_address_check(text, true));
	(void)snprintf(text, sizeof(text), "tcp://%064d.a:1", 0);
	cr_assert_not_null(tcp_address_check(text, true));
	(void)snprintf(text, sizeof(text), "tcp://%060d.%055da:1", 0, 0);
	cr_assert_eq(strlen(text), SPLIT_ADDRESS_BYTES_MAX - 3);
	cr_assert_null(tcp_address_check(text, true));
	(void)snprintf(text, sizeof(text), "tcp://%060d.%058da:1", 0, 0);
	cr_assert_not_null(strstr(tcp_address_check(text, true), "127 characters"));
}

Test(tcp_address, what_a_user_may_give)
{
	const char *const good[] = { "tcp://127.0.0.1:7100", "tcp://[::1]:7100",
		"tcp://gw1.example:7100", "verbs://gw1:7100", "verbs://10.0.0.1:1",
		"tcp://localhost:1" };
	const char *const bad[] = { "gw1:7100", "http://gw1:7100", "tcp://gw1", "tcp://::1:7100",
		"tcp://[gw1]:7100", "tcp://1.2.3:7100", "tcp://:7100", "tcp://", "sim://a:1" };

	for (size_t i = 0; i < NUM_COUNT(good); i++)
		cr_assert_null(tcp_address_check(good[i], true), "%s", good[i]);
	for (size_t i = 0; i < NUM_COUNT(bad); i++)
		cr_assert_not_null(tcp_address_check(bad[i], false), "%s", bad[i]);
	cr_assert_null(tcp_address_check("tcp://gw1:0", false));
	cr_assert_not_null(tcp_address_check("tcp://gw1:0", true));
}

Test(tcp_address, loopback_is_what_no_other_host_reaches)
{
	const char *const loopback[] = { "127.0.0.1:1", "127.255.0.9:1", "localhost:1", "[::1]:1",
		"[::ffff:127.0.0.1]:1" };
	const char *const others[] = { "0.0.0.0:1", "[::]:1", "126.0.0.1:1", "128.0.0.1:1",
		"10.0.0.127:1", "[::2]:1", "[::127.0.0.1]:1", "[::ffff:10.0.0.1]:1",
		"[fe80::1]:1" };
	struct sockaddr_storage at;
	socklen_t bytes;

	for (size_t i = 0; i < NUM_COUNT(loopback); i++) {
		cr_assert_eq(tcp_address_parse(loopback[i], &at, &bytes), 0);
		cr_assert(tcp_address_is_loopback(&at), "%s", loopback[i]);
	}
	for (size_t i = 0; i < NUM_COUNT(others); i++) {
		cr_assert_eq(tcp_address_parse(others[i], &at, &bytes), 0, "%s", others[i]);
		cr_assert(!tcp_address_is_loopback(&at), "%s", others[i]);
	}
}

Test(tcp_address, all_of_a_machines)
{
	cr_assert(tcp_address_is_any("tcp://0.0.0.0:7100"));
	cr_assert(tcp_address_is_any("tcp://[::]:0"));
	cr_assert(tcp_address_is_any("verbs://0.0.0.0:1"));
	cr_assert(!tcp_address_is_any("tcp://127.0.0.1:7100"));
	cr_assert(!tcp_address_is_any("tcp://[::1]:7100"));
	cr_assert(!tcp_address_is_any("tcp://gw1:7100"));
	cr_assert(!tcp_address_is_any("sim://0.0.0.0:7100"));
	cr_assert(tcp_address_has_name("verbs://gw1:7100"));
	cr_assert(!tcp_address_has_name("tcp://10.0.0.1:7100"));
	cr_assert(!tcp_address_has_name("tcp://localhost:7100"));
	cr_assert(!tcp_address_has_name("sim://gw1:7100"));
}

Test(tcp_address, what_is_published)
{
	char text[SPLIT_ADDRESS_BYTES_MAX];

	tcp_address_publish("tcp://gw1:7100", "tcp://0.0.0.0:7200", text);
	cr_assert_str_eq(text, "tcp://gw1:7100");
	tcp_address_publish("tcp://gw1:0", "tcp://[::]:7200", text);
	cr_assert_str_eq(text, "tcp://gw1:7200");
}

Test(tcp_address, a_port_is_set)
{
	struct sockaddr_storage at;
	char text[SPLIT_ADDRESS_BYTES_MAX];
	socklen_t bytes;

	cr_assert_eq(tcp_address_parse("[fe80::1]:0", &at, &bytes), 0);
	tcp_address_set_port(&at, 7100);
	tcp_address_format(&at, text);
	cr_assert_str_eq(text, "tcp://[fe80::1]:7100");
	cr_assert_eq(tcp_address_parse("10.0.0.1:5", &at, &bytes), 0);
	tcp_address_set_port(&at, 7100);
	tcp_address_format(&at, text);
	cr_assert_str_eq(text, "tcp://10.0.0.1:7100");
}
