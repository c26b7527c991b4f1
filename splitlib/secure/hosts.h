/* SPDX-License-Identifier: Apache-2.0 */
/* hosts.h -- hosts that a certificate names, by which clients of TLS know a server: DNS names and IP addresses (SANs) */
#ifndef CLEAVE_SECURE_HOSTS_H
#define CLEAVE_SECURE_HOSTS_H

struct gnutls_x509_crt_int; /* what gnutls_x509_crt_t points to */

#define HOSTS_MAX 16u
#define HOSTS_NAME_BYTES 254u /* of a DNS name, its end included */

struct hosts {
	char names[HOSTS_MAX][HOSTS_NAME_BYTES]; /* as people write them */
	unsigned count;
};

/*
 * hosts_add -- one more: "gw1.example", "10.0.0.1", "fd00::1"
 *
 * Returns 0, also where it is among them; -EINVAL: neither a name nor an address, or one that stands for many (*);
 * -ENOSPC: HOSTS_MAX.
 */
int hosts_add(struct hosts *hosts, const char *text);
/* hosts_of -- those of @certificate; what hosts_add would not take, and what is beyond HOSTS_MAX, is left out. */
void hosts_of(struct gnutls_x509_crt_int *certificate, struct hosts *ret);
/* hosts_put -- into @certificate, which has none yet. 0, or a negative error of GnuTLS. */
int hosts_put(const struct hosts *hosts, struct gnutls_x509_crt_int *certificate);

#endif /* CLEAVE_SECURE_HOSTS_H */
