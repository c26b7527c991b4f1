/* SPDX-License-Identifier: Apache-2.0 */
/* test_service_class.c -- names of service classes there and back */
#include <criterion/criterion.h>
#include <errno.h>

#include "cleave/wire.h"

Test(service_class, every_class_survives_the_round_trip)
{
	for (unsigned i = 0; i < SERVICE_CLASS_NR; i++) {
		enum service_class service_class = SERVICE_CLASS_NR;

		cr_assert_eq(service_class_parse(service_class_name(i), &service_class), 0);
		cr_assert_eq(service_class, i);
	}
}

Test(service_class, names_that_are_stored_never_change)
{
	cr_assert_str_eq(service_class_name(CLEAVE_SERVICE_STANDARD), "standard");
	cr_assert_str_eq(service_class_name(CLEAVE_SERVICE_LATENCY), "latency");
	cr_assert_str_eq(service_class_name(CLEAVE_SERVICE_CAPACITY), "capacity");
	cr_assert_eq(SERVICE_CLASS_NR, 3);
}

Test(service_class, what_is_no_class_is_refused)
{
	enum service_class service_class = SERVICE_LATENCY;

	cr_assert_null(service_class_name(SERVICE_CLASS_NR));
	cr_assert_eq(service_class_parse("", &service_class), -EINVAL);
	cr_assert_eq(service_class_parse("Standard", &service_class), -EINVAL);
	cr_assert_eq(service_class, SERVICE_LATENCY);
}
