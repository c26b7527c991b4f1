/* SPDX-License-Identifier: Apache-2.0 */
/* status.c -- errors between their two forms: negative errno inside, a status on the wire */
#include "cleave/status.h"

#include <errno.h>

uint16_t
status_from_errno(int rc)
{
	switch (-rc) {
#define STATUS_CASE(symbol, value, err, text)                                                      \
	case err:                                                                                  \
		return CLEAVE_STATUS_##symbol;
		CLEAVE_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
	default:
		return CLEAVE_STATUS_IO;
	}
}

int
status_to_errno(uint16_t status)
{
	switch (status) {
#define STATUS_CASE(symbol, value, err, text)                                                      \
	case CLEAVE_STATUS_##symbol:                                                               \
		return -(err);
		CLEAVE_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
	default:
		return -EPROTO;
	}
}

const char *
status_text(uint16_t status)
{
	switch (status) {
#define STATUS_CASE(symbol, value, err, text)                                                      \
	case CLEAVE_STATUS_##symbol:                                                               \
		return text;
		CLEAVE_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
	default:
		return "unknown status";
	}
}
