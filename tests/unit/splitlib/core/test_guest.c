/* SPDX-License-Identifier: Apache-2.0 */
/* test_guest.c -- who gives way when a port runs out of places, descriptors or receives */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "splitlib/core/wire.h"
#include "unit/split_fixture.h"

enum { ROOM = 4, COMERS_MAX = 100 };

static struct fixture f;

/* Both ends of a connection; the server's is told apart by the hello. */
struct comer {
	struct side here, there;
	struct test_send send;
};
static struct comer *comers;
static bool keeps_all;

static struct {
	uint32_t count;
	uint64_t silent_ns;
	char peer[SPLIT_ADDRESS_BYTES_MAX], why[SPLIT_REASON_BYTES_MAX];
} cut;

static void
setup(void)
{
	memset(&f, 0, sizeof(f));
	memset(&cut, 0, sizeof(cut));
	keeps_all = false;
	comers = calloc(COMERS_MAX, sizeof(*comers));
	cr_assert_not_null(comers);
}

static void
teardown(void)
{
	free(comers);
}

TestSuite(guest, .init = setup, .fini = teardown, .timeout = 100);

static void
on_cut(const char *peer, uint64_t silent_ns, const char *why, void *arg)
{
	cr_assert_eq(arg, &cut);
	cut.count++;
	cut.silent_ns = silent_ns;
	(void)snprintf(cut.peer, sizeof(cut.peer), "%s", peer);
	(void)snprintf(cut.why, sizeof(cut.why), "%s", why);
}

static void
on_accept(struct split_qp *qp, const void *hello, uint32_t hello_bytes, void *arg)
{
	uint32_t index = 0;

	(void)arg;
	cr_assert_eq(hello_bytes, sizeof(index));
	memcpy(&index, hello, sizeof(index));
	comers[index].there.qp = qp;
	if (keeps_all)
		split_qp_keep(qp);
	split_qp_accept(qp, &side_ops, &comers[index].there, NULL, 0);
}

static struct split_port_options
server_options(uint32_t room_count, uint32_t receive_count)
{
	return (struct split_port_options){ .qp_count_max = room_count,
		.receive_count = receive_count,
		.receive_payload_bytes = 4096,
		.device_bytes = NUM_MIB(8),
		.guests_give_way = true,
		.on_cut = on_cut,
		.on_cut_arg = &cut };
}

static void
open_with(enum net_kind kind, const struct split_port_options *options)
{
	fixture_open(&f, kind, options, NULL);
	cr_assert_eq(split_listen(f.server_port, fixture_any_address(kind, "sim://server:0"),
			 on_accept, NULL, f.address),
	    0);
}

static void
open_room(enum net_kind kind)
{
	struct split_port_options options = server_options(ROOM, 64);

	open_with(kind, &options);
}

static void
begin(uint32_t index)
{
	struct side *here = &comers[index].here;

	memset(here, 0, sizeof(*here));
	here->mode = SIDE_RELEASE;
	here->qp = connect_qp(f.client_port,
	    &(struct split_connect_options){ .peer_roles = FIXTURE_ROLES,
		.address = f.address,
		.hello = &index,
		.hello_bytes = sizeof(index),
		.ops = &side_ops,
		.arg = here });
	cr_assert_not_null(here->qp);
}

static bool
is_decided(struct fixture *fixture, uint64_t wanted)
{
	const struct side *here = &comers[wanted].here;

	(void)fixture;
	return here->ready_count + here->closed_count > 0;
}

/* A device lets go of its queue pair later: then the first attempt is refused, and the next one goes well. */
static void
come(uint32_t index)
{
	begin(index);
	fixture_run(&f, is_decided, index);
	if (f.kind == NET_VERBS && comers[index].here.closed_rc == -EBUSY) {
		fixture_idle(&f);
		begin(index);
		fixture_run(&f, is_decided, index);
	}
	cr_assert_eq(comers[index].here.ready_count, 1, "%u: %s", index, comers[index].here.reason);
	comers[index].there.mode = SIDE_ANSWER;
}

