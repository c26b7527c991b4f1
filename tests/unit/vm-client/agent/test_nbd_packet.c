/* SPDX-License-Identifier: Apache-2.0 */
/* test_nbd_packet.c -- what a peer said before it left is heard, and only its end is one */
#include <criterion/criterion.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vm-client/agent/nbd_packet.h"

static uint8_t buffer[NBD_PACKET_BYTES_MAX];

/* The peer leaves and has not read all that was said to it: the socket tells of a reset first. */
static int
fd_of_a_peer_that_left(bool has_spoken)
{
	int fds[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
	cr_assert_eq(nbd_packet_send(fds[0], json_pack("{s:b}", "taken", 1), NULL, 0, NULL, 0), 0);
	if (has_spoken)
		cr_assert_eq(nbd_packet_send(fds[1], json_pack("{s:b}", "kept", 1), NULL, 0, NULL,
				 0),
		    0);
	(void)close(fds[1]);
	return fds[0];
}

static void
expect_end(int fd)
{
	const uint8_t *data;
	size_t bytes;
	int given[NBD_PACKET_FDS_MAX];

	errno = 0;
	cr_assert_null(nbd_packet_receive(fd, buffer, given, &data, &bytes));
	cr_assert_eq(errno, ECONNRESET);
	(void)close(fd);
}

Test(nbd_packet, last_words_are_received_behind_a_reset)
{
	int given[NBD_PACKET_FDS_MAX], fd = fd_of_a_peer_that_left(true);
	const uint8_t *data;
	size_t bytes;
	json_t *object = nbd_packet_receive(fd, buffer, given, &data, &bytes);

	cr_assert_not_null(object);
	cr_assert_not_null(json_object_get(object, "kept"));
	json_decref(object);
	expect_end(fd);
}

Test(nbd_packet, who_left_without_a_word_is_gone)
{
	expect_end(fd_of_a_peer_that_left(false));
}
