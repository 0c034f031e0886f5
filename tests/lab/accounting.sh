#!/bin/bash
# Slurm's accounting, with a database of its own that nobody else can reach.
#   accounting.sh SLURM_CONF DATABASE_FOLDER
set -eu
export SLURM_CONF=$1
mkdir -p "$2" /run/mysqld
socket=/run/mysqld/mysqld.sock

mariadbd --no-defaults --user=root --datadir="$2" --socket=$socket --skip-networking --skip-grant-tables \
  --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M --innodb-log-file-size=16M &
until [ -S $socket ]; do
  sleep 0.05
done
exec slurmdbd -D