static bool
has_left(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return comers[wanted].here.closed_count > 0 && comers[wanted].there.closed_count > 0;
}

static bool
is_heard(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return comers[wanted].there.message_count > 0;
}

static bool
is_answered(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return comers[wanted].here.message_count > 0;
}

static void
ask(uint32_t index)
{
	struct comer *comer = &comers[index];

	comer->here.message_count = comer->there.message_count = 0;
	test_send_init(&comer->send, &comer->here, WIRE_ECHO, index, DEV_PTR_NULL, 0);
	cr_assert_eq(split_send(comer->here.qp, &comer->send.send), 0);
}

static void
expect_gone(uint32_t index)
{
	fixture_run(&f, has_left, index);
	cr_assert_eq(comers[index].there.closed_rc, 0, "closed here");
	cr_assert_str_eq(comers[index].there.reason, cut.why);
}

BOTH(guest, the_longest_silent_gives_its_place)
{
	open_room(kind);
	for (uint32_t i = 0; i < ROOM; i++)
		come(i);
	ask(0);
	fixture_run(&f, is_answered, 0);
	come(ROOM);
	expect_gone(1);
	cr_assert_eq(cut.count, 1);
	cr_assert_str_eq(cut.why, "its place is needed");
	cr_assert_neq(cut.peer[0], '\0');
	cr_assert_eq(f.server_port->counters.qps_cut, 1);
	come(ROOM + 1);
	expect_gone(2);
	fixture_idle(&f);
	cr_assert_eq(f.server_port->accepted_count, ROOM);
	cr_assert_eq(f.server_port->qp_count, ROOM);
	for (uint32_t i = 0; i < ROOM + 2; i++)
		cr_assert_eq(comers[i].there.closed_count, i == 1 || i == 2, "%u", i);
	ask(0);
	fixture_run(&f, is_answered, 0);
	fixture_close(&f);
}

static void
expect_no_room_for(uint32_t index)
{
	uint64_t refused_count = f.server_port->counters.qps_refused;
	uint32_t cut_count = cut.count;

	begin(index);
	fixture_run(&f, is_decided, index);
	cr_assert_eq(comers[index].here.closed_rc, -EBUSY);
	cr_assert_eq(f.server_port->counters.qps_refused, refused_count + 1);
	cr_assert_eq(cut.count, cut_count);
	fixture_idle(&f);
}

BOTH(guest, who_is_kept_stays_though_silent)
{
	open_room(kind);
	keeps_all = true;
	for (uint32_t i = 0; i < ROOM - 1; i++)
		come(i);
	keeps_all = false;
	come(ROOM - 1);
	come(ROOM);
	expect_gone(ROOM - 1);
	split_qp_keep(comers[ROOM].there.qp);
	split_qp_keep(comers[ROOM].there.qp);
	expect_no_room_for(ROOM + 1);
	for (uint32_t i = 0; i < ROOM - 1; i++)
		cr_assert_eq(comers[i].there.closed_count, 0);
	fixture_close(&f);
}

BOTH(guest, who_waits_for_an_answer_stays)
{
	open_room(kind);
	for (uint32_t i = 0; i < ROOM; i++) {
		come(i);
		comers[i].there.mode = SIDE_HOLD;
		ask(i);
		fixture_run(&f, is_heard, i);
	}
	expect_no_room_for(ROOM);
	side_answer(comers[2].there.held[0]);
	fixture_run(&f, is_answered, 2);
	come(ROOM);
	expect_gone(2);
	fixture_close(&f);
}

static void
come_to_lodge(uint32_t index)
{
	come(index);
	split_qp_lodge(comers[index].there.qp);
}

