#!/usr/bin/env bash
# Say whether a report names a total.
grep -q "in total" "$1" && echo "$1 is complete"
