/* SPDX-License-Identifier: Apache-2.0 */
/* test_control_reads.c -- volumes that may be read past their gateway: no user makes one */
#include <errno.h>

#include "middletier/catalog/volume_table.h"
#include "middletier/common/port.h"
#include "unit/control_rig.h"

static void
setup(void)
{
	rig_setup_at(CLEAVE_LEVEL_READS);
}

static void
setup_before(void)
{
	rig_setup_at(CLEAVE_LEVEL_READS - 1);
}

TestSuite(reads, .init = setup, .fini = rig_teardown);

static const char request[] = "{'op':'volume.create','name':'v','size_bytes':8192,'reads':'%s'}";

Test(reads, users_are_offered_no_choice)
{
	refused(ask(-EINVAL, request, "direct"), "offers no choice");
	refused(ask(-EINVAL, request, "gateway"), "offers no choice");
}

Test(reads, a_gateway_of_tests_makes_such_volumes)
{
	sg.gateway->options.offers_reads = true;
	refused(ask(-EINVAL, request, "somehow"), "must be gateway, hot or direct");
	done(ask(0, request, "hot"));
	cr_assert_eq(mt_volumes_by_name(&sg.gateway->volumes, "v")->volume.reads, MT_READS_HOT);
}

Test(reads, a_cluster_of_a_level_before_has_none, .init = setup_before)
{
	sg.gateway->options.offers_reads = true;
	refused(ask(-ENOTSUP, request, "direct"), "has no read leases");
	done(ask(0, request, "gateway"));
}
