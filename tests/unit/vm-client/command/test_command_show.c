/* SPDX-License-Identifier: Apache-2.0 */
/* test_command_show.c -- what hangs on a volume, as tables */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "vm-client/command/command.h"
#include "vm-client/command/command_health.h"

Test(command_show, what_hangs_on_a_volume_is_shown)
{
	static const struct cleave_snapshot snapshots[] = {
		{ .name = "v@monday", .number = 7, .size_bytes = 4096, .created_s = 86400 },
		{ .name = "v@tuesday", .number = 8, .size_bytes = NUM_GIB(1), .clone_count = 2 },
		{ .name = "v@old", .number = 3, .size_bytes = 4096 },
	};
	json_t *shown =
	    json_loads("{\"volume\":{\"origin_name\":\"w@s\"},\"clone_count\":3,\"clones\":["
		       "{\"name\":\"c\",\"snapshot\":\"tuesday\"}]}",
		0, NULL);
	json_t *usage = json_loads(
	    "{\"layer_bytes\":1048576,\"run_bytes\":4194304,\"snapshots\":["
	    "{\"number\":7,\"stored_bytes\":2097152,\"freed_bytes_max\":1048576},"
	    "{\"number\":8,\"stored_bytes\":1048576,\"freed_bytes_max\":0}],\"sessions\":["
	    "{\"session\":\"00000000000000aa\",\"peer\":\"10.0.0.9:1\",\"access\":\"write\","
	    "\"client\":\"vm\",\"connections\":4},"
	    "{\"session\":\"00000000000000bb\",\"peer\":\"10.0.0.8:1\",\"access\":\"read\","
	    "\"snapshot\":\"monday\",\"connections\":1}]}",
	    0, NULL);
	json_t *other = json_pack("{s:i}", "number", 8);
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	cr_assert_not_null(shown);
	cr_assert_not_null(usage);
	cr_assert_eq(command_print_hanging(shown, snapshots, NUM_COUNT(snapshots), usage, out), 0);
	cr_assert_eq(fclose(out), 0);
	cr_assert_str_eq(text,
	    "\nclone of w@s\n"
	    "\nclones: c of @tuesday and 2 more\n"
	    "\nSNAPSHOT  TAKEN                  SIZE  STORED  CLONES  DELETING FREES\n"
	    "monday    1970-01-02T00:00:00Z  4 KiB   2 MiB       0  at most 1 MiB\n"
	    "tuesday   1970-01-01T00:00:00Z  1 GiB   1 MiB       2  not while it has clones\n"
	    "old       1970-01-01T00:00:00Z  4 KiB       ?       0  ?\n"
	    "(since)   -                         -   2 MiB       -  -\n"
	    "\nSESSION           CLIENT  FROM        ACCESS           CONNECTIONS\n"
	    "00000000000000aa  vm      10.0.0.9:1  write                      4\n"
	    "00000000000000bb  -       10.0.0.8:1  read of @monday            1\n");
	free(text);
	command_put_between(other, usage);
	cr_assert_eq(json_integer_value(json_object_get(other, "stored_bytes")), NUM_MIB(1));
	json_decref(other);
	json_decref(shown);
	json_decref(usage);
}

Test(command_show, days_until_full_want_an_hour)
{
	struct command_health health = { .room = json_pack("{s:i}", "data_free", 1000),
		.day_s = 3599,
		.day_gain_bytes = 10 };
	json_t *json;

	health.reasons = json_array();
	cr_assert_eq(command_health_days(&health), -1);
	json = command_health_json(&health);
	cr_assert_null(json_object_get(json, "days_until_full"));
	json_decref(json);
	health.day_s = 86400;
	cr_assert_eq(command_health_days(&health), 100);
	json = command_health_json(&health);
	cr_assert_eq(json_integer_value(json_object_get(json, "days_until_full")), 100);
	json_decref(json);
	health.day_gain_bytes = -1;
	cr_assert_eq(command_health_days(&health), INT64_MAX);
	command_health_fini(&health);
}
