#!/bin/sh
# Installs the farpulse beacon on a machine with systemd, or brings it up to date; run again, it changes nothing.
#
#   install.sh EXECUTABLE [--settings FILE]   the executable of this machine's kind, and the file for /etc/farpulse/beacon.env
#   install.sh --uninstall [--purge]          stops and removes it; with --purge also its key and settings
#
# Beside this script: the folder systemd/ (or ../systemd). DESTDIR installs below another root and starts nothing.
# Prints "changed" or "unchanged" at the end, for Ansible's changed_when. Exit status: 0, or 1 with the reason.
set -eu

ROOT=${DESTDIR:-}
UNITS='farpulse-beacon.service farpulse-beacon-key.service farpulse-beacon-enrol.service
farpulse-beacon-enrol.path farpulse-beacon-enrol.timer'
STARTED='farpulse-beacon.service farpulse-beacon-enrol.path farpulse-beacon-enrol.timer'
UNIT_FOLDER=$ROOT/etc/systemd/system
changed=

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

# To a draft first: an executable that runs cannot be overwritten, and a power cut leaves the old file.
place() {
  if [ -e "$2" ] && cmp -s "$1" "$2"; then return; fi
  mkdir -p "$(dirname "$2")"
  cp "$1" "$2.draft"
  chmod "$3" "$2.draft"
  mv -f "$2.draft" "$2"
  changed=yes
}

discard() {
  if [ -e "$1" ]; then
    rm -rf "$1"
    changed=yes
  fi
}

report() {
  if [ -n "$changed" ]; then echo changed; else echo unchanged; fi
}

[ -n "$ROOT" ] || [ "$(id -u)" = 0 ] || fail 'run it as root'

if [ "${1:-}" = --uninstall ]; then
  if [ -z "$ROOT" ] && [ -e "$UNIT_FOLDER/farpulse-beacon.service" ]; then
    # It says goodbye; then its Node stays as it is, and `kubectl annotate node NAME farpulse/beacon-key-` voids its key.
    # shellcheck disable=SC2086
    systemctl disable --quiet --now $STARTED
  fi
  for unit in $UNITS; do discard "$UNIT_FOLDER/$unit"; done
  discard "$ROOT/usr/bin/farpulse-beacon"
  discard "$ROOT/etc/sysusers.d/farpulse-beacon.conf"
  if [ "${2:-}" = --purge ]; then
    for folder in var/lib/farpulse var/lib/farpulse-beacon etc/farpulse; do discard "$ROOT/$folder"; done
  fi
  if [ -z "$ROOT" ] && [ -n "$changed" ]; then systemctl daemon-reload; fi
  report
  exit 0
fi

executable=${1:-}
[ -n "$executable" ] || fail 'which executable? Usage: install.sh EXECUTABLE [--settings FILE], or --uninstall [--purge]'
[ -f "$executable" ] || fail "$executable is not there"
settings=
if [ "${2:-}" = --settings ]; then
  settings=${3:-}
  [ -f "$settings" ] || fail "$settings is not there"
elif [ -n "${2:-}" ]; then
  fail "$2: expected --settings FILE"
fi

here=$(cd "$(dirname "$0")" && pwd)
systemd=$here/systemd
[ -d "$systemd" ] || systemd=$here/../systemd
[ -d "$systemd" ] || fail "the folder systemd/ is not beside $0"

# A wrong executable (another architecture, musl) is noticed before anything is replaced.
chmod +x "$executable"
"$executable" --version >/dev/null 2>&1 || fail "$executable does not run on this machine: is it for its architecture and C library?"

for unit in $UNITS; do place "$systemd/$unit" "$UNIT_FOLDER/$unit" 644; done
place "$systemd/farpulse-beacon.sysusers" "$ROOT/etc/sysusers.d/farpulse-beacon.conf" 644
place "$executable" "$ROOT/usr/bin/farpulse-beacon" 755
# Of root alone: it may hold a proxy's password.
if [ -n "$settings" ]; then place "$settings" "$ROOT/etc/farpulse/beacon.env" 600; fi

if [ -z "$ROOT" ]; then
  [ -e /etc/farpulse/beacon.env ] || fail "/etc/farpulse/beacon.env is missing: give --settings FILE (see $systemd/beacon.env.example)"
  if [ -n "$changed" ]; then
    systemd-sysusers farpulse-beacon.conf
    systemctl daemon-reload
    systemctl enable --quiet farpulse-beacon.service
    # Its goodbye says that only the beacon leaves: a restart raises no alarm.
    systemctl restart farpulse-beacon.service
  elif ! systemctl is-active --quiet farpulse-beacon.service; then
    systemctl enable --quiet --now farpulse-beacon.service
    changed=yes
  fi
fi
report
