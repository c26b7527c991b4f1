/* SPDX-License-Identifier: Apache-2.0 */
/* control_slow.h -- slow: requests of clients that took long, page by page */
#ifndef CLEAVE_MIDDLETIER_CONTROL_CONTROL_SLOW_H
#define CLEAVE_MIDDLETIER_CONTROL_CONTROL_SLOW_H

struct mt_control_request;

/* mt_control_slow -- those behind the number that the request names, oldest first, as many as an answer holds. */
void mt_control_slow(struct mt_control_request *request);

#endif /* CLEAVE_MIDDLETIER_CONTROL_CONTROL_SLOW_H */
