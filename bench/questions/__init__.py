# SPDX-License-Identifier: Apache-2.0
"""The questions of bench/run: each is asked several times in one run and answered by medians."""
