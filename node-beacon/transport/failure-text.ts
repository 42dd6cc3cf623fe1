import { clip, codeOf, whyOf } from '../text.ts';

const UNKNOWN_AUTHORITY =
  'the certificate is of an authority unknown here: something in between ends TLS, or its CA is not installed';
const NO_TLS = 'the other side does not speak TLS: a wrong port, or something in between';

/** What a code means to the person who has to act. */
const MEANINGS: Readonly<Record<string, string>> = {
  ENOTFOUND: 'no such name',
  EAI_AGAIN: 'the resolver gives no answer',
  ECONNREFUSED: 'nobody listens there, or a firewall rejects', // bun says this where there is no route, too
  ECONNRESET: 'the connection was cut',
  EHOSTUNREACH: 'no way to that address',
  ENETUNREACH: 'no route to that network',
  EACCES: 'forbidden by a rule on this node',
  EPERM: 'forbidden by a rule on this node',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another name',
};

/** The same where the system's own words add nothing. */
const WHOLE_MEANINGS: Readonly<Record<string, string>> = {
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_AUTHORITY,
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT: UNKNOWN_AUTHORITY,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNKNOWN_AUTHORITY,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_AUTHORITY,
  CERT_HAS_EXPIRED: "the certificate has expired, or this node's clock is wrong",
  CERT_NOT_YET_VALID: "the certificate is not valid yet, or this node's clock is wrong",
  ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: NO_TLS,
  EPROTO: NO_TLS,
};

/** One line for an error on the way: what it means, and the words and the code that can be searched for. */
export function explain(error: unknown): string {
  const code = codeOf(error) ?? codeOf(firstOf(error));
  const said = whyOf(error).replace("Hostname/IP does not match certificate's altnames: ", '');
  if (code === undefined) return said;
  const whole = WHOLE_MEANINGS[code];
  if (whole !== undefined) return clip(`${whole} (${code})`);
  const named = said.includes(code) ? said : `${code}: ${said}`;
  const meaning = MEANINGS[code];
  return clip(meaning === undefined ? named : `${meaning} (${named})`);
}

/** Several addresses were tried: the first of their errors speaks for all. */
function firstOf(error: unknown): unknown {
  return error instanceof AggregateError ? error.errors[0] : undefined;
}
