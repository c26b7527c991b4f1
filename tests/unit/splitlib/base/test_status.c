/* SPDX-License-Identifier: Apache-2.0 */
/* test_status.c -- errors there and back */
#include <criterion/criterion.h>
#include <errno.h>

#include "cleave/status.h"

Test(status, every_status_survives_the_round_trip)
{
	for (uint16_t status = 0; status < CLEAVE_STATUS_NR; status++) {
		int rc = status_to_errno(status);

		cr_assert_leq(rc, 0);
		cr_assert_eq(status_from_errno(rc), status, "status %u", status);
	}
}

Test(status, values_on_the_wire_never_change)
{
	cr_assert_eq(CLEAVE_STATUS_OK, 0);
	cr_assert_eq(CLEAVE_STATUS_NOT_AT_END, 12);
	cr_assert_eq(CLEAVE_STATUS_CONFLICT, 27);
	cr_assert_eq(CLEAVE_STATUS_KEY, 28);
	cr_assert_eq(CLEAVE_STATUS_HELD, 29);
	cr_assert_eq(CLEAVE_STATUS_EPOCH_JUMP, 30);
	cr_assert_eq(CLEAVE_STATUS_STORE, 31);
	cr_assert_eq(CLEAVE_STATUS_AUTH, 32);
	cr_assert_eq(CLEAVE_STATUS_RIGHT, 33);
	cr_assert_eq(CLEAVE_STATUS_DATA_KEY, 34);
	cr_assert_eq(CLEAVE_STATUS_NR, 35);
}

Test(status, an_errno_without_a_status_becomes_io)
{
	cr_assert_eq(status_from_errno(-EXFULL), CLEAVE_STATUS_IO);
	cr_assert_eq(status_from_errno(-EIO), CLEAVE_STATUS_IO);
}

Test(status, an_unknown_status_is_a_protocol_error)
{
	cr_assert_eq(status_to_errno(CLEAVE_STATUS_NR), -EPROTO);
	cr_assert_eq(status_to_errno(UINT16_MAX), -EPROTO);
}

Test(status, text_is_never_null)
{
	cr_assert_str_eq(status_text(CLEAVE_STATUS_OK), "ok");
	cr_assert_str_eq(status_text(CLEAVE_STATUS_NO_SPACE), "no space left");
	cr_assert_str_eq(status_text(CLEAVE_STATUS_NR), "unknown status");
}