BOTH(guest, who_lodges_gives_its_place_where_no_guest_has_one)
{
	open_room(kind);
	for (uint32_t i = 0; i < ROOM - 1; i++)
		come_to_lodge(i);
	come(ROOM - 1);
	ask(0);
	fixture_run(&f, is_answered, 0);
	come(ROOM);
	expect_gone(ROOM - 1);
	split_qp_keep(comers[ROOM].there.qp);
	come(ROOM + 1);
	expect_gone(1);
	come(ROOM + 2);
	expect_gone(ROOM + 1);
	split_qp_keep(comers[0].there.qp);
	split_qp_keep(comers[2].there.qp);
	split_qp_lodge(comers[2].there.qp); /* it is kept: nothing changes */
	split_qp_keep(comers[ROOM + 2].there.qp);
	expect_no_room_for(ROOM + 3);
	cr_assert_eq(cut.count, 3);
	fixture_close(&f);
}

/* Whoever comes, and however many: one of them at a time, and the next attempt finds a place. */
BOTH(guest, who_lodges_and_waits_for_an_answer_gives_its_place_too)
{
	open_room(kind);
	for (uint32_t i = 0; i < ROOM; i++) {
		come_to_lodge(i);
		comers[i].there.mode = SIDE_HOLD;
		ask(i);
		fixture_run(&f, is_heard, i);
	}
	begin(ROOM);
	begin(ROOM + 1);
	fixture_run(&f, is_decided, ROOM);
	fixture_run(&f, is_decided, ROOM + 1);
	cr_assert_geq(f.server_port->counters.qps_refused, 1);
	expect_gone(0);
	cr_assert_eq(cut.count, 1);
	side_answer(comers[0].there.held[0]);
	fixture_idle(&f);
	come(ROOM + 2);
	for (uint32_t i = 1; i < ROOM; i++) {
		cr_assert_eq(comers[i].there.closed_count, 0);
		side_answer(comers[i].there.held[0]);
		fixture_run(&f, is_answered, i);
	}
	fixture_close(&f);
}

static bool
all_are_decided(struct fixture *fixture, uint64_t wanted)
{
	for (uint64_t i = 0; i < wanted; i++) {
		if (!is_decided(fixture, i))
			return false;
	}
	return true;
}

/* Each has a place for a moment, and the last ones keep it; nobody is refused. */
BOTH(guest, a_burst_finds_places)
{
	if (kind == NET_VERBS)
		return; /* some of them would be told to come again */
	open_room(kind);
	for (uint32_t i = 0; i < COMERS_MAX; i++)
		begin(i);
	fixture_run(&f, all_are_decided, COMERS_MAX);
	fixture_idle(&f);
	cr_assert_eq(f.server_port->counters.qps_refused, 0);
	cr_assert_eq(f.server_port->counters.qps_cut, COMERS_MAX - ROOM);
	cr_assert_eq(cut.count, COMERS_MAX - ROOM);
	cr_assert_eq(f.server_port->qp_count, ROOM);
	cr_assert_eq(f.server_port->surplus_count, 0);
	come(0);
	ask(0);
	fixture_run(&f, is_answered, 0);
	fixture_close(&f);
}

BOTH(guest, without_the_option_nobody_gives_way)
{
	struct split_port_options options = server_options(ROOM, 64);

	options.guests_give_way = false;
	open_with(kind, &options);
	for (uint32_t i = 0; i < ROOM; i++)
		come(i);
	split_qp_keep(comers[0].there.qp);
	expect_no_room_for(ROOM);
	fixture_close(&f);
}

/* ---- peers without this library ---- */

