/* SPDX-License-Identifier: Apache-2.0 */
/* health_watch.h -- a gateway looks at its health by itself, so that each change is an event, asked for or not */
#ifndef CLEAVE_MIDDLETIER_HEALTH_HEALTH_WATCH_H
#define CLEAVE_MIDDLETIER_HEALTH_HEALTH_WATCH_H

struct mt_gateway;
struct mt_client_sample;
struct mt_room_rates;
struct mt_health;

/*
 * mt_health_watch_start -- look from now on, where options.is_health_watched; the ports are about to begin
 *
 * Returns 0; -ENOMEM. Threads: all of these: the main loop's.
 */
int mt_health_watch_start(struct mt_gateway *gateway);
/* mt_health_watch_stop -- look no more; again: a no-op. */
void mt_health_watch_stop(struct mt_gateway *gateway);
/* mt_health_watch_fini -- nobody runs the ports' loops any more. */
void mt_health_watch_fini(struct mt_gateway *gateway);
/* mt_health_watch_rates -- how room was used lately, as far as the looks have seen it; zeros where there were none. */
void mt_health_watch_rates(const struct mt_gateway *gateway, struct mt_room_rates *ret_rates);
/* mt_health_watch_clients -- mt_client_rates_grown, of what the looks have seen; zeros where there were none. */
void mt_health_watch_clients(const struct mt_gateway *gateway, struct mt_client_sample *ret_grown);
/* mt_health_watch_date -- mt_health_changes_date by what was seen so far. */
void mt_health_watch_date(const struct mt_gateway *gateway, struct mt_health *health);
/* mt_health_watch_judge -- adds what is known from looks alone: whether the next gateway answers, and the store. */
void mt_health_watch_judge(const struct mt_gateway *gateway, struct mt_health *health);

#endif /* CLEAVE_MIDDLETIER_HEALTH_HEALTH_WATCH_H */
