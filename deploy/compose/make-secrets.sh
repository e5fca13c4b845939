#!/bin/sh
# Makes the files that docker-compose.yml gives to its services, in secrets/: passwords that are in .env go there, others are made up.
# What is there stays. Another file than .env can be named; its SECRETS says where they go.
set -eu
settings=${1:-.env}

# Without the quotes around it.
setting() {
  [ ! -f "$settings" ] || sed -n "s/^$1=//p" "$settings" | tail -n 1 | sed -e "s/^'\(.*\)'\$/\1/" -e 's/^"\(.*\)"$/\1/'
}

folder=$(setting SECRETS)
folder=${folder:-secrets}
# Only its owner can enter the folder; the files can be read by whichever user a container runs as. Their owner can write into them: a
# container keeps the file that was there at its start.
mkdir -p "$folder"
chmod 700 "$folder"
for name in postgres_password worker_password bi_password redis_password admin_token api_key; do
  file=$folder/$name
  [ ! -s "$file" ] || continue
  value=$(setting "$(echo "$name" | tr a-z A-Z)")
  if [ -z "$value" ] && [ "$name" = api_key ]; then
    echo "$file is missing, and $settings has no API_KEY: write the key of the integration user into that file." >&2
    exit 1
  fi
  printf '%s' "${value:-$(openssl rand -hex 24)}" > "$file"
  chmod 644 "$file"
  echo "made $file"
done
