/** What an installation is made of besides the executable: from the beacon's folder, to where it goes. */
export const INSTALLED_FILES: readonly (readonly [from: string, to: string])[] = [
  ...[
    'farpulse-beacon.service',
    'farpulse-beacon-key.service',
    'farpulse-beacon-enrol.service',
    'farpulse-beacon-enrol.path',
    'farpulse-beacon-enrol.timer',
  ].map((unit) => [`systemd/${unit}`, `usr/lib/systemd/system/${unit}`] as const),
  ['systemd/farpulse-beacon.sysusers', 'usr/lib/sysusers.d/farpulse-beacon.conf'],
  ['systemd/beacon.env.example', 'usr/share/doc/farpulse-beacon/beacon.env.example'],
  ['../LICENSE', 'usr/share/doc/farpulse-beacon/copyright'],
];