static int
raw_connect(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	cr_assert_geq(fd, 0);
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	to.sin_port = htons((uint16_t)atoi(strrchr(f.address, ':') + 1));
	cr_assert_eq(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static void
raw_send(int fd, uint8_t opcode, const void *payload, uint32_t payload_bytes, uint32_t sent_bytes)
{
	struct wire_header header = { .opcode = opcode, .request_id = 1 };

	wire_frame_stamp(&header, payload_bytes, 0);
	cr_assert_eq(send(fd, &header, sizeof(header), MSG_NOSIGNAL), (ssize_t)sizeof(header));
	if (sent_bytes > 0)
		cr_assert_eq(send(fd, payload, sent_bytes, MSG_NOSIGNAL), (ssize_t)sent_bytes);
}

static bool
is_ready_there(struct fixture *fixture, uint64_t wanted)
{
	(void)fixture;
	return comers[wanted].there.ready_count > 0;
}

static int
raw_come(uint32_t index)
{
	int fd = raw_connect();

	raw_send(fd, WIRE_HELLO, &index, sizeof(index), sizeof(index));
	fixture_run(&f, is_ready_there, index);
	return fd;
}

static bool
raw_is_closed(int fd)
{
	char bytes[4096];
	ssize_t count;

	while ((count = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		continue;
	return count == 0 || errno == ECONNRESET;
}

static bool
accepted_are(struct fixture *fixture, uint64_t wanted)
{
	return fixture->server_port->accepted_count == wanted;
}

Test(guest, strangers_give_way)
{
	int fds[ROOM];

	open_room(NET_TCP);
	for (uint32_t i = 0; i < ROOM; i++) {
		fds[i] = raw_connect();
		fixture_run(&f, accepted_are, i + 1);
	}
	come(0);
	cr_assert(raw_is_closed(fds[0]));
	cr_assert(!raw_is_closed(fds[1]));
	cr_assert_eq(cut.count, 1);
	for (uint32_t i = 0; i < ROOM; i++)
		(void)close(fds[i]); /* nothing was written */
	fixture_close(&f);
}

/* Whether there is room or not. */
Test(guest, strangers_have_their_time_to_say_hello)
{
	struct split_port_options options = server_options(ROOM, 64);
	int fd;

	options.keepalive_ns = NUM_MS(20);
	open_with(NET_TCP, &options);
	fd = raw_connect();
	fixture_run(&f, accepted_are, 1);
	fixture_run(&f, accepted_are, 0);
	cr_assert(raw_is_closed(fd));
	cr_assert_eq(cut.count, 0);
	(void)close(fd);
	fixture_close(&f);
}

/* 12 of 16 receives are for requests. */
enum { RECEIVES = 16, LENT_EACH = 2, DEBTORS = 12 / LENT_EACH };

static void
open_with_few_receives(void)
{
	struct split_port_options options = server_options(COMERS_MAX, RECEIVES);

	open_with(NET_TCP, &options);
}

Test(guest, who_keeps_what_it_was_lent_gives_way)
{
	int fds[DEBTORS];

	open_with_few_receives();
	for (uint32_t i = 0; i < DEBTORS; i++)
		fds[i] = raw_come(i);
	cr_assert_eq(f.server_port->credits.granted_count, DEBTORS * LENT_EACH);
	come(DEBTORS);
	ask(DEBTORS);
	fixture_run(&f, is_answered, DEBTORS);
	cr_assert_geq(cut.count, 1);
	cr_assert_str_eq(cut.why, "the receives that it was lent are needed");
	/* No more than what is needed is asked back. */
	cr_assert_lt(cut.count, DEBTORS);
	for (uint32_t i = 0; i < DEBTORS; i++)
		(void)close(fds[i]);
	fixture_close(&f);
}

Test(guest, who_sends_half_a_request_gives_way)
{
	int fds[DEBTORS];

	open_with_few_receives();
	for (uint32_t i = 0; i < DEBTORS; i++) {
		fds[i] = raw_come(i);
		for (uint32_t k = 1; k < LENT_EACH; k++)
			raw_send(fds[i], WIRE_ECHO, NULL, 0, 0);
		raw_send(fds[i], WIRE_ECHO, fds, 100, 10);
	}
	come(DEBTORS);
	ask(DEBTORS);
	fixture_run(&f, is_answered, DEBTORS);
	for (uint32_t i = 0; i < DEBTORS; i++)
		(void)close(fds[i]);
	fixture_close(&f);
}

/* A peer with this library returns what it is asked for, and stays. */
Test(guest, who_returns_what_it_was_lent_stays)
{
	open_with_few_receives();
	for (uint32_t i = 0; i < DEBTORS + 2; i++)
		come(i);
	for (uint32_t i = 0; i < DEBTORS + 2; i++) {
		ask(i);
		fixture_run(&f, is_answered, i);
	}
	(void)fixture_run_for(&f, never, 0, NUM_MS(1500));
	cr_assert_eq(cut.count, 0);
	fixture_close(&f);
}

Test(guest, who_is_kept_may_owe)
{
	struct split_port_options options = server_options(COMERS_MAX, RECEIVES);
	int fds[DEBTORS];

	options.qp_credits_max = LENT_EACH;
	open_with(NET_TCP, &options);
	keeps_all = true;
	for (uint32_t i = 0; i < DEBTORS - 1; i++)
		fds[i] = raw_come(i);
	keeps_all = false;
	fds[DEBTORS - 1] = raw_come(DEBTORS - 1);
	come(DEBTORS);
	ask(DEBTORS);
	fixture_run(&f, is_answered, DEBTORS);
	cr_assert_eq(cut.count, 1);
	for (uint32_t i = 0; i < DEBTORS; i++) {
		cr_assert_eq(comers[i].there.closed_count, i == DEBTORS - 1);
		(void)close(fds[i]);
	}
	fixture_close(&f);
}

/* A volume's writer whose process was stopped: the others must not wait for it for ever. */
Test(guest, who_is_kept_and_stands_still_gives_way_in_the_end)
{
	struct split_port_options options = server_options(COMERS_MAX, RECEIVES);
	int fds[DEBTORS];
	uint32_t closed_count = 0;

	options.qp_credits_max = LENT_EACH;
	open_with(NET_TCP, &options);
	keeps_all = true;
	for (uint32_t i = 0; i < DEBTORS; i++)
		fds[i] = raw_come(i);
	keeps_all = false;
	come(DEBTORS);
	ask(DEBTORS);
	fixture_run(&f, is_answered, DEBTORS);
	cr_assert_eq(cut.count, 0, "none was a guest");
	for (uint32_t i = 0; i < DEBTORS; i++) {
		closed_count += comers[i].there.closed_count;
		if (comers[i].there.closed_count > 0)
			cr_assert_eq(comers[i].there.closed_rc, -ETIMEDOUT);
		(void)close(fds[i]);
	}
	cr_assert_geq(closed_count, 1);
	cr_assert_lt(closed_count, DEBTORS, "no more than what is needed");
	fixture_close(&f);
}

Test(guest, one_gives_its_descriptor)
{
	struct split_port_options options = server_options(COMERS_MAX, 64);
	struct rlimit old, low;
	int guest_fd, fd, top, spare[64], spare_count = 0;

	open_with(NET_TCP, &options);
	guest_fd = raw_come(0);
	fd = raw_connect();
	raw_send(fd, WIRE_HELLO, &(uint32_t){ 1 }, sizeof(uint32_t), sizeof(uint32_t));
	/* Fill the table up to a limit just above what is open. */
	top = dup(0);
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)top + 2;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
	while (spare_count < 64 && (spare[spare_count] = dup(0)) >= 0)
		spare_count++;
	fixture_run(&f, is_ready_there, 1);
	cr_assert_eq(cut.count, 1);
	cr_assert(raw_is_closed(guest_fd));
	cr_assert_eq(f.server_port->counters.accept_pauses, 0);
	/* Nobody else waits: nobody else has to go. */
	(void)fixture_run_for(&f, never, 0, NUM_MS(30));
	cr_assert_eq(cut.count, 1);
	cr_assert_eq(comers[1].there.closed_count, 0);
	while (spare_count > 0)
		(void)close(spare[--spare_count]);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	(void)close(top);
	(void)close(fd);
	(void)close(guest_fd);
	fixture_close(&f);
}
