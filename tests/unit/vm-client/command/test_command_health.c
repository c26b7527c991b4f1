/* SPDX-License-Identifier: Apache-2.0 */
/* test_command_health.c -- what all gateways say of the cluster, as one list */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "vm-client/command/command_health.h"

/* A gateway that is cut off from the nodes, beside one that is not: whose network is to be looked at? */
Test(command_health, what_some_gateways_say_of_nodes_is_said_by_name)
{
	static const char few[] =
	    "{\"level\":\"ERROR\",\"reasons\":[{\"code\":\"nodes-few\",\"level\":\"ERROR\",\"object\":\"cluster\","
	    "\"text\":\"0 of 3 nodes are up\",\"helps\":\"start them\",\"told_by\":[7]},"
	    "{\"code\":\"room-low\",\"level\":\"WARN\",\"object\":\"cluster\",\"text\":\"low\",\"helps\":\"add\"}]}";
	struct command_health health = { .reasons = json_array(), .gateway_count = 3 };
	json_t *told = json_loads(few, 0, NULL);
	char *printed = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&printed, &bytes);

	health.teller = "000000000000000a";
	command_health_take(&health, told);
	health.teller = "000000000000000c";
	command_health_take(&health, told);
	command_health_print(&health, out);
	cr_assert_eq(fclose(out), 0);
	cr_assert_str_eq(printed,
	    "HEALTH ERROR\n"
	    "ERROR nodes-few: 0 of 3 nodes are up (say 2 of 3 gateways: 000000000000000a, 000000000000000c)\n"
	    "      -> start them\n"
	    "WARN  room-low: low\n"
	    "      -> add\n");
	free(printed);
	command_health_fini(&health);
	json_decref(told);
}
