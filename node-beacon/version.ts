/** The release. A test holds it equal to package.json: a compiled beacon has no package.json beside it. */
export const VERSION = '0.1.0';

/** How the beacon names itself in beats and requests. */
export const BEACON_NAME = `farpulse-beacon/${VERSION}`;
